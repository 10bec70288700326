"""Ragged arrays from and to other layouts, behind the methods of `RaggedArray`.

Shape alphabet: B sequences, N items in all, M the length of the longest, F features.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from .copy_kernels import place_sequences
from .index_kernels import fill_group_ends
from .validation import as_bytes, checked_dtype, checked_inner_shape, checked_lengths, checked_mask, item_size

Offsets = NDArray[np.int64]


def parts_of_arrays(
    arrays: Sequence[ArrayLike], dtype: DTypeLike | None, inner_shape: tuple[int, ...] | None
) -> tuple[NDArray[Any], Offsets]:
    """Values and offsets of one sequence per array."""
    parts = [np.asarray(a, dtype) for a in arrays]
    for b, part in enumerate(parts):
        if part.ndim == 0:
            raise ValueError(f"sequence {b} is a scalar, expected an array of items")
    filled = [part for part in parts if len(part)]
    if inner_shape is None:
        # an empty list says nothing about the shape of its items, an empty array (0, F) does
        inner_shape = (
            filled[0].shape[1:] if filled else max((p.shape[1:] for p in parts), key=len, default=())
        )
    inner_shape = checked_inner_shape(inner_shape)
    for b, part in enumerate(parts):
        if part.shape[1:] != inner_shape and (len(part) or part.ndim > 1):
            raise ValueError(f"sequence {b} has items of shape {part.shape[1:]}, expected {inner_shape}")
    if dtype is None:  # an empty list says nothing about the dtype either
        typed = filled or [p for p, a in zip(parts, arrays, strict=True) if isinstance(a, np.ndarray)]
        dtype = np.result_type(*typed) if typed else np.float32
    lengths = np.array([len(p) for p in parts], np.int64)
    values = np.empty((int(lengths.sum()), *inner_shape), checked_dtype(dtype))
    if filled:
        np.concatenate(filled, out=values)
    return values, checked_lengths(lengths, len(values))


def parts_of_padded(padded: ArrayLike, mask: ArrayLike) -> tuple[NDArray[Any], Offsets]:
    """Values and offsets of the items of `padded` (B, M, *inner) where `mask` (B, M) is true."""
    rectangle = np.asarray(padded)
    if rectangle.ndim < 2:
        raise ValueError(f"padded must have the axes (B, M), got shape {rectangle.shape}")
    checked_dtype(rectangle.dtype)
    wanted = checked_mask(mask, rectangle.shape[:2])
    values = rectangle[wanted]
    return values, checked_lengths(wanted.sum(1, dtype=np.int64), len(values))


def padded_of(
    values: NDArray[Any], offsets: Offsets, fill_value: float
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """The items as a rectangle (B, M, *inner), and the mask (B, M) that is true at items."""
    with np.errstate(invalid="ignore", over="ignore"):
        fill = np.asarray(fill_value).astype(values.dtype)
    if values.dtype.kind != "f" and fill != fill_value:
        raise ValueError(f"fill_value {fill_value} is not a value of dtype {values.dtype}")
    lengths = offsets[1:] - offsets[:-1]
    longest = int(lengths.max(initial=0))
    padded = np.full((len(lengths), longest, *values.shape[1:]), fill, values.dtype)
    rows = np.arange(len(lengths)) * longest
    place_sequences(as_bytes(values), offsets, as_bytes(padded), rows, item_size(values))
    return padded, np.arange(longest) < lengths[:, None]


def groups_of_length(offsets: Offsets, max_padding: float) -> list[NDArray[np.int64]]:
    """Sequences in groups of similar length; see `RaggedArray.length_groups`."""
    if not max_padding >= 0:
        raise ValueError(f"max_padding must be 0 or more, got {max_padding}")
    lengths = offsets[1:] - offsets[:-1]
    order = np.argsort(lengths, kind="stable")
    order = order[np.count_nonzero(lengths == 0) :]
    ends = np.empty(len(order), np.int64)
    count = fill_group_ends(lengths[order], 1.0 + max_padding, ends)
    return np.split(order, ends[: count - 1]) if count else []
