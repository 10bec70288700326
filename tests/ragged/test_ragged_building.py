"""Ragged arrays from lists, lengths and rectangles, and what is refused."""

from typing import Any

import numpy as np
import pytest
from entitize.ragged import RaggedArray
from hypothesis import given
from hypothesis import strategies as st

from facts import raises


@given(data=st.data())
def test_from_arrays_holds_the_arrays(cases: Any, same: Any, data: st.DataObject) -> None:
    sequences, array = data.draw(cases())
    built = RaggedArray.from_arrays(sequences, dtype=array.dtype, inner_shape=array.inner_shape)
    same(built, sequences)
    assert built.inner_shape == array.inner_shape


@given(data=st.data())
def test_from_lengths_cuts_the_values_without_a_copy(cases: Any, same: Any, data: st.DataObject) -> None:
    sequences, array = data.draw(cases())
    built = RaggedArray.from_lengths(array.values, [len(s) for s in sequences])
    same(built, sequences)
    assert built.values is array.values


def test_empty_has_sequences_without_items() -> None:
    array = RaggedArray.empty(3, (2,), np.int32)
    assert len(array) == 3 and array.num_items == 0 and array.inner_shape == (2,) and array.dtype == np.int32
    assert len(RaggedArray.empty()) == 0


def test_empty_lists_take_shape_and_dtype_from_the_others() -> None:
    array = RaggedArray.from_arrays([[], np.ones((2, 3), np.float32), np.zeros((0, 3), np.float32)])
    assert array.dtype == np.float32 and array.inner_shape == (3,) and array.lengths.tolist() == [0, 2, 0]


def test_arrays_without_items_say_their_shape() -> None:
    array = RaggedArray.from_arrays([[], np.zeros((0, 3), np.int64)])
    assert array.inner_shape == (3,) and array.dtype == np.int64 and len(array) == 2


def test_items_without_features_are_counted() -> None:
    assert RaggedArray.from_arrays([[], np.zeros((2, 0))]).lengths.tolist() == [0, 2]


def test_no_arrays_at_all_make_an_empty_batch() -> None:
    assert len(RaggedArray.from_arrays([])) == 0


def test_values_that_are_not_contiguous_are_copied() -> None:
    values = np.arange(12.0).reshape(3, 4).T
    array = RaggedArray(values[::2], [0, 1, 2])
    assert array.values.flags.c_contiguous
    assert array[1].tolist() == [[2.0, 6.0, 10.0]]


def test_values_at_odd_addresses_are_copied() -> None:
    values = np.frombuffer(b"\0" + np.arange(3.0).tobytes(), np.uint8)[1:].view(np.float64)
    assert not values.flags.aligned
    array = RaggedArray(values, [0, 1, 3])
    assert array.values.flags.aligned and array.values.tolist() == [0.0, 1.0, 2.0]


def test_contiguous_values_and_offsets_are_adopted() -> None:
    values, offsets = np.zeros((2, 3), np.float32), np.array([0, 2])
    array = RaggedArray(values, offsets)
    assert array.values is values and np.shares_memory(array.offsets, offsets)


@pytest.mark.parametrize(
    ("values", "offsets", "facts"),
    [
        (np.zeros(2, np.int8), [0, 2], ("dtype int8", "float32", "float64", "int64", "bool", "int32")),
        (np.zeros(2, ">f4"), [0, 2], ("dtype >f4",)),
        (np.array(["a", "b"]), [0, 2], ("dtype <U1",)),
        (3.0, [0, 1], ("values", "one axis")),
        (np.zeros(2), [], ("offsets", 0, "no offsets")),
        (np.zeros(2), [1, 2], ("offsets", 0, 1)),
        (np.zeros(2), [0, 2, 1, 2], ("offsets", "decrease", 2, 1)),
        (np.zeros(2), [0, 1], ("offsets end", 1, "2 items")),
        (np.zeros(2), [[0, 2]], ("offsets", "one-dimensional", "(1, 2)")),
        (np.zeros(2), [0.0, 2.0], ("offsets", "integers", "float64")),
        (np.zeros(0), np.array([0, 2**64 - 1], np.uint64), ("offsets", "int64")),
    ],
)
def test_bad_values_and_offsets_are_named(values: Any, offsets: Any, facts: tuple[object, ...]) -> None:
    with raises(ValueError, *facts):
        RaggedArray(values, offsets)


@pytest.mark.parametrize(
    ("lengths", "facts"),
    [
        ([1, 2], ("lengths", 3, "2 items")),
        ([1], ("lengths", 1, "2 items")),
        ([3, -1], ("lengths", -1, "sequence 1")),
        ([2**62] * 4, ("lengths", 2**64)),
        ([1.0, 1.0], ("lengths", "integers", "float64")),
        ([[1, 1]], ("lengths", "one-dimensional")),
    ],
)
def test_bad_lengths_are_named(lengths: Any, facts: tuple[object, ...]) -> None:
    with raises(ValueError, *facts):
        RaggedArray.from_lengths(np.zeros(2), lengths)


def test_sequences_of_different_items_are_named() -> None:
    with raises(ValueError, "sequence 1", "(3,)", "(2,)"):
        RaggedArray.from_arrays([np.zeros((1, 2)), np.zeros((1, 3))])
    with raises(ValueError, "sequence 1", "(3,)", "(2,)"):
        RaggedArray.from_arrays([np.zeros((1, 2)), np.zeros((0, 3))])
    with raises(ValueError, "sequence 0", "scalar"):
        RaggedArray.from_arrays([1.0])


def test_bad_sizes_of_an_empty_array_are_named() -> None:
    with raises(ValueError, "num_sequences", "integer", -1):
        RaggedArray.empty(-1)
    with raises(ValueError, "inner_shape", "sizes"):
        RaggedArray.empty(1, (-2,))
    with raises(ValueError, "dtype int8"):
        RaggedArray.empty(1, dtype=np.int8)
