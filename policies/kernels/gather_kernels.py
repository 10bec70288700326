"""Numba kernels: join many small arrays, take the address of an array, find the rows of entities by index."""

from __future__ import annotations

from typing import Any

from .tiles.simd import floats_at, kernel, larger


@kernel
def gather_floats(addresses: Any, sizes: Any, out: Any) -> None:
    """Copy arrays of float32 at memory `addresses` (T,), `sizes` (T,) long, one behind the other to `out`."""
    place = 0
    for t in range(len(addresses)):
        source = floats_at(addresses[t], sizes[t])
        for i in range(sizes[t]):
            out[place + i] = source[i]
        place += sizes[t]


@kernel
def find_rows(
    offsets: Any, entity_offsets: Any, row_of_entity: Any, index_offsets: Any, indices: Any, rows: Any
) -> bool:
    """Write the `rows` (A,) of entities, given by their `indices` (A,) within their steps; see `RowLayout`.

    row_of_entity: (0,) where entity i of a step is row i of that step. Returns True if all have a row.
    """
    for b in range(len(index_offsets) - 1):
        first, count = entity_offsets[b], entity_offsets[b + 1] - entity_offsets[b]
        for i in range(index_offsets[b], index_offsets[b + 1]):
            if indices[i] < 0 or indices[i] >= count:
                return False
            if len(row_of_entity):
                rows[i] = row_of_entity[first + indices[i]]
            else:
                rows[i] = offsets[b] + indices[i]
            if rows[i] < 0:
                return False
    return True


@kernel
def address(array: Any) -> int:
    """Return the memory address of an array; NumPy's own ways take ten times as long."""
    return array.ctypes.data


@kernel
def longest_step(offsets: Any) -> int:
    """Return the most rows of a step; rows start at `offsets` (B + 1,)."""
    longest = 0
    for b in range(len(offsets) - 1):
        longest = larger(longest, offsets[b + 1] - offsets[b])
    return longest
