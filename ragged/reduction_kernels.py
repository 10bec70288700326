"""Kernels that reduce over the items of each sequence.

Items are `features` numbers each, laid out flat: `numbers` (N * F,), `offsets` (B + 1,), one row of F numbers
per sequence in `rows`, `sums` and the like (B * F,). One feature has loops of its own, because a loop over
features inside would cost more than the work.

Shape alphabet: B sequences, N items in all, F features.
"""

from __future__ import annotations

import math

import numpy as np

from .compiled import compiled


@compiled(nogil=True, fastmath={"reassoc", "contract"})
def sum_items(numbers, offsets, features, sums):  # type: ignore[no-untyped-def]
    """Add the items of each sequence to `sums`, which the caller has set to 0."""
    width = np.uint64(
        features
    )  # signed indices could wrap around, and checking that hinders vector registers
    for b in range(len(offsets) - 1):
        if features == 1:
            items = numbers[offsets[b] : offsets[b + 1]]
            total = sums[b]
            for i in range(len(items)):
                total += items[i]
            sums[b] = total
        else:
            row, item = np.uint64(b * features), np.uint64(offsets[b] * features)
            for _ in range(offsets[b + 1] - offsets[b]):
                for f in range(width):
                    sums[row + f] += numbers[item + f]
                item += width


@compiled(nogil=True)
def max_items(numbers, offsets, features, maxima):  # type: ignore[no-untyped-def]
    """Raise `maxima`, which the caller has set to the lowest value, to the largest item or to NaN."""
    for b in range(len(offsets) - 1):
        items = numbers[offsets[b] * features : offsets[b + 1] * features]
        if features == 1:
            largest = maxima[b]
            for i in range(len(items)):
                value = items[i]
                largest = value if value > largest or value != value else largest
            maxima[b] = largest
        else:
            row = maxima[b * features : (b + 1) * features]
            for i in range(offsets[b + 1] - offsets[b]):
                item = items[i * features : (i + 1) * features]
                for f in range(features):
                    row[f] = item[f] if item[f] > row[f] or item[f] != item[f] else row[f]


@compiled(nogil=True)
def argmax_items(numbers, offsets, features, positions):  # type: ignore[no-untyped-def]
    """Position in its sequence of the first largest item, or of the first NaN; -1 in an empty sequence."""
    for b in range(len(offsets) - 1):
        items = numbers[offsets[b] * features : offsets[b + 1] * features]
        length = offsets[b + 1] - offsets[b]
        for f in range(features):
            best = 0
            for i in range(1, length):
                value, largest = items[i * features + f], items[best * features + f]
                if (value > largest or value != value) and largest == largest:
                    best = i
            positions[b * features + f] = best if length > 0 else -1


@compiled(nogil=True)
def subtract_rows(numbers, offsets, features, rows, differences):  # type: ignore[no-untyped-def]
    """Fill `differences` (N * F,) with each item less the row of its sequence."""
    for b in range(len(offsets) - 1):
        items = numbers[offsets[b] * features : offsets[b + 1] * features]
        results = differences[offsets[b] * features : offsets[b + 1] * features]
        if features == 1:
            subtrahend = rows[b]
            for i in range(len(items)):
                results[i] = items[i] - subtrahend
        else:
            row = rows[b * features : (b + 1) * features]
            for i in range(offsets[b + 1] - offsets[b]):
                for f in range(features):
                    results[i * features + f] = items[i * features + f] - row[f]


@compiled(nogil=True)
def divide_by_rows(numbers, offsets, features, rows):  # type: ignore[no-untyped-def]
    """Divide each item by the row of its sequence, in place."""
    for b in range(len(offsets) - 1):
        items = numbers[offsets[b] * features : offsets[b + 1] * features]
        if features == 1:
            divisor = rows[b]
            for i in range(len(items)):
                items[i] /= divisor
        else:
            row = rows[b * features : (b + 1) * features]
            for i in range(offsets[b + 1] - offsets[b]):
                for f in range(features):
                    items[i * features + f] /= row[f]


@compiled(nogil=True, fastmath={"reassoc"})
def draw_items(weights, offsets, uniform, positions):  # type: ignore[no-untyped-def]
    """Position in each sequence of the first item whose cumulated weight exceeds uniform × total, or -1.

    Items of weight 0 are never drawn, whatever rounding does. Returns the first sequence with items whose
    weights (N,) have no positive, finite sum (what follows it is not drawn), or -1.
    """
    for b in range(len(offsets) - 1):
        items = weights[offsets[b] : offsets[b + 1]]
        positions[b] = -1
        if len(items) == 0:
            continue
        total = 0.0
        for i in range(len(items)):
            total += items[i]
        if not 0.0 < total < math.inf:
            return b
        threshold = uniform[b] * total
        reached = 0.0
        for i in range(len(items)):
            if items[i] > 0.0:
                positions[b] = i
                reached += items[i]
                if reached > threshold:
                    break
    return -1
