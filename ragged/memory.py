"""Keeping freed memory, so that large arrays that come and go cost no page faults."""

from __future__ import annotations

import ctypes
import functools

# Parameters of glibc's mallopt(3).
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3

#: The largest block that glibc lets us keep: half of its HEAP_MAX_SIZE on 64-bit systems. Bytes.
_LARGEST_BLOCK = 32 << 20
#: By how much the heap grows at a time. Bytes.
_GROWTH = 64 << 20
_NEVER = 2**31 - 1


@functools.cache
def keep_freed_memory() -> bool:
    """Have the C library hold on to freed blocks of up to 32 MiB, for the whole process.

    By default glibc returns large freed blocks to the system (at once, or when twice the largest of them is
    free), and the next ones cost a page fault for every 4 KiB. Batches and minibatches are such blocks,
    thousands of times; the faults were up to half of Procgen's decoding (`benchmarks/procgen_states.py`).
    The price is that the process stays as large as it once was. The trainer and Procgen's vector environment
    call this.

    Returns:
        whether the C library could be asked; false where it is not glibc.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, TypeError, AttributeError):  # Windows, macOS, musl
        return False
    options = ((_MMAP_THRESHOLD, _LARGEST_BLOCK), (_TRIM_THRESHOLD, _NEVER), (_TOP_PAD, _GROWTH))
    accepted = [mallopt(name, value) for name, value in options]
    return accepted == [1, 1, 1]
