"""Temporary numbers of threads for torch and gathers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from ..ragged import available_cores, get_num_threads, set_num_threads


@contextmanager
def thread_count(num_threads: int | None) -> Iterator[None]:
    """Run with that many threads of torch, which the kernels go by as well, and of ragged gathers.

    None: as many as this process has cores.
    """
    if num_threads is None:
        num_threads = available_cores()
    before = get_num_threads(), torch.get_num_threads()
    _set(num_threads, num_threads)
    try:
        yield
    finally:
        _set(*before)


def _set(of_ragged: int, of_torch: int) -> None:
    set_num_threads(of_ragged)
    torch.set_num_threads(of_torch)
