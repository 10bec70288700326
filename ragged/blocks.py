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

#: dtype and inner shape of an array's items.
Format = tuple[np.dtype[Any], tuple[int, ...]]


class BlockLayout:
    """Where D dense and K ragged arrays of B sequences stand in a block.

    First the dense arrays (B, …), then the offsets (B + 1,) of all ragged ones, then their values, each at a
    multiple of eight bytes. So B and the formats tell where offsets are, and these where values are.

    Args:
        dense: dtype and shape of a row of each dense array.
        ragged: dtype and shape of an item of each ragged array.
    """

    def __init__(self, dense: Sequence[Format], ragged: Sequence[Format]) -> None:
        self._dense, self._ragged = list(dense), list(ragged)
        self._row_sizes = _sizes(dense)
        self._item_sizes = _sizes(ragged)

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
        lengths = [*map(len, dense), *map(len, ragged)]
        formats = [(a.dtype, a.shape[1:]) for a in dense], [(a.dtype, a.inner_shape) for a in ragged]
        if len(set(lengths)) > 1 or formats != (self._dense, self._ragged):
            raise ValueError(
                f"expected arrays of {self._dense} and ragged ones of {self._ragged}, all of one length;"
                f" got {formats[0]} and {formats[1]} of lengths {lengths}"
            )
        for array in (*dense, *(array.offsets for array in ragged), *(array.values for array in ragged)):
            start = write_array(memory, start, array)
        return start

    def join(
        self, addresses: NDArray[np.int64], sequences: NDArray[np.int64]
    ) -> tuple[list[NDArray[Any]], list[RaggedArray], NDArray[np.int64]]:
        """The arrays of W blocks, one block's sequences after the other's.

        Args:
            addresses: where in memory the blocks start (W,). Nothing is checked.
            sequences: how many sequences each has (W,).

        Returns:
            the dense arrays and the ragged ones, in new memory that they share; and the addresses behind the
            blocks (W,).
        """
        total = int(sequences.sum())
        offsets = np.empty((len(self._ragged), total + 1), np.int64)
        starts = np.empty(len(self._dense) + len(self._ragged) + 1, np.int64)
        fill_block_offsets(addresses, sequences, self._row_sizes, self._item_sizes, offsets, starts)
        *places, size = starts.tolist()
        memory, ends = np.empty(size, np.uint8), np.empty_like(addresses)
        join_blocks(addresses, sequences, self._row_sizes, self._item_sizes, offsets, starts, memory, ends)
        rows: list[NDArray[Any]] = [
            np.ndarray((total, *shape), dtype, memory, place)
            for (dtype, shape), place in zip(self._dense, places, strict=False)
        ]
        items = []
        for (dtype, shape), place, mine in zip(self._ragged, places[len(rows) :], offsets, strict=True):
            values: NDArray[Any] = np.ndarray((mine.item(-1), *shape), dtype, memory, place)
            items.append(RaggedArray.unchecked(values, mine))
        return rows, items, ends


def aligned(size: int) -> int:
    """The next multiple of eight bytes."""
    return -(-size // 8) * 8


def write_array(memory: NDArray[np.uint8], start: int, array: NDArray[Any]) -> int:
    """Write the bytes of `array` to byte `start` of `memory`: the multiple of eight behind them."""
    end = start + array.nbytes
    # Numba would do it in one call, but asking NumPy for the address of an array takes longer than this.
    memory[start:end] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return aligned(end)


def _sizes(formats: Sequence[Format]) -> NDArray[np.int64]:
    return np.array([dtype.itemsize * int(np.prod(shape)) for dtype, shape in formats], np.int64)
