"""`RaggedArray`: many sequences of different lengths in one flat array.

The layout is the list layout that Arrow, awkward and PyTorch's jagged tensors share, so handing data over
costs no copy: `values` holds the items of all sequences one after the other, and sequence `b` is
`values[offsets[b]:offsets[b + 1]]`.

Shape alphabet: B sequences, N items in all, F features.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

#: The dtypes that the kernels are compiled for.
DTYPES = tuple(np.dtype(t) for t in (np.float32, np.float64, np.int64, np.bool_, np.int32))


def _offsets_of(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


class RaggedArray:
    """B sequences of varying length: `values` (N, *inner) and `offsets` (B + 1,) int64.

    `values` is adopted, not copied, whenever it is C-contiguous and of a supported dtype.
    """

    __slots__ = ("offsets", "values")

    values: NDArray[Any]  # (N, *inner)
    offsets: NDArray[np.int64]  # (B + 1,), starts at 0, never decreases, ends at N

    def __init__(self, values: ArrayLike, offsets: ArrayLike) -> None:
        values = np.ascontiguousarray(values)
        offsets = np.ascontiguousarray(offsets, np.int64)
        if values.dtype not in DTYPES:
            raise ValueError(f"dtype {values.dtype} is not one of {', '.join(map(str, DTYPES))}")
        if offsets.ndim != 1 or len(offsets) == 0 or offsets[0] != 0:
            raise ValueError("offsets must be one-dimensional and start at 0")
        if np.any(offsets[1:] < offsets[:-1]):
            raise ValueError("offsets must not decrease")
        if offsets[-1] != len(values):
            raise ValueError(f"offsets end at {offsets[-1]}, but there are {len(values)} items")
        self.values = values
        self.offsets = offsets

    @classmethod
    def _trusted(cls, values: NDArray[Any], offsets: NDArray[np.int64]) -> RaggedArray:
        """Build without checks from arrays that are known to be right."""
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
        return cls(np.zeros((0, *inner_shape), dtype), np.zeros(num_sequences + 1, np.int64))

    @classmethod
    def from_arrays(
        cls,
        arrays: Sequence[ArrayLike],
        *,
        dtype: DTypeLike | None = None,
        inner_shape: tuple[int, ...] | None = None,
    ) -> RaggedArray:
        """One sequence per array (n_b, *inner); `inner_shape` and `dtype` are needed where all are empty lists."""
        parts = [np.asarray(a, dtype) for a in arrays]
        if inner_shape is None:
            inner_shape = next((p.shape[1:] for p in parts if p.size), parts[0].shape[1:] if parts else ())
        parts = [p.reshape((0, *inner_shape)) if p.size == 0 and len(p) == 0 else p for p in parts]
        for b, part in enumerate(parts):
            if part.shape[1:] != inner_shape:
                raise ValueError(f"sequence {b} has items of shape {part.shape[1:]}, expected {inner_shape}")
        values = np.concatenate(parts) if parts else np.zeros((0, *inner_shape), dtype or np.float32)
        return cls(values, _offsets_of(np.array([len(p) for p in parts], np.int64)))

    @classmethod
    def from_lengths(cls, values: ArrayLike, lengths: ArrayLike) -> RaggedArray:
        """Cut `values` (N, *inner) into sequences of the given lengths (B,)."""
        lengths = np.ascontiguousarray(lengths, np.int64)
        if np.any(lengths < 0):
            raise ValueError("lengths must not be negative")
        return cls(values, _offsets_of(lengths))

    @classmethod
    def from_padded(cls, padded: ArrayLike, mask: ArrayLike) -> RaggedArray:
        """The items of `padded` (B, M, *inner) where `mask` (B, M) is true, in order."""
        padded, mask = np.asarray(padded), np.asarray(mask, bool)
        if mask.shape != padded.shape[:2]:
            raise ValueError(f"mask has shape {mask.shape}, expected {padded.shape[:2]}")
        return cls(padded[mask], _offsets_of(mask.sum(1, dtype=np.int64)))

    # -- looking --------------------------------------------------------------------------------------------

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Items per sequence (B,)."""
        return np.diff(self.offsets)

    @property
    def num_items(self) -> int:
        return len(self.values)

    @property
    def dtype(self) -> np.dtype[Any]:
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
    def __getitem__(self, key: slice | NDArray[Any] | list[int]) -> RaggedArray: ...
    def __getitem__(self, key: Any) -> Any:
        """One sequence (a view), a slice of sequences (a view where the step is 1) or a gather."""
        if isinstance(key, (int, np.integer)):
            b = int(key) + (len(self) if key < 0 else 0)
            if not 0 <= b < len(self):
                raise IndexError(f"sequence {key} is out of range for {len(self)} sequences")
            return self.values[self.offsets[b] : self.offsets[b + 1]]
        if isinstance(key, slice):
            start, stop, step = key.indices(len(self))
            if step == 1:
                stop = max(start, stop)
                first, last = self.offsets[start], self.offsets[stop]
                return RaggedArray._trusted(self.values[first:last], self.offsets[start : stop + 1] - first)
            return self.gather(np.arange(start, stop, step))
        key = np.asarray(key)
        if key.dtype == np.bool_:
            if key.shape != (len(self),):
                raise IndexError(f"boolean index has shape {key.shape}, expected ({len(self)},)")
            key = np.flatnonzero(key)
        return self.gather(key)

    def gather(self, indices: ArrayLike) -> RaggedArray:
        """The sequences at `indices` (K,) int, in that order; repeats and an empty index are fine.

        Raises:
            IndexError: an index outside [-B, B).
        """
        indices = np.asarray(indices, np.int64)
        bad = (indices < -len(self)) | (indices >= len(self))
        if bad.any():
            raise IndexError(f"sequence {indices[bad][0]} is out of range for {len(self)} sequences")
        indices = np.where(indices < 0, indices + len(self), indices)
        offsets = _offsets_of(self.lengths[indices])
        rows = np.arange(offsets[-1]) + np.repeat(self.offsets[indices] - offsets[:-1], np.diff(offsets))
        return RaggedArray._trusted(self.values[rows], offsets)

    def with_values(self, values: ArrayLike) -> RaggedArray:
        """The same sequences with other items (N, *inner)."""
        return RaggedArray(values, self.offsets)

    def sequence_indices(self) -> NDArray[np.int64]:
        """For each item the sequence it belongs to (N,)."""
        return np.repeat(np.arange(len(self)), self.lengths)

    def item_indices(self) -> NDArray[np.int64]:
        """For each item its position within its sequence (N,)."""
        return np.arange(self.num_items) - np.repeat(self.offsets[:-1], self.lengths)

    def broadcast(self, rows: ArrayLike) -> NDArray[Any]:
        """Repeat row b of `rows` (B, ...) for each item of sequence b: (N, ...)."""
        return np.repeat(np.asarray(rows), self.lengths, axis=0)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RaggedArray):
            return NotImplemented
        return (
            self.dtype == other.dtype
            and np.array_equal(self.offsets, other.offsets)
            and np.array_equal(self.values, other.values)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"RaggedArray({[s.tolist() for s in self]}, dtype={self.dtype})"


def concatenate(arrays: Sequence[RaggedArray]) -> RaggedArray:
    """All sequences of all `arrays`, one array after the other."""
    values = np.concatenate([a.values for a in arrays])
    return RaggedArray._trusted(values, _offsets_of(np.concatenate([a.lengths for a in arrays])))


def join_rows(offsets: Sequence[NDArray[np.int64]]) -> tuple[list[NDArray[np.int64]], NDArray[np.int64]]:
    """Where the items of several ragged arrays go when they are joined sequence by sequence.

    For arrays of B sequences with `offsets[k]` (B + 1,), sequence b of the result is sequence b of array 0,
    then of array 1, and so on. This is how entities of several types become one flat list ordered by step
    and then by entity index.

    Returns:
        for each array the row of the result that each item goes to (N_k,), and the result's offsets (B + 1,).
    """
    lengths = np.stack([np.diff(o) for o in offsets])  # (K, B)
    total = _offsets_of(lengths.sum(0))
    starts = total[:-1] + np.cumsum(lengths, 0) - lengths  # (K, B)
    rows = [
        np.arange(o[-1]) + np.repeat(start - o[:-1], length)
        for o, start, length in zip(offsets, starts, lengths, strict=True)
    ]
    return rows, total


def join(arrays: Sequence[RaggedArray]) -> RaggedArray:
    """Sequence b of the result is sequence b of each array, one after the other."""
    rows, offsets = join_rows([a.offsets for a in arrays])
    values = np.empty((offsets[-1], *arrays[0].inner_shape), arrays[0].dtype)
    for array, row in zip(arrays, rows, strict=True):
        values[row] = array.values
    return RaggedArray._trusted(values, offsets)
