"""Many arrays in one block of memory, and several such blocks as one: how processes hand batches over.

Shape alphabet: B sequences, D dense arrays, K ragged arrays, W blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .array import RaggedArray
from .copy_kernels import fill_block_offsets, join_blocks

_OFFSET = np.dtype(np.int64)

#: dtype and inner shape of an array's items.
Format = tuple[np.dtype[Any], tuple[int, ...]]


class BlockLayout:
    """Layout of a block of D dense and K ragged arrays of B sequences.

    First the dense arrays (B, …), then the offsets (B + 1,) of all ragged ones, then their values, each at a
    multiple of eight bytes. So B and the formats give the places of offsets, and these the places of values.

    Args:
        dense: dtype and shape of a row of each dense array.
        ragged: dtype and shape of an item of each ragged array.
    """

    def __init__(self, dense: Sequence[Format], ragged: Sequence[Format]) -> None:
        self._dense, self._ragged = list(dense), list(ragged)
        sizes = [dtype.itemsize * int(np.prod(shape)) for dtype, shape in (*dense, *ragged)]
        self._sizes = np.array(sizes, np.int64)

    def size(self, dense: Sequence[NDArray[Any]], ragged: Sequence[RaggedArray]) -> int:
        """Bytes that these arrays take."""
        return sum(aligned(array.nbytes) for array in dense) + sum(
            array.offsets.nbytes + aligned(array.values.nbytes) for array in ragged
        )

    def write(
        self,
        memory: NDArray[np.uint8],
        dense: Sequence[NDArray[Any]],
        ragged: Sequence[RaggedArray],
        start: int = 0,
    ) -> int:
        """Write the arrays to byte `start` of `memory`, a multiple of eight, and on. There must be room.

        Returns:
            the multiple of eight behind them.

        Raises:
            ValueError: an array has another format than the layout says, or another length than the others.
        """
        length = len(dense[0]) if dense else len(ragged[0])
        for array, (dtype, shape) in zip(dense, self._dense, strict=True):
            _check(array, len(array), length, dtype, shape)
            start = _put(memory, start, array, dtype)
        for one, (dtype, shape) in zip(ragged, self._ragged, strict=True):
            _check(one.values, len(one), length, dtype, shape)
        if ragged:
            places: NDArray[np.int64] = np.ndarray(len(ragged) * (length + 1), _OFFSET, memory, start)
            np.concatenate([one.offsets for one in ragged], out=places)
            start += places.nbytes
        for one, (dtype, _) in zip(ragged, self._ragged, strict=True):
            start = _put(memory, start, one.values, dtype)
        return start

    def join(
        self, addresses: Sequence[int], lengths: Sequence[int]
    ) -> tuple[list[NDArray[Any]], list[RaggedArray], list[int]]:
        """The arrays of W blocks, one block's sequences after the other's.

        Args:
            addresses: where in memory the blocks start (W,). Nothing is checked.
            lengths: how many sequences each has (W,).

        Returns:
            the dense arrays and the ragged ones, in new memory that they share; and the addresses behind the
            blocks (W,).
        """
        total, num_dense = sum(lengths), len(self._dense)
        blocks = np.array((addresses, lengths, lengths), np.int64)
        offsets = np.empty((len(self._ragged), total + 1), np.int64)
        starts = np.empty(len(self._sizes) + 1, np.int64)
        fill_block_offsets(blocks, self._sizes, num_dense, offsets, starts)
        *places, size = starts.tolist()
        memory = np.empty(size, np.uint8)
        join_blocks(blocks, self._sizes, num_dense, offsets, starts, memory)
        rows: list[NDArray[Any]] = [
            np.ndarray((total, *shape), dtype, memory, place)
            for (dtype, shape), place in zip(self._dense, places, strict=False)
        ]
        items = []
        for (dtype, shape), place, mine in zip(self._ragged, places[num_dense:], offsets, strict=True):
            values: NDArray[Any] = np.ndarray((mine.item(-1), *shape), dtype, memory, place)
            items.append(RaggedArray.unchecked(values, mine))
        return rows, items, blocks[2].tolist()


def aligned(size: int) -> int:
    """The next multiple of eight bytes."""
    return -(-size // 8) * 8


def write_array(memory: NDArray[np.uint8], start: int, array: NDArray[Any]) -> int:
    """Write `array` to byte `start` of `memory`: the multiple of eight behind it."""
    return _put(memory, start, array, array.dtype)


def _put(memory: NDArray[np.uint8], start: int, array: NDArray[Any], dtype: np.dtype[Any]) -> int:
    np.ndarray(array.shape, dtype, memory, start)[...] = array
    return start + aligned(array.nbytes)


def _check(
    array: NDArray[Any], length: int, expected: int, dtype: np.dtype[Any], shape: tuple[int, ...]
) -> None:
    if length != expected or array.dtype != dtype or array.shape[1:] != shape:
        raise ValueError(
            f"expected {expected} sequences of {dtype} {shape},"
            f" got {length} of {array.dtype} {array.shape[1:]}"
        )
