"""Several ragged arrays as one.

Shape alphabet: B sequences, N_k items in array k.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .array import RaggedArray, result_array
from .copy_kernels import join_sequences
from .index_kernels import concatenate_offsets, fill_join_rows
from .validation import as_bytes, check_items_match, checked_offsets, item_size

if TYPE_CHECKING:
    from .buffer import RaggedBuffer


def _check_alike(arrays: Sequence[RaggedArray], out: RaggedBuffer | None) -> None:
    """At least one array, all with items of one kind, none in the memory of `out`."""
    if len(arrays) == 0:
        raise ValueError("needs at least one array")
    expected = (arrays[0].dtype, arrays[0].inner_shape)
    for k, array in enumerate(arrays):
        if (array.dtype, array.inner_shape) != expected:
            check_items_match(array.dtype, array.inner_shape, expected, f"array {k}")
        array._check_not_in(out)


def concatenate(arrays: Sequence[RaggedArray], out: RaggedBuffer | None = None) -> RaggedArray:
    """All sequences of all `arrays`, one array after the other.

    Raises:
        ValueError: no arrays, items of different dtypes or shapes, or an `out` that holds other items or one
            of the arrays.
    """
    _check_alike(arrays, out)
    all_offsets = [a.offsets for a in arrays]
    sizes = np.array([len(o) for o in all_offsets])
    offsets = np.empty(int(sizes.sum()) - len(sizes) + 1, np.int64)
    concatenate_offsets(np.concatenate(all_offsets), sizes, offsets)
    result = result_array(out, offsets, arrays[0].dtype, arrays[0].inner_shape)
    np.concatenate([a.values for a in arrays], out=result.values)
    return result


def _stack_offsets(offsets: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Offsets of K arrays as (K, B + 1)."""
    for k, one in enumerate(offsets):
        if len(one) != len(offsets[0]):
            raise ValueError(f"array {k} has {len(one) - 1} sequences, expected {len(offsets[0]) - 1}")
    return np.concatenate(offsets).reshape(len(offsets), -1)


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
        raise ValueError("needs at least one array")
    checked = [checked_offsets(one, one[-1] if len(one) else 0) for one in offsets]
    stacked = _stack_offsets(checked)
    ends = [0]
    for one in checked:
        ends.append(ends[-1] + one.item(-1))
    rows = np.empty(ends[-1], np.int64)
    joined = np.empty(stacked.shape[1], np.int64)
    fill_join_rows(stacked, rows, joined)
    return [rows[first:last] for first, last in pairwise(ends)], joined


def join(arrays: Sequence[RaggedArray], out: RaggedBuffer | None = None) -> RaggedArray:
    """Sequence b of the result is sequence b of each array, one after the other.

    Raises:
        ValueError: no arrays, different numbers of sequences, items of different dtypes or shapes, or an
            `out` that holds other items or one of the arrays.
    """
    _check_alike(arrays, out)
    stacked = _stack_offsets([a.offsets for a in arrays])
    result = result_array(out, np.add.reduce(stacked), arrays[0].dtype, arrays[0].inner_shape)
    addresses = np.array([a.values.__array_interface__["data"][0] for a in arrays], np.int64)
    join_sequences(addresses, stacked, as_bytes(result.values), item_size(result.values))
    return result
