"""Waiting for what other threads and processes do."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

#: Seconds, far more than anything here takes on a busy machine: whoever waits for longer waits in vain.
PATIENCE = 300.0


def wait_until(condition: Callable[[], object]) -> None:
    """Return as soon as `condition` holds."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "what was waited for has not happened"
        time.sleep(0.02)


def steps_in(folder: Path) -> list[int]:
    """The steps of the metrics that a run has written so far."""
    path = folder / "metrics.jsonl"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line)["step"] for line in lines if line.endswith("\n")]  # the last may be half written
