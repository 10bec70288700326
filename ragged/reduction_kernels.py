"""Kernels that reduce over the items of each sequence.

Items are `features` numbers each, laid out flat: `numbers` (N * F,), `offsets` (B + 1,), one row of F numbers
per sequence in `rows`, `sums` and the like (B * F,). One feature has loops of its own, because a loop over
features inside would cost more than the work.

Shape alphabet: B sequences, N items in all, F features.
"""

from __future__ import annotations

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
