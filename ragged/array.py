"""`RaggedArray`: many sequences of different lengths in one flat array.

The layout is the list layout that Arrow, awkward and PyTorch's jagged tensors share, so handing data over
costs no copy: `values` holds the items of all sequences one after the other, and sequence `b` is
`values[offsets[b]:offsets[b + 1]]`.

Shape alphabet: B sequences, N items in all, F features, K indices.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, final, overload

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from . import index_kernels
from .threads import gather_on_threads
from .validation import (
    DTYPES,
    as_bytes,
    checked_count,
    checked_dtype,
    checked_inner_shape,
    checked_integers,
    checked_lengths,
    checked_offsets,
    checked_rows,
    checked_values,
    item_size,
    out_of_range,
)

__all__ = ["DTYPES", "RaggedArray"]

#: `repr` shows the content of arrays up to this many sequences and numbers.
_SHOWN_SEQUENCES, _SHOWN_NUMBERS = 8, 64


@final
class RaggedArray:
    """B sequences of varying length: `values` (N, *inner) and `offsets` (B + 1,) int64.

    `values` is adopted, not copied, whenever it is C-contiguous and of a supported dtype (float32, float64,
    int64, int32, uint8, bool). Both arrays are shared freely; do not change `offsets` in place.

    In plain Python:

        array = [values[offsets[b]:offsets[b + 1]] for b in range(B)]
        array.gather(indices) = [array[k] for k in indices]
        array.broadcast(rows) = [rows[b] for b in range(B) for _ in array[b]]
    """

    __slots__ = ("offsets", "values")

    values: NDArray[Any]  # (N, *inner)
    offsets: NDArray[np.int64]  # (B + 1,), starts at 0, never decreases, ends at N

    def __init__(self, values: ArrayLike, offsets: ArrayLike) -> None:
        """
        Raises:
            ValueError: `values` of another dtype, or `offsets` that do not rise from 0 to N.
        """
        self.values = checked_values(values)
        self.offsets = checked_offsets(offsets, len(self.values))

    @classmethod
    def unchecked(cls, values: NDArray[Any], offsets: NDArray[np.int64]) -> RaggedArray:
        """Build without the checks of the constructor, where they would cost more than the work.

        The caller must ensure that `values` (N, *inner) are C-contiguous, aligned and of a supported dtype,
        and that `offsets` (B + 1,) are contiguous int64 that rise from 0 to N: with anything else, kernels
        read and write outside the arrays.
        """
        self = object.__new__(cls)
        self.values = values
        self.offsets = offsets
        return self

    # -- building -------------------------------------------------------------------------------------------

    @classmethod
    def empty(
        cls, num_sequences: int = 0, inner_shape: tuple[int, ...] = (), dtype: DTypeLike = np.float32
    ) -> RaggedArray:
        """`num_sequences` sequences without items."""
        values = np.empty((0, *checked_inner_shape(inner_shape)), checked_dtype(dtype))
        return cls.unchecked(values, np.zeros(checked_count(num_sequences, "num_sequences") + 1, np.int64))

    @classmethod
    def from_arrays(
        cls,
        arrays: Sequence[ArrayLike],
        *,
        dtype: DTypeLike | None = None,
        inner_shape: tuple[int, ...] | None = None,
    ) -> RaggedArray:
        """One sequence per array (n_b, *inner); `inner_shape` and `dtype` say what empty lists do not.

        Raises:
            ValueError: items of different shapes, or a dtype that is not supported.
        """
        return cls.unchecked(*_parts_of_arrays(arrays, dtype, inner_shape))

    @classmethod
    def from_lengths(cls, values: ArrayLike, lengths: ArrayLike) -> RaggedArray:
        """Cut `values` (N, *inner) into sequences of the given lengths (B,).

        Raises:
            ValueError: a negative length, or lengths that do not add up to N.
        """
        values = checked_values(values)
        return cls.unchecked(values, checked_lengths(lengths, len(values)))

    # -- looking --------------------------------------------------------------------------------------------

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Items per sequence (B,)."""
        return self.offsets[1:] - self.offsets[:-1]

    @property
    def num_items(self) -> int:
        """N, over all sequences."""
        return len(self.values)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the items."""
        return self.values.dtype

    @property
    def inner_shape(self) -> tuple[int, ...]:
        """Shape of one item: () or (F,)."""
        return self.values.shape[1:]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return (self[b] for b in range(len(self)))

    @overload
    def __getitem__(self, key: int) -> NDArray[Any]: ...
    @overload
    def __getitem__(self, key: slice | NDArray[Any] | Sequence[int]) -> RaggedArray: ...
    def __getitem__(self, key: Any) -> Any:
        """One sequence (a view), a slice (a view where its step is 1), a gather, or a bool mask (B,).

        Raises:
            IndexError: out of range, not an integer, or a mask of another length.
        """
        if isinstance(key, (int, np.integer)) and not isinstance(key, bool):
            b = int(key) + (len(self) if key < 0 else 0)
            if not 0 <= b < len(self):
                raise out_of_range(int(key), len(self))
            return self.values[self.offsets[b] : self.offsets[b + 1]]
        if isinstance(key, slice):
            start, stop, step = key.indices(len(self))
            if step == 1:
                stop = max(start, stop)
                first, last = self.offsets[start], self.offsets[stop]
                return RaggedArray.unchecked(self.values[first:last], self.offsets[start : stop + 1] - first)
            return self.gather(np.arange(start, stop, step))
        if isinstance(key, tuple):
            raise IndexError(f"ragged array: expected one index, got {key}. Use array[b][i] for item i of b.")
        indices = np.asarray(key)
        if indices.dtype == np.bool_:
            if indices.shape != (len(self),):
                raise IndexError(f"boolean index: expected shape ({len(self)},), got {indices.shape}")
            indices = np.flatnonzero(indices)
        return self.gather(indices)

    def gather(self, indices: ArrayLike) -> RaggedArray:
        """The sequences at `indices` (K,) int, in that order, as a copy; repeats and an empty index are fine.

        Runs on one thread, or where the result has 1 MiB or more on as many as
        `entitize.ragged.set_num_threads` said.

        Raises:
            IndexError: an index outside [-B, B), or indices that are not integers.
        """
        checked = checked_integers(indices, "sequence indices", IndexError)
        offsets = np.empty(len(checked) + 1, np.int64)
        position = index_kernels.gather_offsets(self.offsets, checked, offsets)
        if position != index_kernels.FINE:
            raise out_of_range(checked[position], len(self))
        values = np.empty((offsets.item(-1), *self.inner_shape), self.dtype)
        size = item_size(self.values)
        gather_on_threads(as_bytes(self.values), self.offsets, checked, as_bytes(values), offsets, size)
        return RaggedArray.unchecked(values, offsets)

    def sequence_indices(self) -> NDArray[np.int64]:
        """For each item the sequence it belongs to (N,)."""
        indices = np.empty(self.num_items, np.int64)
        index_kernels.fill_sequence_indices(self.offsets, indices)  # half the time of np.repeat
        return indices

    def sequence_of(self, item: int) -> int:
        """The sequence to which one item belongs."""
        return int(np.searchsorted(self.offsets, item, side="right")) - 1

    def item_indices(self) -> NDArray[np.int64]:
        """For each item its position within its sequence (N,)."""
        indices = np.empty(self.num_items, np.int64)
        index_kernels.fill_item_indices(self.offsets, indices)  # a quarter of the time of NumPy
        return indices

    # -- per sequence and per item --------------------------------------------------------------------------

    def with_values(self, values: ArrayLike) -> RaggedArray:
        """The same sequences with other items (N, *inner).

        Raises:
            ValueError: not N items, or a dtype that is not supported.
        """
        values = checked_values(values)
        if len(values) != self.num_items:
            raise ValueError(f"values: expected {self.num_items} items, got {len(values)}")
        return RaggedArray.unchecked(values, self.offsets)

    def one_each(self, default: float = 0) -> NDArray[Any]:
        """Return the item of each sequence (B, *inner), or `default` where a sequence is empty; read only.

        No sequence may have more than one item; this is not checked.
        """
        if self.num_items == len(self):
            return self.values
        items = np.full((len(self), *self.inner_shape), default, self.dtype)
        items[self.lengths > 0] = self.values
        return items

    def broadcast(self, rows: ArrayLike) -> NDArray[Any]:
        """Repeat row b of `rows` (B, *row) for each item of sequence b: (N, *row).

        Raises:
            ValueError: not B rows.
        """
        return np.repeat(checked_rows(rows, len(self)), self.lengths, axis=0)

    # -- as a Python value ----------------------------------------------------------------------------------

    def copy(self) -> RaggedArray:
        """An array that shares no memory with this one."""
        return RaggedArray.unchecked(self.values.copy(), self.offsets.copy())

    def __reduce__(self) -> tuple[type[RaggedArray], tuple[NDArray[Any], NDArray[np.int64]]]:
        return RaggedArray, (self.values, self.offsets)

    def __eq__(self, other: object) -> bool:
        """Return True if dtype, lengths and items are equal; as in NumPy, NaN equals nothing."""
        if not isinstance(other, RaggedArray):
            return NotImplemented
        return (
            self.dtype == other.dtype
            and np.array_equal(self.offsets, other.offsets)
            and np.array_equal(self.values, other.values)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        if len(self) <= _SHOWN_SEQUENCES and self.values.size <= _SHOWN_NUMBERS:
            return f"RaggedArray({[s.tolist() for s in self]}, dtype={self.dtype})"
        items = f"{self.num_items} items" + (f" of shape {self.inner_shape}" if self.inner_shape else "")
        return f"RaggedArray({len(self)} sequences, {items}, dtype={self.dtype})"


def _parts_of_arrays(
    arrays: Sequence[ArrayLike], dtype: DTypeLike | None, inner_shape: tuple[int, ...] | None
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Values and offsets of one sequence per array."""
    parts = [np.asarray(a, dtype) for a in arrays]
    for b, part in enumerate(parts):
        if part.ndim == 0:
            raise ValueError(f"sequence {b}: expected an array of items, got a scalar")
    filled = [part for part in parts if len(part)]
    if inner_shape is None:
        # an empty list says nothing about the shape of its items, an empty array (0, F) does
        inner_shape = (
            filled[0].shape[1:] if filled else max((p.shape[1:] for p in parts), key=len, default=())
        )
    inner_shape = checked_inner_shape(inner_shape)
    for b, part in enumerate(parts):
        if part.shape[1:] != inner_shape and (len(part) or part.ndim > 1):
            raise ValueError(f"sequence {b}: expected items of shape {inner_shape}, got {part.shape[1:]}")
    if dtype is None:  # an empty list says nothing about the dtype either
        typed = filled or [p for p, a in zip(parts, arrays, strict=True) if isinstance(a, np.ndarray)]
        dtype = np.result_type(*typed) if typed else np.float32
    lengths = np.array([len(p) for p in parts], np.int64)
    values = np.empty((int(lengths.sum()), *inner_shape), checked_dtype(dtype))
    if filled:
        np.concatenate(filled, out=values)
    return values, checked_lengths(lengths, len(values))
