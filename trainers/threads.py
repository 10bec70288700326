"""How many threads torch and Numba use, for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numba
import torch


@contextmanager
def thread_count(num_threads: int) -> Iterator[None]:
    """Run with that many threads of torch and Numba (Numba: as many as it was started with, at most).

    Numba comes first: where its threads start for the first time, they change the number of torch's as well,
    because both use the same OpenMP.
    """
    before = numba.get_num_threads(), torch.get_num_threads()
    _set(num_threads, num_threads)
    try:
        yield
    finally:
        _set(*before)


def _set(of_numba: int, of_torch: int) -> None:
    numba.set_num_threads(min(of_numba, numba.config.NUMBA_NUM_THREADS))
    torch.set_num_threads(of_torch)
