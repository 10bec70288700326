"""Packed batches and actions: what goes in comes out, and what does not fit is told."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import entitize as ez
import numpy as np
import pytest
from entitize.envs import (
    PackedActionSpace,
    PackedBatchSpace,
    PackedLayout,
    batch_observations,
    sample_actions,
)
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from facts import raises

DISCRETE = ez.EntitySpace(
    {"Unit": ["x", "y"], "Rock": []},
    ez.EntityActionSpace(
        {"Walk": ez.Categorical(3), "Aim": ez.SelectEntity(), "Alarm": ez.GlobalCategorical(2)}
    ),
    global_features=["time"],
    hidden=True,
)
REAL = ez.EntitySpace(
    {"values/entities/Arm": ["x"], "Arm": ["angle", "speed"]},  # a name that looks like a packed array's
    ez.EntityActionSpace(
        {"Grip": ez.Categorical(2), "Bend": ez.Continuous([-1.0, 0.0], [1.0, 9.0]), "Aim": ez.SelectEntity()}
    ),
)
COMPOSITE = ez.EntitySpace(
    {"Unit": ["x"]},
    ez.EntityActionSpace(
        {
            "Order": ez.MultiCategorical({"kind": ["wait", "move"], "where": 3}, {"move": ["where"]}),
            "Bend": ez.Continuous([-1.0, 0.0], [1.0, 9.0]),
        }
    ),
)
BARE = ez.EntitySpace({}, ez.EntityActionSpace({"Push": ez.GlobalContinuous(-1.0, 1.0)}), ["x"])
SPACES = st.sampled_from([DISCRETE, REAL, COMPOSITE, BARE])


def batch_of(space: ez.EntitySpace, seed: int, steps: int) -> ez.EntityBatch:
    space.seed(seed)
    return batch_observations(space, [space.sample() for _ in range(steps)])


def batch_with(space: ez.EntitySpace, **actors: int) -> ez.EntityBatch:
    """Two random steps with so many actors of these actions."""
    batches = (batch_of(space, seed, 2) for seed in range(2000))
    return next(b for b in batches if all(b.actions[n].actors.num_items == k for n, k in actors.items()))


@given(space=SPACES, seed=st.integers(0, 2**32 - 1), steps=st.integers(0, 5))
def test_a_packed_batch_is_the_batch_in_the_same_memory(space: ez.EntitySpace, seed: int, steps: int) -> None:
    layout, batch = PackedLayout(space), batch_of(space, seed, steps)
    packed = layout.pack(batch)
    assert tuple(packed) == layout.keys == tuple(PackedBatchSpace(space).spaces)
    assert all(type(array) is np.ndarray for array in packed.values())
    for again in (layout.unpack(packed), layout.unpack_checked(packed)):
        assert again.equals(batch)
        assert all(
            np.shares_memory(again.entities[name].values, rows.values)
            for name, rows in batch.entities.items()
            if rows.values.size
        )


@given(space=SPACES, seed=st.integers(0, 2**32 - 1), steps=st.integers(0, 5))
def test_packed_actions_are_the_actions(space: ez.EntitySpace, seed: int, steps: int) -> None:
    layout, batch, rng = PackedLayout(space), batch_of(space, seed, steps), np.random.default_rng(seed)
    actions, drawn = (sample_actions(space.actions, batch, rng) for _ in range(2))
    alone, together = layout.pack_actions(actions), layout.pack_actions(actions, drawn)
    assert alone.ndim == 1 and alone.dtype == layout.action_dtype
    for name, action in space.actions.items():
        is_real = isinstance(action, ez.Continuous)
        for packed, as_raw, expected in (
            (alone, False, actions),
            (alone, True, actions),
            (together, False, actions),
            (together, True, drawn if is_real else actions),
        ):
            unpacked = layout.unpack_actions(batch, packed, as_raw)[name]
            assert unpacked == expected[name] and unpacked.dtype == action.dtype


def test_hidden_entities_are_packed_whether_the_batch_says_so_or_not() -> None:
    batch = batch_of(DISCRETE, 1, 3)
    silent = ez.EntityBatch(batch.entities, batch.globals, batch.actions)
    flags = PackedLayout(DISCRETE).unpack(PackedLayout(DISCRETE).pack(silent)).visible
    assert all(flags[name].values.all() for name in DISCRETE.entities)


def test_read_only_memory_is_copied() -> None:
    batch = batch_of(DISCRETE, 1, 3)
    batch.globals.flags.writeable = False
    assert all(array.flags.writeable for array in PackedLayout(DISCRETE).pack(batch).values())


def test_large_indices_and_float32_survive_the_shared_array() -> None:
    layout = PackedLayout(REAL)
    assert layout.action_dtype == np.float64
    value = np.nextafter(np.float32(0.1), np.float32(1))
    assert np.float32(np.float64(value)) == value and int(np.float64(2**53 - 1)) == 2**53 - 1


def test_an_empty_array_orders_nothing() -> None:
    batch = batch_of(REAL, 5, 4)
    orders = PackedLayout(REAL).unpack_actions(batch, np.zeros(0))
    assert [len(order) for order in orders.values()] == [4, 4, 4]
    assert all(order.num_items == 0 for order in orders.values())


@pytest.mark.parametrize(
    ("actions", "facts"),
    [
        (
            np.zeros(99, np.int64),
            (99, 5, "3 of 'Walk'", "0 of 'Aim'", "2 of 'Alarm'"),
        ),
        (np.zeros(5), ("(M,)", "int64", "float64 (5,)")),
        (np.zeros((5, 1), np.int64), ("(M,)", "int64 (5, 1)")),
        ([["walk"]], ("int64", "<U4")),
    ],
)
def test_actions_that_do_not_fit_are_told(actions: Any, facts: tuple[object, ...]) -> None:
    batch = batch_with(DISCRETE, Walk=3, Aim=0, Alarm=2)
    with raises(ez.ActionError, *facts):
        PackedLayout(DISCRETE).unpack_actions(batch, actions)


def test_a_fraction_is_no_choice() -> None:
    layout = PackedLayout(REAL)
    batch = batch_with(REAL, Grip=1)
    packed = layout.pack_actions(sample_actions(REAL.actions, batch, np.random.default_rng(1)))
    packed[0] = 0.5
    with raises(ez.ActionError, "action 'Grip'", "integers", 0.5):
        layout.unpack_actions(batch, packed)


@pytest.mark.parametrize(
    ("change", "facts"),
    [
        ({"values/entities/Unit": None}, ("'values/entities/Unit'", "'Rock'")),
        ({"values/entities/Unit": np.zeros((0, 3), np.float32)}, ("entities/Unit: ", "0 items")),
        ({"offsets/entities/Unit": np.array([0, 1, 99])}, ("entities/Unit: ",)),
        ({"globals": np.zeros((2, 1))}, ("globals", "float32 (B, 1)", "float64 (2, 1)")),
        (
            {"globals": np.zeros((1, 1), np.float32)},
            ("entities/Unit", "1 sequences of float32 (2,)", "2 sequences of float32"),
        ),
    ],
)
def test_arrays_that_do_not_fit_are_told(change: dict[str, Any], facts: tuple[object, ...]) -> None:
    packed = {**PackedLayout(DISCRETE).pack(batch_of(DISCRETE, 3, 2)), **change}
    packed = {name: array for name, array in packed.items() if array is not None}
    with raises(ez.ObservationError, *facts):
        PackedLayout(DISCRETE).unpack_checked(packed)
    assert packed not in PackedBatchSpace(DISCRETE)


def test_the_spaces_are_equal_where_what_they_pack_is() -> None:
    packed, actions = PackedBatchSpace(DISCRETE), PackedActionSpace(DISCRETE.actions)
    assert packed == PackedBatchSpace(copy.deepcopy(DISCRETE)) and packed != PackedBatchSpace(REAL)
    assert packed != DISCRETE and actions != spaces.MultiDiscrete([1])
    assert actions == PackedActionSpace(copy.deepcopy(DISCRETE.actions))
    assert actions != PackedActionSpace(REAL.actions)
    for space in (packed, actions):
        for twin in (pickle.loads(pickle.dumps(space)), copy.deepcopy(space)):
            assert twin == space and type(twin) is type(space)
    assert packed.sample() in packed and actions.sample() in actions and 3 not in packed
    for space, wrong in ((PackedBatchSpace, DISCRETE.actions), (PackedActionSpace, DISCRETE)):
        with raises(TypeError, "expected an Entity"):
            space(wrong)  # type: ignore[arg-type]


def test_the_parts_of_the_space_say_what_they_hold() -> None:
    part = PackedBatchSpace(DISCRETE).spaces["values/entities/Unit"]
    assert part.shape is None and part.sample().shape == (0, 2)
    assert np.zeros((7, 2), np.float32) in part and np.zeros((7, 3), np.float32) not in part
    assert repr(part).startswith("<ragged array 'values/entities/Unit', float32 (n, 2) for any n: use ")
