"""Kernels over offsets, lengths and indices. They report bad input by code; callers turn codes into errors.

Shape alphabet: B sequences, N items in all, K indices or arrays.
"""

from __future__ import annotations

from numba import njit

#: Codes of `check_offsets` and `offsets_from_lengths`; a code of 0 or more is the position of the culprit.
FINE, WRONG_START, WRONG_END = -1, -2, -3


@njit(cache=True)
def check_offsets(offsets, num_items):  # type: ignore[no-untyped-def]
    """FINE, or what is wrong with `offsets` (B + 1,): a code of b says that it decreases after sequence b."""
    if offsets[0] != 0:
        return WRONG_START
    for b in range(len(offsets) - 1):
        if offsets[b + 1] < offsets[b]:
            return b
    return FINE if offsets[-1] == num_items else WRONG_END


@njit(cache=True)
def offsets_from_lengths(lengths, num_items, offsets):  # type: ignore[no-untyped-def]
    """Fill `offsets` (B + 1,); FINE, WRONG_END, or the position of a negative length."""
    for b in range(len(lengths)):
        if lengths[b] < 0:
            return b
    total = 0
    offsets[0] = 0
    for b in range(len(lengths)):
        if lengths[b] > num_items - total:  # compared this way round, because a sum could overflow
            return WRONG_END
        total += lengths[b]
        offsets[b + 1] = total
    return FINE if total == num_items else WRONG_END


@njit(cache=True)
def first_out_of_range(indices, count):  # type: ignore[no-untyped-def]
    """Position of the first index outside [-count, count), or FINE."""
    lowest, highest = 0, -1
    for k in range(len(indices)):  # without a way out, so that it runs in vector registers
        lowest = min(lowest, indices[k])
        highest = max(highest, indices[k])
    if lowest >= -count and highest < count:
        return FINE
    for k in range(len(indices)):
        if indices[k] < -count or indices[k] >= count:
            return k
    return FINE


@njit(cache=True)
def gather_offsets(offsets, indices, target):  # type: ignore[no-untyped-def]
    """Fill `target` (K + 1,) with the offsets of the sequences at `indices`, which are known to be in range."""
    total = 0
    target[0] = 0
    for k in range(len(indices)):
        b = indices[k] + (len(offsets) - 1 if indices[k] < 0 else 0)
        total += offsets[b + 1] - offsets[b]
        target[k + 1] = total


@njit(cache=True)
def concatenate_offsets(stacked, sizes, target):  # type: ignore[no-untyped-def]
    """Fill `target` from the offsets of K arrays, laid one behind the other; `sizes` (K,) are their lengths."""
    base, first, at = 0, 0, 0
    target[0] = 0
    for k in range(len(sizes)):
        for j in range(1, sizes[k]):
            at += 1
            target[at] = base + stacked[first + j]
        first += sizes[k]
        base = target[at]


@njit(cache=True)
def fill_sequence_indices(offsets, target):  # type: ignore[no-untyped-def]
    """Fill `target` (N,) with the sequence of each item."""
    for b in range(len(offsets) - 1):
        for i in range(offsets[b], offsets[b + 1]):
            target[i] = b


@njit(cache=True)
def fill_item_indices(offsets, target):  # type: ignore[no-untyped-def]
    """Fill `target` (N,) with the position of each item in its sequence."""
    for b in range(len(offsets) - 1):
        first = offsets[b]
        for i in range(first, offsets[b + 1]):
            target[i] = i - first


@njit(cache=True)
def fill_join_rows(stacked, starts, target):  # type: ignore[no-untyped-def]
    """Fill `target` with the rows that the items of K arrays go to when they are joined.

    `stacked` (K, B + 1) holds their offsets; the rows of array k are `target[starts[k]:starts[k + 1]]`.
    """
    row = 0
    for b in range(stacked.shape[1] - 1):
        for k in range(stacked.shape[0]):
            for i in range(stacked[k, b], stacked[k, b + 1]):
                target[starts[k] + i] = row
                row += 1


@njit(cache=True)
def fill_group_ends(lengths, allowed, ends):  # type: ignore[no-untyped-def]
    """Cut ascending `lengths` (B,) into groups and return how many; group g is `lengths[ends[g - 1]:ends[g]]`.

    A group grows while padding it to its longest sequence takes at most `allowed` times its items.
    """
    groups, first, items = 0, 0, 0
    for b in range(len(lengths)):
        if (b + 1 - first) * lengths[b] > allowed * (items + lengths[b]):
            ends[groups] = b
            groups += 1
            first, items = b, 0
        items += lengths[b]
    if len(lengths) > first:
        ends[groups] = len(lengths)
        groups += 1
    return groups
