"""Reductions against plain Python and NumPy, sequence by sequence, in float64."""

from typing import Any

import numpy as np
import pytest
from entitize.ragged import RaggedArray
from hypothesis import given, settings
from hypothesis import strategies as st

quick = settings(deadline=None, derandomize=True, max_examples=30)
FLOATS = [np.float32, np.float64]
TOLERANCE = {np.dtype(np.float32): 1e-5, np.dtype(np.float64): 1e-12}


def per_sequence(sequences: list[np.ndarray], function: Any, array: RaggedArray, dtype: Any) -> np.ndarray:
    """`function` of each sequence, stacked (B, *inner)."""
    rows = [function(s) for s in sequences]
    return np.array(rows, dtype).reshape(len(sequences), *array.inner_shape)


@quick
@given(data=st.data())
def test_sum_adds_up_each_sequence(cases: Any, data: st.DataObject) -> None:
    sequences, array = data.draw(cases())
    wide = array.dtype if array.dtype.kind == "f" else np.int64
    expected = per_sequence(sequences, lambda s: s.sum(0, dtype=np.float64), array, wide)
    assert array.sum().dtype == wide
    np.testing.assert_allclose(array.sum(), expected, rtol=1e-5, atol=1e-5)
    if wide == np.int64:
        np.testing.assert_array_equal(array.sum(), expected)


def test_sums_of_int32_and_bool_do_not_overflow() -> None:
    assert RaggedArray(np.full(3, 2**31 - 1, np.int32), [0, 3]).sum().tolist() == [3 * (2**31 - 1)]
    assert RaggedArray(np.ones(1000, bool), [0, 1000]).sum().tolist() == [1000]


@quick
@given(data=st.data())
def test_mean_is_the_mean_or_zero(cases: Any, data: st.DataObject) -> None:
    sequences, array = data.draw(cases())
    zero = np.zeros(array.inner_shape)
    expected = per_sequence(
        sequences, lambda s: s.mean(0, dtype=np.float64) if len(s) else zero, array, np.float64
    )
    assert array.mean().dtype == (array.dtype if array.dtype.kind == "f" else np.float64)
    np.testing.assert_allclose(array.mean(), expected, rtol=1e-5, atol=1e-5)


@quick
@given(data=st.data())
def test_max_is_the_largest_or_the_stated_identity(cases: Any, data: st.DataObject) -> None:
    sequences, array = data.draw(cases())
    identity = {"f": -np.inf, "i": 0, "u": 0, "b": False}[array.dtype.kind]
    if array.dtype.kind == "i":
        identity = np.iinfo(array.dtype).min
    lowest = np.full(array.inner_shape, identity, array.dtype)
    expected = per_sequence(sequences, lambda s: s.max(0) if len(s) else lowest, array, array.dtype)
    np.testing.assert_array_equal(array.max(), expected, strict=True)


@quick
@given(data=st.data())
def test_argmax_is_the_first_largest_or_minus_one(cases: Any, data: st.DataObject) -> None:
    sequences, array = data.draw(cases())
    none = np.full(array.inner_shape, -1)
    expected = per_sequence(sequences, lambda s: s.argmax(0) if len(s) else none, array, np.int64)
    np.testing.assert_array_equal(array.argmax(), expected, strict=True)


@pytest.mark.parametrize("inner", [(), (2,)])
@pytest.mark.parametrize("dtype", FLOATS)
def test_max_and_argmax_treat_nan_as_numpy_does(dtype: Any, inner: tuple[int, ...]) -> None:
    for numbers in ([1, np.nan, 3, np.nan], [np.nan, 1], [-np.inf, -np.inf], [np.inf, np.nan], [2, 2, 1]):
        column = np.array(numbers, dtype)
        values = column if inner == () else np.stack([column, column[::-1]], axis=1)
        array = RaggedArray(values, [0, len(values)])
        np.testing.assert_array_equal(array.max()[0], values.max(0))
        np.testing.assert_array_equal(array.argmax()[0], values.argmax(0))
