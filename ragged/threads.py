"""Work on several threads: plain Python ones, because the kernels release the GIL.

Unlike Numba's OpenMP pool they change nothing about torch's threads, don't spin when idle, may be used from
several threads at once, and leave a forked child alive.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from .copy_kernels import gather_items
from .validation import checked_count

#: Below this many bytes the 30 to 60 µs that handing work to a thread costs are more than it saves.
PARALLEL_BYTES = 1 << 20

_num_threads = 1
_pool: ThreadPoolExecutor | None = None
_pool_process = 0  # a forked child has none of its parent's threads


def set_num_threads(num_threads: int) -> None:
    """Let large gathers of this process use that many threads; one, unless this is called.

    More than one pays where the processors are idle: a gather waits for the slowest of its threads.

    Raises:
        ValueError: not an integer of 1 or more.
    """
    global _num_threads
    if checked_count(num_threads, "num_threads") == 0:
        raise ValueError("num_threads: expected at least 1, got 0")
    _num_threads = int(num_threads)


def get_num_threads() -> int:
    """Return the number of threads of a large gather."""
    return _num_threads


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS and Windows
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


#: Does the work of a share: run(share, first, last).
Run = Callable[[int, int, int], None]


def run_shares(bounds: list[int], run: Run) -> None:
    """Call `run` for each share [bounds[s], bounds[s + 1]), the first in this thread, and wait for all."""
    global _pool, _pool_process
    if _pool is None or _pool_process != os.getpid():
        # It starts threads when they are needed, so this is only the most there may be.
        _pool, _pool_process = ThreadPoolExecutor(os.cpu_count(), "entitize-kernel"), os.getpid()
    others = [_pool.submit(run, s, bounds[s], bounds[s + 1]) for s in range(1, len(bounds) - 1)]
    try:
        run(0, bounds[0], bounds[1])
    finally:
        for other in others:
            other.result()


def gather_on_threads(
    source: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    indices: NDArray[np.int64],
    target: NDArray[np.uint8],
    target_offsets: NDArray[np.int64],
    size: int,
) -> None:
    """`gather_items` on `get_num_threads()` threads where the result is large, with equal bytes for each."""
    threads = _num_threads
    if threads == 1 or len(target) < PARALLEL_BYTES:
        gather_items(source, offsets, indices, target, target_offsets, size)
        return

    def run(_: int, first: int, last: int) -> None:
        places = target_offsets[first : last + 1]
        gather_items(source, offsets, indices[first:last], target, places, size)

    items = target_offsets[-1] * np.arange(threads + 1) // threads
    bounds = np.searchsorted(target_offsets, items)
    bounds[0], bounds[-1] = 0, len(indices)
    run_shares(bounds.tolist(), run)
