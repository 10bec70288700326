"""Ragged arrays from and to other layouts, behind the methods of `RaggedArray`.

Shape alphabet: B sequences, N items in all, M the length of the longest, F features.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from .validation import checked_dtype, checked_inner_shape, checked_lengths, checked_mask

Offsets = NDArray[np.int64]


def parts_of_arrays(
    arrays: Sequence[ArrayLike], dtype: DTypeLike | None, inner_shape: tuple[int, ...] | None
) -> tuple[NDArray[Any], Offsets]:
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


def parts_of_padded(padded: ArrayLike, mask: ArrayLike) -> tuple[NDArray[Any], Offsets]:
    """Values and offsets of the items of `padded` (B, M, *inner) where `mask` (B, M) is true."""
    rectangle = np.asarray(padded)
    if rectangle.ndim < 2:
        raise ValueError(f"padded: expected the axes (B, M), got shape {rectangle.shape}")
    checked_dtype(rectangle.dtype)
    wanted = checked_mask(mask, rectangle.shape[:2])
    values = rectangle[wanted]
    return values, checked_lengths(wanted.sum(1, dtype=np.int64), len(values))
