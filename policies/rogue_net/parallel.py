"""Splitting sequences over threads.

The kernels release the GIL, so plain Python threads are enough; unlike an OpenMP pool they don't spin when
idle, and a forked child starts without them instead of being killed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from numpy.typing import NDArray

#: Below this many rows a second thread costs more than it saves (its start takes some 50 µs).
ROWS_PER_THREAD = 2048

_pool: ThreadPoolExecutor | None = None
_pool_owner: tuple[int, int] = (0, 0)  # process and number of threads that the pool was made for


def _workers(threads: int) -> ThreadPoolExecutor:
    global _pool, _pool_owner
    if _pool is None or _pool_owner != (os.getpid(), threads):
        _pool = ThreadPoolExecutor(threads - 1, thread_name_prefix="entitize-kernel")
        _pool_owner = (os.getpid(), threads)
    return _pool


def shares(offsets: NDArray[np.int64], parts: int) -> NDArray[np.int64]:
    """Cut B sequences into `parts` runs of about equal work: bounds (parts + 1,) from 0 to B.

    A row costs its matrix products, which are the same for all, plus attention over its sequence.
    """
    lengths = np.diff(offsets)
    work = np.cumsum(lengths * (lengths + 64.0))
    bounds = np.zeros(parts + 1, np.int64)
    if len(work):
        bounds[1:-1] = np.searchsorted(work, work[-1] * np.arange(1, parts) / parts)
    bounds[-1] = len(lengths)
    return bounds


def max_shares(offsets: NDArray[np.int64]) -> int:
    """How many shares `over_sequences` makes at most."""
    return max(1, min(torch.get_num_threads(), int(offsets[-1]) // ROWS_PER_THREAD))


def over_sequences(offsets: NDArray[np.int64], run: Callable[[int, int, int], None]) -> None:
    """Call run(share, first, last) for runs of sequences, on the threads that torch may use and it fills."""
    threads = max_shares(offsets)
    bounds = shares(offsets, threads).tolist()
    if threads == 1:
        run(0, *bounds)
        return
    others = [
        _workers(threads).submit(run, share, bounds[share], bounds[share + 1]) for share in range(1, threads)
    ]
    run(0, bounds[0], bounds[1])
    for other in others:
        other.result()
