"""For the tests of games that ask."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from waiting import wait_until


@pytest.fixture(autouse=True)
def no_thread_is_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("ENTITIZE_TOKEN", raising=False)
    before = set(threading.enumerate())
    yield
    wait_until(lambda: set(threading.enumerate()) <= before)
