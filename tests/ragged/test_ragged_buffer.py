"""Growing storage: what goes in comes out, memory is reused, and bad input changes nothing."""

import pickle
import tracemalloc
from typing import Any

import numpy as np
import pytest
from entitize.ragged import RaggedArray, RaggedBuffer
from hypothesis import given
from hypothesis import strategies as st

from facts import raises


@given(data=st.data(), capacity=st.tuples(st.integers(0, 9), st.integers(0, 9)))
def test_a_buffer_is_a_list_of_what_was_appended(
    cases: Any, same: Any, data: st.DataObject, capacity: Any
) -> None:
    _, first = data.draw(cases())
    buffer = RaggedBuffer(first.inner_shape, first.dtype, capacity)
    expected: list[np.ndarray] = []
    for _ in range(data.draw(st.integers(0, 12))):
        sequences, step = data.draw(cases([first.dtype], (first.inner_shape,)))
        match data.draw(st.sampled_from(["append", "append", "clear"])):
            case "append":
                buffer.append(step)
                expected += sequences
            case "clear":
                buffer.clear()
                expected = []
        same(buffer.array(), expected)
        assert len(buffer) == len(expected) and buffer.num_items == sum(map(len, expected))
        assert buffer.capacity[0] >= len(expected) and buffer.capacity[1] >= buffer.num_items
    assert (buffer.dtype, buffer.inner_shape) == (first.dtype, first.inner_shape)


def test_a_buffer_can_take_in_its_own_content() -> None:
    buffer = RaggedBuffer()
    buffer.append(RaggedArray(np.arange(3, dtype=np.float32), [0, 1, 3]))
    for _ in range(4):
        buffer.append(buffer.array())
    assert buffer.array().values.tolist() == [0, 1, 2] * 16 and buffer.array().lengths.tolist() == [1, 2] * 16


def test_the_array_is_a_view_of_the_items() -> None:
    buffer = RaggedBuffer((2,))
    step = RaggedArray(np.ones((3, 2), np.float32), [0, 1, 3])
    buffer.append(step)
    assert np.shares_memory(buffer.array().values, buffer.array().values)
    assert not np.shares_memory(buffer.array().values, step.values)


def test_an_array_kept_past_a_clear_still_reads_its_own_memory() -> None:
    buffer = RaggedBuffer()
    buffer.append(RaggedArray(np.ones(1, np.float32), [0, 1]))
    kept = buffer.array()
    buffer.clear()
    buffer.append(RaggedArray(np.full(1000, 2, np.float32), [0, 1000]))
    assert kept.gather([0, 0]).values.tolist() == [1.0, 1.0]
    assert kept.broadcast([5]).tolist() == [5]


def test_memory_doubles_and_is_kept() -> None:
    buffer = RaggedBuffer((4,))
    step = RaggedArray.from_lengths(np.ones((30, 4), np.float32), [10, 20])
    grown = 0
    for _ in range(1000):
        before = buffer.capacity
        buffer.append(step)
        grown += buffer.capacity != before
    assert grown < 25
    memory, capacity = buffer.array().values.ctypes.data, buffer.capacity
    buffer.clear()
    assert len(buffer) == 0 and buffer.num_items == 0
    for _ in range(1000):
        buffer.append(step)
    assert buffer.capacity == capacity and buffer.array().values.ctypes.data == memory


def test_a_warm_buffer_allocates_nothing() -> None:
    buffer = RaggedBuffer((50,))
    step = RaggedArray.from_lengths(np.ones((640, 50), np.float32), [10] * 64)

    def rollout() -> None:
        buffer.clear()
        for _ in range(32):
            buffer.append(step)

    rollout()
    tracemalloc.start()
    rollout()
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    rollout()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak - before < 1024  # bytes; one step alone has 128,000


@pytest.fixture
def filled() -> RaggedBuffer:
    buffer = RaggedBuffer((2,))
    buffer.append(RaggedArray(np.arange(6, dtype=np.float32).reshape(3, 2), [0, 1, 3]))
    return buffer


def test_a_bad_append_is_named_and_changes_nothing(filled: RaggedBuffer) -> None:
    before = filled.array().copy()
    with raises(ValueError, "step", "float64", "float32"):
        filled.append(RaggedArray(np.zeros((1, 2)), [0, 1]))
    with raises(ValueError, "step", "(3,)", "(2,)"):
        filled.append(RaggedArray(np.zeros((1, 3), np.float32), [0, 1]))
    with raises(ValueError, "step", "()", "(2,)"):
        filled.append(RaggedArray(np.zeros(1, np.float32), [0, 1]))
    with raises(TypeError, "append", "RaggedArray", "list"):
        filled.append([[1.0, 2.0]])  # type: ignore[arg-type]
    assert filled.array() == before


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        ({"dtype": np.int8}, ("dtype int8", "float32")),
        ({"inner_shape": (-1,)}, ("inner_shape", "sizes")),
        ({"inner_shape": (1.5,)}, ("inner_shape", "sizes")),
        ({"capacity": (-1, 0)}, ("capacity", "integer", -1)),
    ],
)
def test_bad_options_are_named(arguments: Any, facts: tuple[object, ...]) -> None:
    with raises(ValueError, *facts):
        RaggedBuffer(**arguments)


@given(data=st.data())
def test_a_pickled_buffer_goes_on_growing(cases: Any, same: Any, data: st.DataObject) -> None:
    sequences, step = data.draw(cases())
    buffer = RaggedBuffer(step.inner_shape, step.dtype, (100, 1000))
    buffer.append(step)
    other = pickle.loads(pickle.dumps(buffer))
    other.append(step)
    same(other.array(), sequences * 2)
    same(buffer.array(), sequences)


def test_a_pickle_leaves_spare_capacity_out() -> None:
    assert len(pickle.dumps(RaggedBuffer(capacity=(100_000, 100_000)))) < 1000


def test_repr_says_what_is_in_it(filled: RaggedBuffer) -> None:
    assert repr(filled) == (
        "RaggedBuffer(2 sequences, 3 items, inner_shape=(2,), dtype=float32, capacity=(2, 3))"
    )
