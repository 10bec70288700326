"""`RaggedBuffer`: growable storage of sequences, for rollouts.

Shape alphabet: B sequences, N items in all.
"""

from __future__ import annotations

from typing import Any, final

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .array import RaggedArray
from .copy_kernels import append_sequences
from .validation import (
    check_items_match,
    checked_count,
    checked_dtype,
    checked_inner_shape,
)


@final
class RaggedBuffer:
    """Append many sequences at a time; read everything back as one `RaggedArray` without a copy.

    Memory doubles when it is full and is kept by `clear`, so that a rollout as large as the last one
    allocates nothing. Bad input leaves it as it was.
    """

    __slots__ = ("_offsets", "_sequences", "_values")

    _values: NDArray[Any]  # (capacity, *inner); the first num_items rows are in use
    _offsets: NDArray[np.int64]  # (capacity + 1,); the first len(self) + 1 are in use
    _sequences: int

    def __init__(
        self,
        inner_shape: tuple[int, ...] = (),
        dtype: DTypeLike = np.float32,
        capacity: tuple[int, int] = (0, 0),
    ) -> None:
        """`capacity` is (sequences, items) to reserve room for.

        Raises:
            ValueError: a dtype that is not supported, or sizes that are not integers of 0 or more.
        """
        sequences, items = (checked_count(count, "capacity") for count in capacity)
        self._values = np.empty((items, *checked_inner_shape(inner_shape)), checked_dtype(dtype))
        self._offsets = np.zeros(sequences + 1, np.int64)
        self._sequences = 0

    @property
    def num_items(self) -> int:
        """N, over all sequences."""
        return self._offsets.item(self._sequences)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the items."""
        return self._values.dtype

    @property
    def inner_shape(self) -> tuple[int, ...]:
        """Shape of one item: () or (F,)."""
        return self._values.shape[1:]

    @property
    def capacity(self) -> tuple[int, int]:
        """The (sequences, items) that fit without growing."""
        return len(self._offsets) - 1, len(self._values)

    def __len__(self) -> int:
        return self._sequences

    def append(self, step: RaggedArray) -> None:
        """Copy the sequences of `step` in behind the others.

        Raises:
            ValueError: items of another dtype or shape than the buffer's.
            TypeError: not a `RaggedArray`.
        """
        if type(step) is not RaggedArray:
            raise TypeError(f"append: expected a RaggedArray, got {type(step).__name__}")
        values, offsets, own = step.values, step.offsets, self._values
        if values.dtype != own.dtype or values.shape[1:] != own.shape[1:]:
            check_items_match(values.dtype, values.shape[1:], (own.dtype, own.shape[1:]), "step")
        if not append_sequences(values, offsets, own, self._offsets, self._sequences):
            self._grow(self._sequences + len(step), self.num_items + len(values))
            append_sequences(values, offsets, self._values, self._offsets, self._sequences)
        self._sequences += len(offsets) - 1

    def clear(self) -> None:
        """Forget the content and keep the memory."""
        self._sequences = 0

    def array(self) -> RaggedArray:
        """All sequences; the items are not copied and valid until the next `clear`."""
        # offsets of its own: an array kept too long has wrong items, but never reads outside its memory
        return RaggedArray.unchecked(
            self._values[: self.num_items], self._offsets[: self._sequences + 1].copy()
        )

    def __reduce__(self) -> tuple[Any, tuple[RaggedArray]]:
        return _buffer_with, (self.array(),)  # the content alone, without spare capacity

    def __repr__(self) -> str:
        return (
            f"RaggedBuffer({len(self)} sequences, {self.num_items} items, inner_shape={self.inner_shape}, "
            f"dtype={self.dtype}, capacity={self.capacity})"
        )

    def _grow(self, sequences: int, items: int) -> None:
        """Make room for as many in all, at least doubling what is too small."""
        values, offsets = self._values, self._offsets
        if items > len(values):
            values = np.empty((max(2 * len(values), items), *values.shape[1:]), values.dtype)
            values[: self.num_items] = self._values[: self.num_items]
        if sequences >= len(offsets):
            offsets = np.empty(max(2 * len(offsets), sequences + 1), np.int64)
            offsets[: self._sequences + 1] = self._offsets[: self._sequences + 1]
        self._values, self._offsets = values, offsets  # both or, where memory has run out, neither


def _buffer_with(array: RaggedArray) -> RaggedBuffer:
    """A buffer that holds `array`; pickle builds buffers with it."""
    buffer = RaggedBuffer(array.inner_shape, array.dtype)
    buffer.append(array)
    return buffer
