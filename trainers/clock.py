"""Time spent in each part of training, at the cost of three clock readings per lap."""

from __future__ import annotations

import time
from collections import defaultdict


class Clock:
    """Adds up the seconds between laps under the names that the laps give them.

    `wall` are seconds of real time, `cpu` seconds of processor time of all threads of this process, and `own`
    those of the thread that asks alone. What `own` lacks of `cpu` ran on other threads, beside it.
    """

    def __init__(self) -> None:
        self.wall: defaultdict[str, float] = defaultdict(float)
        self.cpu: defaultdict[str, float] = defaultdict(float)
        self.own: defaultdict[str, float] = defaultdict(float)
        self._last = _now()

    def start(self) -> None:
        """The time until now belongs to nobody."""
        self._last = _now()

    def lap(self, name: str) -> None:
        """The time since the last lap belongs to `name`."""
        now = _now()
        self.wall[name] += now[0] - self._last[0]
        self.cpu[name] += now[1] - self._last[1]
        self.own[name] += now[2] - self._last[2]
        self._last = now

    def clear(self) -> None:
        """Begin again at zero."""
        self.wall.clear()
        self.cpu.clear()
        self.own.clear()
        self.start()


def _now() -> tuple[float, float, float]:
    return time.perf_counter(), time.process_time(), time.thread_time()
