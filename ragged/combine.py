"""Several ragged arrays as one, and the same sequences of several.

Shape alphabet: B sequences, N_k items in array k, K indices.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .array import RaggedArray
from .index_kernels import fill_join_rows
from .validation import check_items_match, checked_integers, checked_offsets


def concatenate(arrays: Sequence[RaggedArray]) -> RaggedArray:
    """All sequences of all `arrays`, one array after the other.

    Raises:
        ValueError: no arrays, or items of different dtypes or shapes.
    """
    if len(arrays) == 0:
        raise ValueError("concatenate: expected at least one array, got none")
    expected = (arrays[0].dtype, arrays[0].inner_shape)
    for k, array in enumerate(arrays):
        if (array.dtype, array.inner_shape) != expected:
            check_items_match(array.dtype, array.inner_shape, expected, f"array {k}")
    lengths = np.concatenate([array.lengths for array in arrays])
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return RaggedArray.unchecked(np.concatenate([array.values for array in arrays]), offsets)


def join_rows(offsets: Sequence[NDArray[np.int64]]) -> tuple[list[NDArray[np.int64]], NDArray[np.int64]]:
    """Return the destination of each item when several ragged arrays are joined sequence by sequence.

    For arrays of B sequences with `offsets[k]` (B + 1,), sequence b of the result is sequence b of array 0,
    then of array 1, and so on. This is how entities of several types become one flat list ordered by step
    and then by entity index.

    Returns:
        for each array the row of the result that each item goes to (N_k,), and the result's offsets (B + 1,).

    Raises:
        ValueError: no arrays, different numbers of sequences, or offsets that do not rise from 0.
    """
    if len(offsets) == 0:
        raise ValueError("join_rows: expected at least one array, got none")
    checked = [checked_offsets(one, one[-1] if len(one) else 0) for one in offsets]
    for k, one in enumerate(checked):
        if len(one) != len(checked[0]):
            raise ValueError(f"array {k}: expected {len(checked[0]) - 1} sequences, got {len(one) - 1}")
    stacked = np.stack(checked)
    ends = [0, *np.cumsum(stacked[:, -1]).tolist()]
    rows = np.empty(ends[-1], np.int64)
    joined = np.empty(stacked.shape[1], np.int64)
    fill_join_rows(stacked, rows, joined)
    return [rows[first:last] for first, last in pairwise(ends)], joined


def gather_all(arrays: Sequence[RaggedArray], indices: ArrayLike) -> list[RaggedArray]:
    """`array.gather(indices)` for each of `arrays`, which have equally many sequences.

    Raises:
        IndexError: an index outside [-B, B), or indices that are not integers.
        ValueError: the arrays have different numbers of sequences.
    """
    checked = checked_integers(indices, "sequence indices", IndexError)
    for k, array in enumerate(arrays):
        if len(array) != len(arrays[0]):
            raise ValueError(f"array {k}: expected {len(arrays[0])} sequences, got {len(array)}")
    return [array.gather(checked) for array in arrays]
