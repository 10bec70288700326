"""For the tests of games that ask."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def no_thread_is_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("ENTITIZE_TOKEN", raising=False)
    before = set(threading.enumerate())
    yield
    end = time.monotonic() + 5
    while set(threading.enumerate()) - before:
        assert time.monotonic() < end, threading.enumerate()
        time.sleep(0.01)
