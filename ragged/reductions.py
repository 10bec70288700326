"""Reductions over the items of each sequence, behind the methods of `RaggedArray`.

Shape alphabet: B sequences, N items in all. `values` (N, *inner), `offsets` (B + 1,); results (B, *inner)
unless said otherwise.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

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


def _require_floats(values: NDArray[Any], what: str) -> None:
    if values.dtype.kind != "f":
        raise ValueError(f"{what} needs floating-point values, got {values.dtype}")


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
    """What is not larger than any value of `dtype`: the maximum of no items."""
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


def _exponentials(values: NDArray[Any], offsets: Offsets) -> tuple[NDArray[Any], NDArray[Any]]:
    """exp(value - maximum of its sequence) (N, *inner), and the maxima (B, *inner)."""
    largest = maxima(values, offsets)
    result = np.empty_like(values)
    kernels.subtract_rows(_numbers(values), offsets, _features(values), _numbers(largest), _numbers(result))
    np.exp(result, out=result)  # not in the kernel: NumPy's exp runs in vector registers, Numba's does not
    return result, largest


def logsumexps(values: NDArray[Any], offsets: Offsets) -> NDArray[Any]:
    """Same dtype; -inf for an empty sequence and for one that has nothing but -inf."""
    _require_floats(values, "logsumexp")
    exponentials, largest = _exponentials(values, offsets)
    finite = np.isfinite(largest)
    logarithms = np.log(sums(exponentials, offsets), where=finite, out=np.zeros_like(largest))
    return np.add(largest, logarithms, where=finite, out=largest)


def softmaxes(values: NDArray[Any], offsets: Offsets) -> NDArray[Any]:
    """(N, *inner), same dtype; NaN in a sequence that has +inf, NaN or nothing but -inf, as in torch."""
    _require_floats(values, "softmax")
    exponentials, _ = _exponentials(values, offsets)
    totals = _numbers(sums(exponentials, offsets))
    kernels.divide_by_rows(_numbers(exponentials), offsets, _features(values), totals)
    return exponentials


def samples(logits: NDArray[Any], offsets: Offsets, uniform: ArrayLike) -> NDArray[np.int64]:
    """Positions (B,) int64 drawn by inverting the cumulative distribution; -1 for an empty sequence."""
    _require_floats(logits, "sample")
    if logits.ndim != 1:
        raise ValueError(f"sample needs one logit per item, got items of shape {logits.shape[1:]}")
    draws = np.asarray(uniform, np.float64)
    if draws.shape != (len(offsets) - 1,):
        raise ValueError(f"uniform has shape {draws.shape}, expected ({len(offsets) - 1},)")
    inside = (draws >= 0) & (draws < 1)
    if not inside.all():
        sequence = int(inside.argmin())
        raise ValueError(f"uniform must be in [0, 1), got {draws[sequence]} for sequence {sequence}")
    positions = np.empty(len(draws), np.int64)
    weights, _ = _exponentials(logits, offsets)
    failed = kernels.draw_items(weights, offsets, np.ascontiguousarray(draws), positions)
    if failed >= 0:
        raise ValueError(
            f"the logits of sequence {failed} are no distribution: all are -inf, or one is NaN or +inf"
        )
    return positions
