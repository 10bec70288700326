"""Waiting for other processes, with a clock that shows what it is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from multiprocessing import Pipe
from typing import Any

import pytest
from entitize.envs.vector.workers import waiting
from entitize.envs.vector.workers.waiting import AWAKE, Waiter, awake_time


class Clock:
    """Stands in for the system's `poll`: a look takes a tenth of the time that one stays awake, and what was
    announced happens in its time."""

    def __init__(self, poll: Any) -> None:
        self._poll = poll
        self.now, self.looks, self.sleeps = 0.0, 0, 0

    def announce(self, delay: float, event: Callable[[], Any]) -> None:
        self._due, self._event = self.now + delay, event
        self.looks = self.sleeps = 0

    def poll(self, timeout: int | None = None) -> Any:
        if timeout is None:
            self.sleeps += 1
            self.now = max(self.now, self._due)
        else:
            self.looks += 1
            self.now += AWAKE / 10
        if self.now >= self._due:
            self._event()
            self._due = float("inf")
        return self._poll.poll(0)


class Place:
    """Two pipes, somebody who waits at both, and the clock."""

    def __init__(self, awake: float) -> None:
        self.near, self.far = zip(*(Pipe() for _ in range(2)), strict=True)
        self.waiter = Waiter(self.near, awake)
        self.clock = Clock(self.waiter._poll)
        self.waiter._poll = self.clock  # type: ignore[assignment]

    def looks_and_sleeps(self, delay: float) -> tuple[int, int]:
        """Wait for a message that comes after `delay`."""
        self.clock.announce(delay, lambda: self.far[1].send("word"))
        assert self.waiter.wait() == [1]
        assert self.near[1].recv() == "word"
        return self.clock.looks, self.clock.sleeps


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[float], Place]]:
    places: list[Place] = []

    def make(awake: float) -> Place:
        places.append(Place(awake))
        monkeypatch.setattr(waiting.time, "perf_counter", lambda: places[-1].clock.now)
        return places[-1]

    yield make
    for one in places:
        for end in (*one.near, *one.far):
            end.close()


def test_it_stays_awake_for_a_moment_and_only_while_waits_are_short(place: Any) -> None:
    here = place(AWAKE)
    assert here.looks_and_sleeps(0.45 * AWAKE) == (5, 0)
    assert here.looks_and_sleeps(0.0) == (1, 0)
    looks, sleeps = here.looks_and_sleeps(100 * AWAKE)  # too long
    assert 9 <= looks <= 11 and sleeps == 1
    assert here.looks_and_sleeps(100 * AWAKE) == (1, 1)  # as it was the last time, so it does not even try
    assert here.looks_and_sleeps(0.45 * AWAKE) == (1, 1)  # shorter than expected
    assert here.looks_and_sleeps(0.45 * AWAKE) == (5, 0)


def test_without_a_core_to_spare_it_sleeps_at_once(place: Any) -> None:
    here = place(0.0)
    for delay in (100 * AWAKE, 0.45 * AWAKE, 0.45 * AWAKE):
        assert here.looks_and_sleeps(delay) == (1, 1)


@pytest.mark.parametrize("awake", [AWAKE, 0.0])
def test_the_end_of_a_pipe_ends_the_waiting(place: Any, awake: float) -> None:
    here = place(awake)
    here.clock.announce(0.45 * AWAKE, here.far[0].close)
    assert here.waiter.wait() == [0]
    with pytest.raises(EOFError):
        here.near[0].recv()


def test_systems_without_poll_are_asked_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(waiting.select, "poll")
    near, far = Pipe()
    with near, far:
        far.send("word")
        assert Waiter([near], AWAKE).wait() == [0]


def test_every_process_needs_a_core_to_stay_awake_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 3, 5}, raising=False)
    assert [awake_time(processes) for processes in (2, 3, 4)] == [AWAKE, AWAKE, 0.0]
