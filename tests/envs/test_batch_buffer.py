"""`EntityBatchBuffer` against a plain list of observations."""

from __future__ import annotations

from typing import Any

import entitize as ez
import numpy as np
from entitize.envs import batch_observations
from hypothesis import given
from hypothesis import strategies as st

from facts import raises

SPACE = ez.EntitySpace(
    {"Unit": ["x", "y"], "Rock": []},
    ez.EntityActionSpace(
        {"Walk": ez.Categorical(3), "Aim": ez.SelectEntity(), "Alarm": ez.GlobalCategorical(2)}
    ),
    global_features=["time"],
    hidden=True,
)
BARE = ez.EntitySpace({}, ez.EntityActionSpace({"Pick": ez.GlobalCategorical(3)}))


def observations(space: ez.EntitySpace, seed: int, count: int) -> list[dict[str, Any]]:
    space.seed(seed)
    return [space.sample() for _ in range(count)]


@given(
    seed=st.integers(0, 2**32 - 1),
    rollouts=st.lists(st.lists(st.integers(0, 4), max_size=4), min_size=1, max_size=3),
    space=st.sampled_from([SPACE, BARE]),
    data=st.data(),
)
def test_a_buffer_holds_the_steps_since_it_was_cleared(
    seed: int, rollouts: list[list[int]], space: ez.EntitySpace, data: st.DataObject
) -> None:
    buffer = ez.batch.EntityBatchBuffer(space)
    for rollout in rollouts:
        buffer.clear()
        stored: list[dict[str, Any]] = []
        for number, count in enumerate(rollout):
            step = observations(space, seed + number, count)
            buffer.append(batch_observations(space, step))
            stored += step
            assert len(buffer) == len(stored)
        assert buffer.batch().equals(batch_observations(space, stored))
        if stored:
            indices = data.draw(st.lists(st.integers(0, len(stored) - 1), max_size=6))
            expected = batch_observations(space, [stored[index] for index in indices])
            assert buffer.gather(indices).equals(expected)


def test_a_rollout_as_long_as_the_last_one_reuses_its_memory() -> None:
    buffer = ez.batch.EntityBatchBuffer(SPACE)
    steps = [batch_observations(SPACE, observations(SPACE, seed, 5)) for seed in range(6)]

    def rollout() -> list[int]:
        buffer.clear()
        for step in steps:
            buffer.append(step)
        arrays = buffer.batch().arrays().values()
        values = [array if isinstance(array, np.ndarray) else array.values for array in arrays]
        return [array.ctypes.data for array in values if array.size]

    assert rollout() == rollout()


def test_gathered_steps_survive_the_next_rollout() -> None:
    buffer = ez.batch.EntityBatchBuffer(SPACE)
    first = batch_observations(SPACE, observations(SPACE, 1, 4))
    buffer.append(first)
    gathered = buffer.gather(np.arange(4))
    buffer.clear()
    buffer.append(batch_observations(SPACE, observations(SPACE, 2, 4)))
    assert gathered.equals(first)


def test_a_batch_that_does_not_say_what_is_visible_is_stored_as_all_visible() -> None:
    buffer = ez.batch.EntityBatchBuffer(SPACE)
    full = batch_observations(SPACE, observations(SPACE, 3, 3))
    buffer.append(ez.EntityBatch(full.entities, full.globals, full.actions))
    buffer.append(full)
    assert buffer.batch()[:3].visible["Unit"].values.all()
    assert buffer.batch()[3:].equals(full)


def changed(batch: ez.EntityBatch, **parts: Any) -> ez.EntityBatch:
    fields = {name: getattr(batch, name) for name in ("entities", "globals", "actions", "visible")}
    return ez.EntityBatch(**{**fields, **parts})


def test_a_batch_of_another_space_is_refused_and_leaves_the_buffer_as_it_was() -> None:
    buffer = ez.batch.EntityBatchBuffer(SPACE)
    good = batch_observations(SPACE, observations(SPACE, 4, 3))
    buffer.append(good)
    unit = good.entities["Unit"]
    wrong = {
        ("globals", "(3, 2)", "(3, 1)"): changed(good, globals=np.zeros((3, 2), np.float32)),
        ("entities/Unit", "3 sequences of float32 (1,)", "3 sequences of float32 (2,)"): changed(
            good, entities={**good.entities, "Unit": unit.with_values(unit.values[:, :1])}
        ),
        ("entities/Unit", "2 sequences", 3): changed(
            good,
            entities={**good.entities, "Unit": unit[:2]},
            visible={**good.visible, "Unit": good.visible["Unit"][:2]},
        ),
        ("entities/Unit", "float64", "float32"): changed(
            good, entities={**good.entities, "Unit": unit.with_values(unit.values.astype(np.float64))}
        ),
        ("Walk", "Aim"): changed(good, actions={"Walk": good.actions["Walk"]}),
    }
    for facts, batch in wrong.items():
        with raises(ValueError, *facts):
            buffer.append(batch)
        assert len(buffer) == 3
        assert buffer.batch().equals(good)
