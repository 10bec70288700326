"""Checks of what callers pass in; everything behind them trusts its arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from .index_kernels import FINE, WRONG_START, check_offsets, offsets_from_lengths

#: The dtypes that items may have.
DTYPES = tuple(np.dtype(t) for t in (np.float32, np.float64, np.int64, np.bool_, np.int32, np.uint8))

_INT64 = np.dtype(np.int64)


def checked_dtype(dtype: DTypeLike) -> np.dtype[Any]:
    """`dtype` as one of DTYPES."""
    found = np.dtype(dtype)
    if found not in DTYPES:
        raise ValueError(f"dtype {found}: expected one of {', '.join(map(str, DTYPES))}")
    return found


def checked_values(values: ArrayLike) -> NDArray[Any]:
    """`values` (N, *inner) as a C-contiguous, aligned array of one of DTYPES; itself where it is one."""
    array = np.asarray(values)
    if array.dtype not in DTYPES:
        checked_dtype(array.dtype)
    if array.ndim == 0:
        raise ValueError("values: expected at least one axis, the items, got a scalar")
    if not (array.flags.c_contiguous and array.flags.aligned):
        array = array.copy(order="C")
    return array


def checked_integers(integers: ArrayLike, name: str, error: type[Exception]) -> NDArray[np.int64]:
    """`integers` (K,) as contiguous int64; itself where it is that already. `error` names what else it is."""
    array = np.asarray(integers)
    if array.ndim != 1:
        raise error(f"{name}: expected one-dimensional integers, got shape {array.shape}")
    if array.dtype != _INT64:
        if array.dtype.kind not in "iu" and len(array) > 0:
            raise error(f"{name}: expected integers, got {array.dtype}")
        if array.dtype.kind == "u" and len(array) > 0 and array.max() > np.iinfo(np.int64).max:
            raise error(f"{name}: expected numbers that fit into int64, got {array.max()}")
    return np.ascontiguousarray(array, np.int64)


def out_of_range(index: int, count: int) -> IndexError:
    """The error that the index of a sequence is outside [-count, count)."""
    return IndexError(
        f"sequence {index} is out of range: expected an index of {count} sequences, got {index}"
    )


def checked_offsets(offsets: ArrayLike, num_items: int) -> NDArray[np.int64]:
    """`offsets` (B + 1,) as int64: from 0, never decreasing, to `num_items`."""
    array = checked_integers(offsets, "offsets", ValueError)
    if len(array) == 0:
        raise ValueError("offsets: expected a first offset of 0, got no offsets")
    code = check_offsets(array, num_items)
    if code == FINE:
        return array
    if code == WRONG_START:
        raise ValueError(f"offsets: expected a first offset of 0, got {array[0]}")
    if code >= 0:
        raise ValueError(f"offsets: expected no decrease, got {array[code]} and then {array[code + 1]}")
    raise ValueError(f"offsets end at the wrong item: expected {num_items} items, got {array[-1]}")


def checked_lengths(lengths: ArrayLike, num_items: int) -> NDArray[np.int64]:
    """The offsets (B + 1,) of sequences with these `lengths` (B,), which must add up to `num_items`."""
    array = checked_integers(lengths, "lengths", ValueError)
    offsets = np.empty(len(array) + 1, np.int64)
    code = offsets_from_lengths(array, num_items, offsets)
    if code == FINE:
        return offsets
    if code >= 0:
        raise ValueError(f"lengths: sequence {code}: expected 0 or more, got {array[code]}")
    raise ValueError(f"lengths: expected a sum of {num_items} items, got {sum(array.tolist())}")


def checked_rows(rows: ArrayLike, num_sequences: int) -> NDArray[Any]:
    """`rows` (B, *row) as a contiguous array with one row per sequence."""
    array = np.asarray(rows)
    if array.ndim == 0 or len(array) != num_sequences:
        got = "a scalar" if array.ndim == 0 else f"{len(array)} rows"
        raise ValueError(f"rows: expected one for each of {num_sequences} sequences, got {got}")
    if array.dtype.hasobject:
        raise ValueError("rows: expected numbers, got Python objects")
    return np.ascontiguousarray(array)


def checked_inner_shape(inner_shape: Sequence[int]) -> tuple[int, ...]:
    """`inner_shape` as a tuple of sizes that are not negative."""
    shape = tuple(inner_shape)
    for size in shape:
        if not isinstance(size, (int, np.integer)) or size < 0:
            raise ValueError(f"inner_shape: expected sizes of 0 or more, got {shape}")
    return tuple(int(size) for size in shape)


def checked_count(count: int, name: str) -> int:
    """`count` as an int of 0 or more."""
    if not isinstance(count, (int, np.integer)) or count < 0:
        raise ValueError(f"{name}: expected an integer of 0 or more, got {count!r}")
    return int(count)


def check_items_match(
    dtype: np.dtype[Any],
    inner_shape: tuple[int, ...],
    expected: tuple[np.dtype[Any], tuple[int, ...]],
    what: str,
) -> None:
    """ValueError where items of `dtype` and `inner_shape` can't go to where `expected` ones are."""
    if dtype != expected[0]:
        raise ValueError(f"{what}: expected dtype {expected[0]}, got {dtype}")
    if inner_shape != expected[1]:
        raise ValueError(f"{what}: expected items of shape {expected[1]}, got {inner_shape}")


def as_bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    """The memory of a C-contiguous array as uint8 (bytes,), without a copy."""
    return array.reshape(-1).view(np.uint8)


def item_size(array: NDArray[Any]) -> int:
    """Bytes of one item of `array` (N, *inner); 0 where there is none to be copied."""
    return array.nbytes // (len(array) or 1)
