"""Kernels that reduce over the items of each sequence.

Shape alphabet: B sequences, N items in all, F features; `values` (N, F), `offsets` (B + 1,), results (B, F).
"""

from __future__ import annotations

import math

from numba import njit


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def sum_items(values, offsets, sums):  # type: ignore[no-untyped-def]
    """Add the items of each sequence to `sums`, which the caller has set to 0."""
    features = values.shape[1]
    for b in range(len(offsets) - 1):
        if features == 1:
            total = sums[b, 0]
            for i in range(offsets[b], offsets[b + 1]):
                total += values[i, 0]
            sums[b, 0] = total
        else:
            for i in range(offsets[b], offsets[b + 1]):
                for f in range(features):
                    sums[b, f] += values[i, f]


@njit(cache=True, nogil=True)
def max_items(values, offsets, maxima):  # type: ignore[no-untyped-def]
    """Raise `maxima`, which the caller has set to the lowest value, to the largest item; NaN is the largest."""
    features = values.shape[1]
    for b in range(len(offsets) - 1):
        for i in range(offsets[b], offsets[b + 1]):
            for f in range(features):
                value = values[i, f]
                if value > maxima[b, f] or value != value:
                    maxima[b, f] = value


@njit(cache=True, nogil=True)
def argmax_items(values, offsets, positions):  # type: ignore[no-untyped-def]
    """Position in its sequence of the first largest item, or of the first NaN; -1 in an empty sequence."""
    for b in range(len(offsets) - 1):
        first, last = offsets[b], offsets[b + 1]
        for f in range(values.shape[1]):
            best = first
            for i in range(first + 1, last):
                value, largest = values[i, f], values[best, f]
                if (value > largest or value != value) and largest == largest:
                    best = i
            positions[b, f] = best - first if last > first else -1


@njit(cache=True, nogil=True)
def subtract_rows(values, offsets, rows, differences):  # type: ignore[no-untyped-def]
    """`differences[i] = values[i] - rows[b]` for each item i of sequence b."""
    for b in range(len(offsets) - 1):
        for i in range(offsets[b], offsets[b + 1]):
            for f in range(values.shape[1]):
                differences[i, f] = values[i, f] - rows[b, f]


@njit(cache=True, nogil=True, error_model="numpy")
def divide_by_rows(values, offsets, rows):  # type: ignore[no-untyped-def]
    """`values[i] /= rows[b]` in place for each item i of sequence b."""
    for b in range(len(offsets) - 1):
        for i in range(offsets[b], offsets[b + 1]):
            for f in range(values.shape[1]):
                values[i, f] /= rows[b, f]


@njit(cache=True, nogil=True)
def draw_items(weights, offsets, uniform, positions):  # type: ignore[no-untyped-def]
    """Position of the first item of each sequence whose cumulated weight exceeds uniform × total; -1 if empty.

    Items of weight 0 are never drawn, whatever rounding does. Returns the first sequence with items whose
    weights have no positive, finite sum (what follows it is not drawn), or -1.
    """
    for b in range(len(offsets) - 1):
        first, last = offsets[b], offsets[b + 1]
        total = 0.0
        for i in range(first, last):
            total += weights[i, 0]
        positions[b] = -1
        if last == first:
            continue
        if not 0.0 < total < math.inf:
            return b
        threshold = uniform[b] * total
        reached = 0.0
        for i in range(first, last):
            if weights[i, 0] > 0.0:
                positions[b] = i - first
                reached += weights[i, 0]
                if reached > threshold:
                    break
    return -1
