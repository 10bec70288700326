"""Kernels over offsets, lengths and indices. They report bad input by code; callers turn codes into errors.

Shape alphabet: B sequences, N items in all, K indices or arrays.
"""

from __future__ import annotations

import numpy as np

from .compiled import compiled

#: Codes of `check_offsets` and `offsets_from_lengths`; a code of 0 or more is the position of the culprit.
FINE, WRONG_START, WRONG_END = -1, -2, -3


@compiled
def check_offsets(offsets, num_items):  # type: ignore[no-untyped-def]
    """FINE, or what is wrong with `offsets` (B + 1,): a code of b says that it decreases after sequence b."""
    if offsets[0] != 0:
        return WRONG_START
    for b in range(len(offsets) - 1):
        if offsets[b + 1] < offsets[b]:
            return b
    return FINE if offsets[-1] == num_items else WRONG_END


@compiled
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


@compiled
def first_out_of_range(indices, count):  # type: ignore[no-untyped-def]
    """FINE, or the position of the first index outside [-count, count)."""
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


@compiled
def gather_offsets(offsets, indices, target):  # type: ignore[no-untyped-def]
    """Fill `target` (K + 1,) with the offsets of the sequences at `indices`; see `first_out_of_range`."""
    position = first_out_of_range(indices, len(offsets) - 1)
    if position != FINE:
        return position
    total = 0
    target[0] = 0
    for k in range(len(indices)):
        b = indices[k] + (len(offsets) - 1 if indices[k] < 0 else 0)
        total += offsets[b + 1] - offsets[b]
        target[k + 1] = total
    return FINE


@compiled
def fill_sequence_indices(offsets, target):  # type: ignore[no-untyped-def]
    """Fill `target` (N,) with the sequence of each item."""
    for b in range(len(offsets) - 1):
        sequence = target[offsets[b] : offsets[b + 1]]
        for i in range(len(sequence)):
            sequence[i] = b


@compiled
def fill_item_indices(offsets, target):  # type: ignore[no-untyped-def]
    """Fill `target` (N,) with the position of each item in its sequence."""
    for b in range(len(offsets) - 1):
        sequence = target[offsets[b] : offsets[b + 1]]
        for i in range(len(sequence)):
            sequence[i] = i


@compiled
def fill_join_rows(stacked, rows, joined):  # type: ignore[no-untyped-def]
    """Fill `rows` with the rows that the items of K arrays go to when they are joined.

    `stacked` (K, B + 1) holds their offsets. The rows of array 0 come first in `rows`, then those of array 1,
    and so on. `joined` (B + 1,) gets the offsets of the result.
    """
    num_arrays = stacked.shape[0]
    shifts = np.zeros(num_arrays, np.int64)  # from an item's place in its array to its place in `rows`
    for k in range(1, num_arrays):
        shifts[k] = shifts[k - 1] + stacked[k - 1, -1]
    row = 0
    joined[0] = 0
    for b in range(stacked.shape[1] - 1):
        for k in range(num_arrays):
            sequence = rows[shifts[k] + stacked[k, b] : shifts[k] + stacked[k, b + 1]]
            for i in range(len(sequence)):
                sequence[i] = row + i
            row += len(sequence)
        joined[b + 1] = row
