"""Concatenating, and the rows of arrays that are joined."""

from typing import Any

import numpy as np
from entitize.ragged import RaggedArray, concatenate, join_rows
from hypothesis import given
from hypothesis import strategies as st

from facts import raises


@st.composite
def several(
    draw: st.DrawFn, cases: Any, equally_many: bool = False
) -> list[tuple[list[np.ndarray], RaggedArray]]:
    """One to four arrays with items of one kind."""
    sequences, array = draw(cases())
    result = [(sequences, array)]
    for _ in range(draw(st.integers(0, 3))):
        length = st.integers(0, 5)
        lengths = draw(
            st.lists(length, min_size=len(array), max_size=len(array))
            if equally_many
            else st.lists(length, max_size=6)
        )
        result.append(draw(cases([array.dtype], (array.inner_shape,), lengths)))
    return result


@given(data=st.data())
def test_concatenate_puts_all_sequences_in_a_row(cases: Any, same: Any, data: st.DataObject) -> None:
    parts = data.draw(several(cases))
    arrays = [array for _, array in parts]
    expected = [s for sequences, _ in parts for s in sequences]
    same(concatenate(arrays), expected)


@given(data=st.data())
def test_join_rows_puts_each_sequence_behind_its_namesakes(cases: Any, data: st.DataObject) -> None:
    parts = data.draw(several(cases, equally_many=True))
    arrays = [array for _, array in parts]
    rows, offsets = join_rows([array.offsets for array in arrays])
    expected = [np.concatenate(group) for group in zip(*(sequences for sequences, _ in parts), strict=True)]
    joined = RaggedArray.from_arrays(expected, dtype=arrays[0].dtype, inner_shape=arrays[0].inner_shape)
    assert offsets.dtype == np.int64 and offsets.tolist() == joined.offsets.tolist()
    assert len(rows) == len(arrays)
    for array, row in zip(arrays, rows, strict=True):
        assert row.dtype == np.int64 and row.shape == (array.num_items,)
        np.testing.assert_array_equal(joined.values[row], array.values)
    assert sorted(np.concatenate(rows).tolist()) == list(range(joined.num_items))


def test_arrays_that_do_not_fit_together_are_named() -> None:
    first = RaggedArray(np.zeros((2, 3), np.float32), [0, 2])
    with raises(ValueError, "array 1", "float64", "float32"):
        concatenate([first, first.with_values(np.zeros((2, 3)))])
    with raises(ValueError, "array 2", "(4,)", "(3,)"):
        concatenate([first, first, first.with_values(np.zeros((2, 4), np.float32))])
    with raises(ValueError, "at least one array"):
        concatenate([])


def test_different_numbers_of_sequences_are_named() -> None:
    one, two = RaggedArray(np.zeros(2), [0, 2]), RaggedArray(np.zeros(2), [0, 1, 2])
    with raises(ValueError, "array 1", "expected 2", "got 1"):
        join_rows([two.offsets, one.offsets])


def test_join_rows_refuses_what_are_no_offsets() -> None:
    good = np.array([0, 1])
    with raises(ValueError, "offsets", 0, 1):
        join_rows([good, np.array([1, 1])])
    with raises(ValueError, "offsets", "decrease", 3, 1):
        join_rows([np.array([0, 3, 1])])
    with raises(ValueError, "offsets", "integers", "float64"):
        join_rows([good, np.array([0.0, 1.0])])
    with raises(ValueError, "offsets", 0, "no offsets"):
        join_rows([np.array([], np.int64)])
    with raises(ValueError, "at least one array"):
        join_rows([])
