"""Reductions over the items of each sequence, behind the methods of `RaggedArray`.

Shape alphabet: B sequences, N items in all. `values` (N, *inner), `offsets` (B + 1,); results (B, *inner)
unless said otherwise.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from . import reduction_kernels as kernels

Offsets = NDArray[np.int64]


def _numbers(array: NDArray[Any]) -> NDArray[Any]:
    """All numbers of a contiguous array in one axis, bool as bytes, without a copy, as kernels take them."""
    numbers = array.reshape(-1)
    return numbers.view(np.uint8) if numbers.dtype.kind == "b" else numbers


def _rows(values: NDArray[Any], offsets: Offsets, fill: Any, dtype: DTypeLike) -> NDArray[Any]:
    """A result (B, *inner) to start from."""
    return np.full((len(offsets) - 1, *values.shape[1:]), fill, dtype)


def _features(values: NDArray[Any]) -> int:
    return math.prod(values.shape[1:])


def sums(values: NDArray[Any], offsets: Offsets) -> NDArray[Any]:
    """Floats in their own precision, bool and integers as int64; 0 for an empty sequence."""
    result = _rows(values, offsets, 0, values.dtype if values.dtype.kind == "f" else np.int64)
    kernels.sum_items(_numbers(values), offsets, _features(values), _numbers(result))
    return result


def means(values: NDArray[Any], offsets: Offsets) -> NDArray[Any]:
    """Floats in their own precision, bool and integers as float64; 0 for an empty sequence."""
    total = sums(values, offsets)
    counts = np.maximum(offsets[1:] - offsets[:-1], 1).reshape(-1, *[1] * (total.ndim - 1))
    return np.divide(total, counts, dtype=total.dtype if total.dtype.kind == "f" else np.float64)


def lowest(dtype: np.dtype[Any]) -> Any:
    """Return the lowest value of `dtype`: the maximum of no items."""
    if dtype.kind == "f":
        return -np.inf
    return False if dtype.kind == "b" else np.iinfo(dtype).min


def maxima(values: NDArray[Any], offsets: Offsets) -> NDArray[Any]:
    """Same dtype; `lowest` for an empty sequence, NaN where there is one."""
    result = _rows(values, offsets, lowest(values.dtype), values.dtype)
    kernels.max_items(_numbers(values), offsets, _features(values), _numbers(result))
    return result


def positions_of_maxima(values: NDArray[Any], offsets: Offsets) -> NDArray[np.int64]:
    """int64, the first of equals or of NaNs; -1 for an empty sequence."""
    result = np.empty((len(offsets) - 1, *values.shape[1:]), np.int64)
    kernels.argmax_items(_numbers(values), offsets, _features(values), _numbers(result))
    return result
