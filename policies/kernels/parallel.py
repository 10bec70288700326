"""Threads for sequences, and scratch memory; `ragged.threads` says why threads are plain Python ones."""

from __future__ import annotations

import sys
import threading

import numpy as np
from numpy.typing import NDArray

from ...process import is_on
from ...ragged.threads import Run, get_num_threads, run_shares
from .tiles.simd import LANES

#: Below this many rows a second thread costs more than it saves (its start takes some 50 µs).
ROWS_PER_THREAD = 2048

_local = threading.local()


def workspace(size: int) -> NDArray[np.float32]:
    """Return at least `size` numbers of scratch memory for this thread, with anything in them.

    Kept from call to call: fresh memory costs a page fault per 4 KB, more than a small batch's arithmetic. It
    starts where a cache line does, so that no vector of 16 lies in two.
    """
    scratch: NDArray[np.float32] | None = getattr(_local, "scratch", None)
    if scratch is None or len(scratch) < size:
        memory = np.zeros(size + LANES, np.float32)
        scratch = _local.scratch = memory[-memory.ctypes.data // memory.itemsize % LANES :]
    return scratch


def _references(arrays: list[NDArray[np.float32]]) -> list[int]:
    return [sys.getrefcount(array) for array in arrays]


#: The reference count of an array that only its list holds.
(_UNREFERENCED,) = _references([np.zeros(0, np.float32)])

#: Smaller arrays are allocated faster than looked up; larger ones are not worth keeping.
_SMALLEST_RECYCLED, _LARGEST_RECYCLED = 1 << 12, 1 << 24


def recycled(size: int) -> NDArray[np.float32]:
    """Return an array (size,) with anything in it, in memory of an earlier one that is no longer referenced.

    For arrays as large as a batch that live as long as its evaluation; see `workspace` for why.
    """
    if not _SMALLEST_RECYCLED <= size <= _LARGEST_RECYCLED or not is_on("reuse_arrays"):
        return np.empty(size, np.float32)
    if not hasattr(_local, "recycled"):
        _local.recycled = []
    arrays: list[NDArray[np.float32]] = _local.recycled
    references = _references(arrays)
    fitting = [
        (len(array), i)
        for i, array in enumerate(arrays)
        if len(array) >= size and references[i] == _UNREFERENCED
    ]
    if fitting:
        return arrays[min(fitting)[1]][:size]
    for i in reversed(range(len(arrays))):
        if references[i] == _UNREFERENCED:  # too small now, and so it would be every time
            del arrays[i]
    arrays.append(np.empty(size + size // 8, np.float32))
    return arrays[-1][:size]


def sequence_shares(offsets: NDArray[np.int64], parts: int) -> NDArray[np.int64]:
    """Cut B sequences into `parts` runs of about equal work; return bounds (parts + 1,) from 0 to B.

    A row costs its matrix products, which are the same for all, plus attention over its sequence.
    """
    lengths = np.diff(offsets)
    work = np.cumsum(lengths * (lengths + 64.0))
    bounds = np.zeros(parts + 1, np.int64)
    if len(work):
        bounds[1:-1] = np.searchsorted(work, work[-1] * np.arange(1, parts) / parts)
    bounds[-1] = len(lengths)
    return bounds


def allowed_threads() -> int:
    """Return as many threads as torch may use; where torch is not loaded, as large gathers may."""
    torch = sys.modules.get("torch")
    return get_num_threads() if torch is None else int(torch.get_num_threads())


def row_shares(rows: int) -> int:
    """Return the number of shares for `rows` rows: one per allowed thread, as far as the work fills them."""
    return 1 if rows < 2 * ROWS_PER_THREAD else min(allowed_threads(), rows // ROWS_PER_THREAD)


def over_sequences(offsets: NDArray[np.int64], run: Run) -> None:
    """Call `run` for `row_shares(offsets[-1])` runs of sequences, each on a thread of its own."""
    threads = row_shares(int(offsets[-1]))
    if threads == 1:
        run(0, 0, len(offsets) - 1)
    else:
        run_shares(sequence_shares(offsets, threads).tolist(), run)


def over_rows(rows: int, run: Run) -> None:
    """Call `run` for `row_shares(rows)` equal runs of rows, each on a thread of its own."""
    threads = row_shares(rows)
    if threads == 1:
        run(0, 0, rows)
    else:
        run_shares([rows * share // threads for share in range(threads + 1)], run)
