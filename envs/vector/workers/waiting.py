"""Waiting for another process: wide awake for a moment, then asleep.

To wake a process that sleeps takes the system 50 microseconds and more, as long as a step of many games. A
process that asks again and again hears of a message at once, but it keeps a core from those that have
something to do. So it asks only where every process has a core, only for a moment, and only while the waits
before have been as short. What it asks is whether there is something in a pipe, which also tells when the
process at the other end has died.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Sequence
from multiprocessing import connection
from multiprocessing.connection import Connection

from ....ragged import available_cores

#: For how long a process stays awake. Seconds.
AWAKE = 5e-4


def awake_time(num_processes: int) -> float:
    """For how many seconds each of `num_processes` may stay awake: none where they share cores."""
    return AWAKE if num_processes <= available_cores() else 0.0


class Waiter:
    """Waits until at least one of some connections can be read: there is a message, or its end.

    Args:
        connections: what to wait for.
        awake: for how many seconds it stays awake, 0: not at all.
    """

    def __init__(self, connections: Sequence[Connection], awake: float = 0.0) -> None:
        self._connections = list(connections)
        self._awake = awake
        self._short = True  # whether the last wait took less
        self._poll = select.poll() if hasattr(select, "poll") else None  # Windows has none
        if self._poll is not None:
            for one in self._connections:
                self._poll.register(one.fileno(), select.POLLIN)
        self._indices = {one.fileno(): index for index, one in enumerate(self._connections)}

    def wait(self) -> list[int]:
        """The indices of the connections that can be read."""
        if self._poll is None:
            return [self._connections.index(one) for one in connection.wait(self._connections)]  # type: ignore[arg-type]
        end = time.perf_counter() + self._awake
        events = self._poll.poll(0)
        while not events and self._short and time.perf_counter() < end:
            os.sched_yield()  # to a thread that is to run on this core, such as Java's
            events = self._poll.poll(0)
        if not events:
            events = self._poll.poll()
        self._short = time.perf_counter() < end
        return [self._indices[number] for number, _ in events]
