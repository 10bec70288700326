"""When a gather is shared out over Numba's threads."""

from __future__ import annotations

import os
import threading
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from .copy_kernels import gather_items, gather_items_in_threads

#: Below this many bytes the 5 to 20 µs that waking the threads costs are more than they save.
PARALLEL_BYTES = 256 * 1024

#: The process that loaded this module: OpenMP kills a forked child that enters a parallel kernel.
_HOME_PROCESS = os.getpid()

#: Not every threading layer of Numba survives two callers at once, so the second one copies by itself.
_threads_in_use = threading.Lock()


def gather_in_threads_if_large(
    source: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    indices: NDArray[np.int64],
    target: NDArray[np.uint8],
    target_offsets: NDArray[np.int64],
    size: int,
) -> None:
    """`gather_items` on as many threads as `numba.get_num_threads()` says, where that pays and is safe."""
    arguments: tuple[Any, ...] = (source, offsets, indices, target, target_offsets, size)
    if (
        len(target) < PARALLEL_BYTES
        or os.getpid() != _HOME_PROCESS
        or numba.get_num_threads() == 1
        or not _threads_in_use.acquire(blocking=False)
    ):
        gather_items(*arguments)
        return
    try:
        gather_items_in_threads(*arguments)
    finally:
        _threads_in_use.release()
