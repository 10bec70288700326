"""Keeping freed memory, so that large arrays that come and go cost no page faults."""

from __future__ import annotations

import ctypes
import functools

from ..process import is_on

# Parameters of glibc's mallopt(3).
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3

#: The largest block that glibc lets us keep: half of its HEAP_MAX_SIZE on 64-bit systems. Bytes.
_LARGEST_BLOCK = 32 << 20
#: By how much the heap grows at a time. Bytes.
_GROWTH = 64 << 20
_NEVER = 2**31 - 1


#: glibc's own values. Bytes.
_USUAL = 128 << 10


def keep_freed_memory() -> bool:
    """Have the C library keep freed blocks of up to 32 MiB, for the whole process, if this is switched on.

    By default glibc returns large freed blocks to the system (at once, or when twice the largest of them is
    free), and the next ones cost a page fault for every 4 KiB. Batches and minibatches are such blocks,
    thousands of times; the faults took up to half of Procgen's decoding. The price is that the process stays
    as large as it once was. Trainers and vector environments of large batches call this; the switch is
    `entitize.process.switch("keep_freed_memory", False)`.

    Returns:
        whether the C library keeps them; false where it is not glibc.
    """
    if not is_on("keep_freed_memory"):
        return False
    return _set_thresholds(_LARGEST_BLOCK, _NEVER, _GROWTH)


def return_freed_memory() -> bool:
    """Undo `keep_freed_memory`: return what is free to the system, now and from now on.

    Returns:
        whether the C library could be asked; false where it is not glibc.
    """
    if not _set_thresholds(_USUAL, _USUAL, _USUAL):
        return False
    ctypes.CDLL(None).malloc_trim(0)
    return True


@functools.lru_cache(maxsize=1)  # nothing to do where the values have not changed
def _set_thresholds(mmap: int, trim: int, growth: int) -> bool:
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, TypeError, AttributeError):  # Windows, macOS, musl
        return False
    options = ((_MMAP_THRESHOLD, mmap), (_TRIM_THRESHOLD, trim), (_TOP_PAD, growth))
    return [mallopt(name, value) for name, value in options] == [1, 1, 1]
