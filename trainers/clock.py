"""Where the time goes, at the cost of two clock readings per lap."""

from __future__ import annotations

import time
from collections import defaultdict


class Clock:
    """Adds up the seconds between laps under the names that the laps give them.

    `wall` are seconds of real time, `cpu` seconds of processor time of all threads of this process.
    """

    def __init__(self) -> None:
        self.wall: defaultdict[str, float] = defaultdict(float)
        self.cpu: defaultdict[str, float] = defaultdict(float)
        self._last = (time.perf_counter(), time.process_time())

    def start(self) -> None:
        """The time until now belongs to nobody."""
        self._last = (time.perf_counter(), time.process_time())

    def lap(self, name: str) -> None:
        """The time since the last lap belongs to `name`."""
        now = (time.perf_counter(), time.process_time())
        self.wall[name] += now[0] - self._last[0]
        self.cpu[name] += now[1] - self._last[1]
        self._last = now

    def clear(self) -> None:
        """Begin again at zero."""
        self.wall.clear()
        self.cpu.clear()
        self.start()
