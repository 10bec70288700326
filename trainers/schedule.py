"""Schedules of training, the seconds of each part of it, and its number of threads. Loads without torch."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from ..ragged import available_cores, get_num_threads, set_num_threads


def annealed(initial: float, fraction_done: float) -> float:
    """`initial`, falling linearly to 0 as `fraction_done` rises to 1; 0 beyond."""
    return initial * max(0.0, 1.0 - fraction_done)


def is_due(steps_before: int, steps_after: int, interval: int) -> bool:
    """Return True if a multiple of `interval` lies in (steps_before, steps_after]."""
    return steps_after // interval > steps_before // interval


class Clock:
    """Adds up the seconds between laps under the names that the laps give them.

    `wall` are seconds of real time, `cpu` seconds of processor time of all threads of this process, and `own`
    those of the calling thread alone. What `own` lacks of `cpu` ran on other threads, beside it.
    """

    def __init__(self) -> None:
        self.wall: defaultdict[str, float] = defaultdict(float)
        self.cpu: defaultdict[str, float] = defaultdict(float)
        self.own: defaultdict[str, float] = defaultdict(float)
        self.start()

    def start(self) -> None:
        """Count the time from now on; the time before belongs to no lap."""
        self._last = time.perf_counter(), time.process_time(), time.thread_time()

    def lap(self, name: str) -> None:
        """Add the time since the last lap to `name`."""
        before = self._last
        self.start()
        for seconds, now, then in zip((self.wall, self.cpu, self.own), self._last, before, strict=True):
            seconds[name] += now - then

    def clear(self) -> None:
        """Begin again at zero."""
        for seconds in (self.wall, self.cpu, self.own):
            seconds.clear()
        self.start()


@contextmanager
def thread_count(num_threads: int | None) -> Iterator[None]:
    """Run with that many threads of torch, which the kernels use as well, and of ragged gathers.

    None: as many as this process has cores.
    """
    import torch

    before = get_num_threads(), torch.get_num_threads()
    chosen = available_cores() if num_threads is None else num_threads
    set_num_threads(chosen)
    torch.set_num_threads(chosen)
    try:
        yield
    finally:
        set_num_threads(before[0])
        torch.set_num_threads(before[1])
