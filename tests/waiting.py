"""Waiting for what other threads and processes do."""

from __future__ import annotations

import time
from collections.abc import Callable

#: Seconds, far more than anything here takes on a busy machine: whoever waits for longer waits in vain.
PATIENCE = 300.0


def wait_until(condition: Callable[[], object]) -> None:
    """Return as soon as `condition` holds."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "what was waited for has not happened"
        time.sleep(0.02)
