"""`EntityBatch`: building, taking apart, gathering and joining, against plain lists."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import entitize as ez
import numpy as np
import pytest
from entitize.envs import batch_observations, concatenate_batches, unbatch_observation
from hypothesis import given
from hypothesis import strategies as st

from facts import mentions, raises

SPACE = ez.EntitySpace(
    {"Unit": ["x", "y"], "Rock": [], "Food": ["x"]},
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


SEEDS = st.integers(0, 2**32 - 1)


@given(seed=SEEDS, count=st.integers(0, 6), space=st.sampled_from([SPACE, BARE]))
def test_a_batch_holds_what_the_observations_held(seed: int, count: int, space: ez.EntitySpace) -> None:
    parts = observations(space, seed, count)
    batch = batch_observations(space, parts)
    assert len(batch) == count
    assert batch.num_entities == sum(
        len(rows) for part in parts for rows in part.get("entities", {}).values()
    )
    for name, rows in batch.entities.items():
        assert [r.tolist() for r in rows] == [part["entities"][name].tolist() for part in parts]
        assert [v.tolist() for v in batch.visible[name]] == [part["visible"][name].tolist() for part in parts]
    for name, mask in batch.actions.items():
        given_parts = [part["actions"][name] for part in parts]
        assert [m.tolist() for m in mask.mask] == [p["mask"].astype(bool).tolist() for p in given_parts]
        expected = [p["actors"].tolist() if "actors" in p else [-1] * len(p["mask"]) for p in given_parts]
        assert [a.tolist() for a in mask.actors] == expected
        if mask.actees is not None:
            assert [a.tolist() for a in mask.actees] == [p["actees"].tolist() for p in given_parts]
    assert batch.globals.tolist() == [part.get("globals", np.zeros(0)).tolist() for part in parts]


@given(seed=SEEDS, count=st.integers(1, 6))
def test_a_batch_gives_its_observations_back(seed: int, count: int) -> None:
    parts = observations(SPACE, seed, count)
    batch = batch_observations(SPACE, parts)
    for step in range(-count, count):
        again = unbatch_observation(SPACE, batch, step)
        assert SPACE.problem(again) is None
        assert batch_observations(SPACE, [again]).equals(batch_observations(SPACE, [parts[step]]))


@given(seed=SEEDS, count=st.integers(1, 6), data=st.data())
def test_gather_slices_and_concatenation_do_to_steps_what_they_do_to_lists(
    seed: int, count: int, data: st.DataObject
) -> None:
    parts = observations(SPACE, seed, count)
    batch = batch_observations(SPACE, parts)
    indices = data.draw(st.lists(st.integers(-count, count - 1), max_size=8))
    assert batch.gather(indices).equals(batch_observations(SPACE, [parts[i] for i in indices]))
    bounds = st.none() | st.integers(-count - 1, count + 1)
    steps = st.sampled_from([None, 1, 2, -1])
    key = slice(data.draw(bounds), data.draw(bounds), data.draw(steps))
    assert batch[key].equals(batch_observations(SPACE, parts[key]))
    cut = data.draw(st.integers(0, count))
    assert concatenate_batches([batch[:cut], batch[cut:]]).equals(batch)


@given(seed=SEEDS, count=st.integers(0, 5), space=st.sampled_from([SPACE, BARE]))
def test_sequential_indices_count_through_steps_and_then_types(
    seed: int, count: int, space: ez.EntitySpace
) -> None:
    parts = observations(space, seed, count)
    batch = batch_observations(space, parts)
    rows, offsets = batch.entity_rows()
    flat = [
        (step, name, position)
        for step, part in enumerate(parts)
        for name, entities in part.get("entities", {}).items()
        for position in range(len(entities))
    ]
    assert offsets.tolist() == [sum(f[0] < step for f in flat) for step in range(count + 1)]
    assert offsets.tolist() == batch.entity_offsets.tolist()
    for name in space.entities:
        assert rows[name].tolist() == [row for row, f in enumerate(flat) if f[1] == name]
    if "Walk" in batch.actions:
        starts = offsets.tolist()
        expected = [starts[s] + a for s, part in enumerate(parts) for a in part["actions"]["Walk"]["actors"]]
        assert batch.actor_rows("Walk").tolist() == expected


def test_slices_with_step_one_are_views() -> None:
    batch = batch_observations(SPACE, observations(SPACE, 1, 4))
    assert np.shares_memory(batch[1:3].entities["Unit"].values, batch.entities["Unit"].values)
    assert np.shares_memory(batch[1:3].globals, batch.globals)


def test_a_batch_without_visible_shows_everything() -> None:
    batch = batch_observations(SPACE, observations(SPACE, 2, 3))
    silent = ez.EntityBatch(batch.entities, batch.globals, batch.actions)
    assert silent.visibility("Unit").values.all()
    assert [len(v) for v in silent.visibility("Unit")] == batch.entities["Unit"].lengths.tolist()
    assert unbatch_observation(SPACE, silent, 0) in SPACE
    joined = concatenate_batches([batch, silent])
    assert joined[:3].equals(batch)
    assert joined[3:].visible["Food"].values.all()


@pytest.mark.parametrize(
    ("use", "error", "facts"),
    [
        (lambda b: b.gather([0, 3]), IndexError, ("indices", 3)),
        (lambda b: b.gather([-4]), IndexError, ("indices", -4, 3)),
        (lambda b: b.gather([True, False, True]), TypeError, ("indices", "integers", "bool")),
        (lambda b: b.gather([0.5]), TypeError, ("indices", "integers", "float64")),
        (lambda b: b[1], TypeError, ("slice", 1)),
        (lambda b: unbatch_observation(SPACE, b, 3), IndexError, ("step 3", "batch of 3")),
        (lambda b: concatenate_batches([]), ValueError, ("batch", "concatenate")),
    ],
)
def test_wrong_use_is_an_error(
    use: Callable[[Any], Any], error: type[Exception], facts: tuple[object, ...]
) -> None:
    with raises(error, *facts):
        use(batch_observations(SPACE, observations(SPACE, 3, 3)))


def test_batch_spaces_tell_what_is_wrong_with_a_batch() -> None:
    space = ez.envs.EntityBatchSpace(SPACE, 3)  # type: ignore[attr-defined]
    space.seed(4)
    batch = space.sample()
    assert batch in space
    assert space.problem(batch[:2]) == "batch: expected 3 steps, got 2 steps"
    assert space.problem(5) == "batch: expected an EntityBatch, got int"
    assert "expected the arrays" in str(space.problem(batch_observations(BARE, observations(BARE, 0, 3))))

    def changed(**entities: Any) -> ez.EntityBatch:
        return ez.EntityBatch({**batch.entities, **entities}, batch.globals, batch.actions, batch.visible)

    unit = batch.entities["Unit"]
    without_globals = ez.EntityBatch(batch.entities, batch.globals[:, :0], batch.actions, batch.visible)
    for wrong, *facts in (
        (changed(Unit=unit.with_values(unit.values.astype(np.float64))), "entities/Unit", "float64"),
        (changed(Unit=unit.with_values(unit.values[:, :1])), "entities/Unit", "(2,)", "(1,)"),
        (changed(Unit=unit[:2]), "entities/Unit", "expected 3", "got 2"),
        (without_globals, "globals", "(3, 1)", "(3, 0)"),
    ):
        assert re.search(mentions(*facts), str(space.problem(wrong)))
    broken = unit.values.copy()
    broken[-1, 1] = np.nan
    assert re.match(
        r"env \d: entity type 'Unit': feature 'y' of entity \d: expected a finite number, got nan",
        str(space.problem(changed(Unit=unit.with_values(broken)))),
    )


def test_a_part_that_is_missing_is_named() -> None:
    given = observations(SPACE, 2, 3)
    name = next(iter(SPACE.actions))
    del given[1]["actions"][name]["mask"]
    with raises(ez.ObservationError, "observation 1 of 3", repr(name), "'mask' is missing"):
        batch_observations(SPACE, given)


def test_who_is_hidden_stays_hidden_behind_a_batch_without_visible() -> None:
    batch = batch_observations(SPACE, observations(SPACE, 2, 3))
    batch.visible["Unit"].values[::2] = False
    silent = ez.EntityBatch(batch.entities, batch.globals, batch.actions)
    joined = concatenate_batches([silent, batch])
    assert not batch.visible["Unit"].values.all()
    assert joined[3:].equals(batch)
    assert all(joined[:3].visibility(name).values.all() for name in SPACE.entities)
