"""Reductions over the items of each sequence, behind the methods of `RaggedArray`.

Shape alphabet: B sequences, N items in all, F numbers per item. `values` (N, *inner), `offsets` (B + 1,);
results (B, *inner) unless said otherwise.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from . import reduction_kernels as kernels

Offsets = NDArray[np.int64]


def _flat(array: NDArray[Any]) -> NDArray[Any]:
    """`array` (N, *inner) as (N, F), bool as bytes, without a copy: the form that the kernels take."""
    flat = array.reshape(len(array), math.prod(array.shape[1:]))
    return flat.view(np.uint8) if flat.dtype == np.bool_ else flat


def _result(values: NDArray[Any], offsets: Offsets, fill: Any, dtype: DTypeLike) -> NDArray[Any]:
    return np.full((len(offsets) - 1, *values.shape[1:]), fill, dtype)


def _require_floats(values: NDArray[Any], what: str) -> None:
    if values.dtype.kind != "f":
        raise ValueError(f"{what} needs floating-point values, got {values.dtype}")


def sums(values: NDArray[Any], offsets: Offsets) -> NDArray[Any]:
    """Floats in their own precision, bool and integers as int64; 0 for an empty sequence."""
    result = _result(values, offsets, 0, values.dtype if values.dtype.kind == "f" else np.int64)
    kernels.sum_items(_flat(values), offsets, _flat(result))
    return result


def means(values: NDArray[Any], offsets: Offsets) -> NDArray[Any]:
    """Floats in their own precision, bool and integers as float64; 0 for an empty sequence."""
    total = sums(values, offsets)
    counts = np.maximum(np.diff(offsets), 1).reshape(-1, *[1] * (total.ndim - 1))
    return np.divide(total, counts, dtype=total.dtype if total.dtype.kind == "f" else np.float64)


def lowest(dtype: np.dtype[Any]) -> Any:
    """What is not larger than any value of `dtype`: the maximum of no items."""
    if dtype.kind == "f":
        return -np.inf
    return False if dtype.kind == "b" else np.iinfo(dtype).min


def maxima(values: NDArray[Any], offsets: Offsets) -> NDArray[Any]:
    """Same dtype; `lowest` for an empty sequence, NaN where there is one."""
    result = _result(values, offsets, lowest(values.dtype), values.dtype)
    kernels.max_items(_flat(values), offsets, _flat(result))
    return result


def positions_of_maxima(values: NDArray[Any], offsets: Offsets) -> NDArray[np.int64]:
    """int64, the first of equals or of NaNs; -1 for an empty sequence."""
    result = _result(values, offsets, -1, np.int64)
    kernels.argmax_items(_flat(values), offsets, _flat(result))
    return result


def _exponentials(values: NDArray[Any], offsets: Offsets) -> tuple[NDArray[Any], NDArray[Any]]:
    """exp(value - maximum of its sequence) (N, *inner), and the maxima (B, *inner)."""
    largest = maxima(values, offsets)
    result = np.empty_like(values)
    kernels.subtract_rows(_flat(values), offsets, _flat(largest), _flat(result))
    np.exp(result, out=result)  # not in the kernel: NumPy's exp runs in vector registers, Numba's does not
    return result, largest


def logsumexps(values: NDArray[Any], offsets: Offsets) -> NDArray[Any]:
    """Same dtype; -inf for an empty sequence and for one that has nothing but -inf."""
    _require_floats(values, "logsumexp")
    exponentials, largest = _exponentials(values, offsets)
    total = sums(exponentials, offsets)
    finite = np.isfinite(largest)
    return np.where(finite, largest + np.log(total, where=finite, out=np.zeros_like(total)), largest)


def softmaxes(values: NDArray[Any], offsets: Offsets) -> NDArray[Any]:
    """(N, *inner), same dtype; NaN in a sequence that has +inf, NaN or nothing but -inf, as in torch."""
    _require_floats(values, "softmax")
    exponentials, _ = _exponentials(values, offsets)
    kernels.divide_by_rows(_flat(exponentials), offsets, _flat(sums(exponentials, offsets)))
    return exponentials


def samples(logits: NDArray[Any], offsets: Offsets, uniform: ArrayLike) -> NDArray[np.int64]:
    """Positions (B,) int64 drawn by inverting the cumulative distribution; -1 for an empty sequence."""
    _require_floats(logits, "sample")
    if logits.ndim != 1:
        raise ValueError(f"sample needs one logit per item, got items of shape {logits.shape[1:]}")
    draws = np.ascontiguousarray(uniform, np.float64)
    if draws.shape != (len(offsets) - 1,):
        raise ValueError(f"uniform has shape {draws.shape}, expected ({len(offsets) - 1},)")
    outside = ~((draws >= 0) & (draws < 1))
    if outside.any():
        sequence = int(outside.argmax())
        raise ValueError(f"uniform must be in [0, 1), got {draws[sequence]} for sequence {sequence}")
    positions = np.empty(len(draws), np.int64)
    weights, _ = _exponentials(logits, offsets)
    failed = kernels.draw_items(_flat(weights), offsets, draws, positions)
    if failed >= 0:
        raise ValueError(f"the logits of sequence {failed} are no distribution: all are -inf, or one is NaN or +inf")
    return positions
