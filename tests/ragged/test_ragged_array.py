"""Indexing, gathering, indices, broadcasting; and ragged arrays as Python values."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from entitize.ragged import RaggedArray, RaggedBuffer
from hypothesis import given
from hypothesis import strategies as st

from facts import raises


@pytest.fixture
def three() -> RaggedArray:
    return RaggedArray(np.arange(8, dtype=np.float32).reshape(4, 2), [0, 1, 1, 4])


def test_one_each_is_the_item_of_each_sequence_or_the_default() -> None:
    some = RaggedArray.from_arrays([[5], [], [7]], dtype=np.int64)
    assert some.one_each(-1).tolist() == [5, -1, 7] and some.one_each().dtype == np.int64
    pairs = RaggedArray.from_arrays([[], [[1.0, 2.0]]], dtype=np.float32, inner_shape=(2,))
    assert pairs.one_each().tolist() == [[0, 0], [1, 2]]
    full = some[[0, 2]]
    assert full.one_each(-1) is full.values
    assert RaggedArray.empty(2, dtype=np.int64).one_each(3).tolist() == [3, 3]


@given(data=st.data())
def test_shape_and_lengths(cases: Any, data: st.DataObject) -> None:
    sequences, array = data.draw(cases())
    assert len(array) == len(sequences)
    assert array.lengths.tolist() == [len(s) for s in sequences]
    assert array.num_items == sum(len(s) for s in sequences)
    assert [s.tolist() for s in array] == [s.tolist() for s in sequences]


@given(data=st.data())
def test_one_sequence_is_a_view(cases: Any, data: st.DataObject) -> None:
    sequences, array = data.draw(cases())
    for b in range(-len(sequences), len(sequences)):
        np.testing.assert_array_equal(array[b], sequences[b])
        assert np.shares_memory(array[b], array.values) or array[b].size == 0


@given(data=st.data())
def test_slices_are_those_of_a_list(cases: Any, same: Any, data: st.DataObject) -> None:
    sequences, array = data.draw(cases())
    key = data.draw(st.slices(len(sequences)))
    same(array[key], sequences[key])


def test_a_slice_of_step_one_is_a_view(three: RaggedArray) -> None:
    assert np.shares_memory(three[1:].values, three.values)


@given(data=st.data())
def test_gather_takes_any_indices(cases: Any, same: Any, data: st.DataObject) -> None:
    sequences, array = data.draw(cases())
    count = len(sequences)
    indices = data.draw(st.lists(st.integers(-count, count - 1), max_size=12) if count else st.just([]))
    expected = [sequences[k] for k in indices]
    same(array.gather(indices), expected)
    same(array[np.array(indices, np.int32)], expected)
    same(array[indices], expected)
    strided = np.repeat(np.array(indices, np.int64), 2)[::2]
    same(array.gather(strided), expected)


@given(data=st.data())
def test_a_boolean_index_keeps_sequences_where_it_is_true(cases: Any, same: Any, data: st.DataObject) -> None:
    sequences, array = data.draw(cases())
    mask = data.draw(st.lists(st.booleans(), min_size=len(sequences), max_size=len(sequences)))
    same(array[np.array(mask, bool)], [s for s, keep in zip(sequences, mask, strict=True) if keep])


@pytest.mark.parametrize(
    ("key", "facts"),
    [
        (3, ("sequence 3", "3 sequences")),
        (-4, ("sequence -4", "3 sequences")),
        ([0, 3], ("sequence 3", "3 sequences")),
        (np.array([0, -4, 7]), ("sequence -4", "3 sequences")),
        ([0.0, 1.0], ("sequence indices", "integers", "float64")),
        (1.5, ("sequence indices", "one-dimensional")),
        (True, ("boolean index", "()", "(3,)")),
        ([True, False], ("boolean index", "(2,)", "(3,)")),
        ((0, 1), ("one index",)),
        ([[0, 1]], ("sequence indices", "one-dimensional", "(1, 2)")),
        (np.array([2**63], np.uint64), ("sequence indices", "int64", 2**63)),
    ],
)
def test_bad_indices_are_named(three: RaggedArray, key: Any, facts: tuple[object, ...]) -> None:
    with raises(IndexError, *facts):
        three[key]


def test_gather_does_not_take_a_mask_for_indices(three: RaggedArray) -> None:
    with raises(IndexError, "sequence indices", "integers", "bool"):
        three.gather(np.array([True, False, True]))


@given(data=st.data())
def test_indices_say_where_each_item_is(cases: Any, data: st.DataObject) -> None:
    sequences, array = data.draw(cases())
    of_items = [b for b, s in enumerate(sequences) for _ in s]
    assert array.sequence_indices().tolist() == of_items
    assert [array.sequence_of(item) for item in range(array.num_items)] == of_items
    assert array.item_indices().tolist() == [i for s in sequences for i in range(len(s))]


@given(data=st.data(), row_shape=st.sampled_from([(), (1,), (5,), (0,), (2, 3)]))
@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.bool_, np.int8, np.complex128])
def test_broadcast_repeats_rows_for_items(
    cases: Any, data: st.DataObject, row_shape: Any, dtype: Any
) -> None:
    sequences, array = data.draw(cases())
    rows = np.random.default_rng(0).normal(0, 9, (len(sequences), *row_shape)).astype(dtype)
    items = array.broadcast(rows)
    assert items.dtype == rows.dtype
    np.testing.assert_array_equal(items, np.repeat(rows, [len(s) for s in sequences], axis=0), strict=True)


def test_broadcast_takes_rows_that_are_not_contiguous(three: RaggedArray) -> None:
    assert three.broadcast(np.arange(6)[::2]).tolist() == [0, 4, 4, 4]


@pytest.mark.parametrize(
    ("rows", "facts"),
    [
        (np.zeros(2), ("2 rows", "3 sequences")),
        (1.0, ("scalar", "3 sequences")),
        (np.array([None] * 3), ("rows", "Python objects")),
    ],
)
def test_bad_rows_are_named(three: RaggedArray, rows: Any, facts: tuple[object, ...]) -> None:
    with raises(ValueError, *facts):
        three.broadcast(rows)


def test_with_values_keeps_the_sequences(three: RaggedArray) -> None:
    other = three.with_values([10, 20, 30, 40])
    assert other == RaggedArray(np.array([10, 20, 30, 40]), [0, 1, 1, 4])
    with raises(ValueError, "values", "4 items", 3):
        three.with_values(np.zeros(3))
    with raises(ValueError, "dtype int16"):
        three.with_values(np.zeros(4, np.int16))


@given(data=st.data())
def test_pickles_and_copies_are_equal_and_apart(cases: Any, data: st.DataObject) -> None:
    _, array = data.draw(cases())
    for other in (pickle.loads(pickle.dumps(array)), array.copy(), copy.deepcopy(array)):
        assert other == array and other.inner_shape == array.inner_shape
        assert not np.shares_memory(other.values, array.values)
        assert not np.shares_memory(other.offsets, array.offsets)


def test_a_pickle_holds_a_view_and_not_what_is_around_it() -> None:
    array = RaggedArray.from_lengths(np.zeros(100_000), [99_999, 1])
    assert len(pickle.dumps(array[1:])) < 1000


def test_a_pickle_with_wrong_offsets_is_refused() -> None:
    class Forged:
        def __reduce__(self) -> Any:
            return RaggedArray, (np.zeros(2), np.array([0, 1000]))

    with raises(ValueError, "offsets", 1000):
        pickle.loads(pickle.dumps(Forged()))


def test_equality_looks_at_dtype_lengths_shape_and_items(three: RaggedArray) -> None:
    assert three == three.copy()
    assert three != three.with_values(three.values.astype(np.float64))
    assert three != RaggedArray(three.values, [0, 1, 2, 4])
    assert three != three.with_values(three.values + 1)
    assert RaggedArray.empty(2, (3,)) != RaggedArray.empty(2, (4,))
    assert three != [[1]]


def test_repr_shows_small_arrays_and_sums_up_large_ones(three: RaggedArray) -> None:
    small = three[:2]
    assert repr(small) == "RaggedArray([[[0.0, 1.0]], []], dtype=float32)"
    large = RaggedArray.from_lengths(np.zeros((5000, 4)), [1] * 5000)
    assert repr(large) == "RaggedArray(5000 sequences, 5000 items of shape (4,), dtype=float64)"
    assert repr(RaggedArray.empty(9)) == "RaggedArray(9 sequences, 0 items, dtype=float32)"


def test_read_only_memory_is_fine() -> None:
    values = np.arange(4, dtype=np.float32)
    offsets = np.array([0, 1, 4])
    values.flags.writeable = offsets.flags.writeable = False
    array = RaggedArray(values, offsets)
    assert array.gather([1, 0]) == RaggedArray(np.array([1, 2, 3, 0], np.float32), [0, 3, 4])
    buffer = RaggedBuffer()
    buffer.append(array)
    assert buffer.array() == array
