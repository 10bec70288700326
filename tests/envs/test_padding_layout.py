"""`PaddedLayout` against plain loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import entitize as ez
import numpy as np
import pytest
from entitize.envs import batch_observations, sample_actions
from hypothesis import given
from hypothesis import strategies as st

from facts import raises

SPACE = ez.EntitySpace(
    {"Unit": ["x", "y"], "Rock": [], "Food": ["x"]},
    ez.EntityActionSpace(
        {"Walk": ez.Categorical(3), "Aim": ez.SelectEntity(), "Alarm": ez.GlobalCategorical(2)}
    ),
    global_features=["time"],
    hidden=True,
)
PLAIN = ez.EntitySpace(
    {"Unit": ["x"]}, ez.EntityActionSpace({"Walk": ez.Categorical(2), "Aim": ez.SelectEntity()})
)
BARE = ez.EntitySpace({}, ez.EntityActionSpace({"Pick": ez.GlobalCategorical(3)}))
MOST = 5  # `EntitySpace.sample` draws up to five entities per type


def layout_of(space: ez.EntitySpace) -> ez.batch.PaddedLayout:
    return ez.batch.PaddedLayout(space, dict.fromkeys(space.entities, MOST))


def observations(space: ez.EntitySpace, seed: int, count: int) -> list[dict[str, Any]]:
    space.seed(seed)
    return [space.sample() for _ in range(count)]


CASES = {
    "seed": st.integers(0, 2**32 - 1),
    "count": st.integers(0, 5),
    "space": st.sampled_from([SPACE, PLAIN, BARE]),
}


@given(**CASES)
def test_padded_steps_are_in_the_padded_space(seed: int, count: int, space: ez.EntitySpace) -> None:
    layout = layout_of(space)
    padded = layout.pad(batch_observations(space, observations(space, seed, count)))
    single = layout.observation_space
    assert padded.keys() == single.spaces.keys()
    for step in range(count):
        assert {name: array[step] for name, array in padded.items()} in single


@given(**CASES)
def test_everything_is_where_the_layout_says(seed: int, count: int, space: ez.EntitySpace) -> None:
    parts = observations(space, seed, count)
    padded = layout_of(space).pad(batch_observations(space, parts))
    names = list(space.entities)
    for step, part in enumerate(parts):
        slots: list[int] = []  # by entity index
        if space.global_features:
            assert padded["globals"][step].tolist() == part["globals"].tolist()
        for t, name in enumerate(names):
            rows = part["entities"][name]
            slots += [MOST * t + position for position in range(len(rows))]
            assert padded[f"entities/{name}"][step, : len(rows)].tolist() == rows.tolist()
            assert not padded[f"entities/{name}"][step, len(rows) :].any()
            assert padded[f"presence/{name}"][step].tolist() == [p < len(rows) for p in range(MOST)]
            if space.hidden:
                visible = [*part["visible"][name].astype(bool).tolist(), *[False] * (MOST - len(rows))]
                assert padded[f"visible/{name}"][step].tolist() == visible
        for name, mask in part["actions"].items():
            prefix = f"actions/{name}"
            acting = int(padded[f"{prefix}/presence"][step].sum())
            got = padded[f"{prefix}/mask"][step]
            if "actors" not in mask:
                assert got[:acting].tolist() == mask["mask"].astype(bool).tolist()
                continue
            assert padded[f"{prefix}/actors"][step, :acting].tolist() == [slots[a] for a in mask["actors"]]
            width = len(mask["actees"]) if "actees" in mask else mask["mask"].shape[1]
            assert got[:acting, :width].tolist() == mask["mask"].reshape(acting, width).astype(bool).tolist()
            assert got.sum() == mask["mask"].sum()
            if "actees" in mask:
                assert padded[f"{prefix}/actees"][step, :width].tolist() == [slots[a] for a in mask["actees"]]
                assert padded[f"{prefix}/actee_presence"][step].sum() == width


@given(**CASES)
def test_padded_actions_are_choices_in_the_order_of_the_actors(
    seed: int, count: int, space: ez.EntitySpace
) -> None:
    parts = observations(space, seed, count)
    batch = batch_observations(space, parts)
    layout = layout_of(space)
    actions = sample_actions(space.actions, batch, np.random.default_rng(seed))
    padded = layout.pad_actions(batch, actions)
    assert padded.keys() == actions.keys()
    for name, array in padded.items():
        assert array.shape == (count, layout.max_actors[name]) and array.dtype == np.int64
        for step, part in enumerate(parts):
            chosen = actions[name][step].tolist()
            if space.actions[name].selects_entities:
                actees = part["actions"][name]["actees"].tolist()
                chosen = [actees.index(actee) for actee in chosen]
            assert array[step].tolist() == [*chosen, *[0] * (layout.max_actors[name] - len(chosen))]


@pytest.fixture
def batch() -> ez.EntityBatch:
    """Env 1 has two units, both of which walk; the first may aim at the second."""
    nobody, none = np.zeros(0, np.int64), np.zeros(0, np.int8)
    empty = {
        "entities": {"Unit": np.zeros((0, 1), np.float32)},
        "actions": {
            "Walk": {"actors": nobody, "mask": np.zeros((0, 2), np.int8)},
            "Aim": {"actors": nobody, "actees": nobody, "mask": none},
        },
    }
    two = {
        "entities": {"Unit": np.ones((2, 1), np.float32)},
        "actions": {
            "Walk": {"actors": np.array([1, 0]), "mask": np.ones((2, 2), np.int8)},
            "Aim": {"actors": np.array([0]), "actees": np.array([1, 0]), "mask": np.array([1, 0], np.int8)},
        },
    }
    return batch_observations(PLAIN, [empty, two])


@pytest.mark.parametrize(
    ("maxima", "facts"),
    [
        (({"Unit": 1},), ("env 1", "2 entities", "'Unit'", "at most 1")),
        (({"Unit": 3}, {"Walk": 1}), ("env 1", "2 actors", "'Walk'", "at most 1")),
        (({"Unit": 3}, {}, {"Aim": 1}), ("env 1", "2 actees", "'Aim'", "at most 1")),
    ],
)
def test_too_much_is_an_error_that_names_env_and_type(
    batch: ez.EntityBatch, maxima: Any, facts: tuple[object, ...]
) -> None:
    with raises(ez.ObservationError, *facts):
        ez.batch.PaddedLayout(PLAIN, *maxima).pad(batch)


@pytest.mark.parametrize(
    ("make", "facts"),
    [
        (
            lambda: ez.batch.PaddedLayout(PLAIN, {}),
            ("max_entities", "'Unit'", "None"),
        ),
        (
            lambda: ez.batch.PaddedLayout(PLAIN, {"Unit": -1}),
            ("max_entities", "'Unit'", -1),
        ),
        (
            lambda: ez.batch.PaddedLayout(PLAIN, {"Unti": 1, "Unit": 1}),
            ("max_entities", "'Unti'", "'Unit'"),
        ),
        (lambda: ez.batch.PaddedLayout(PLAIN, {"Unit": 1}, {"Jump": 1}), ("max_actors", "'Jump'")),
        (
            lambda: ez.batch.PaddedLayout(PLAIN, {"Unit": 1}, {}, {"Walk": 1}),
            ("max_actees", "'Walk'"),
        ),
    ],
)
def test_impossible_layouts_are_refused(make: Callable[[], Any], facts: tuple[object, ...]) -> None:
    with raises(ValueError, *facts):
        make()


def test_maxima_of_actors_and_actees_set_the_shapes(batch: ez.EntityBatch) -> None:
    padded = ez.batch.PaddedLayout(PLAIN, {"Unit": 4}, {"Walk": 2, "Aim": 1}, {"Aim": 3}).pad(batch)
    assert padded["actions/Walk/mask"].shape == (2, 2, 2)
    assert padded["actions/Aim/mask"].shape == (2, 1, 3)
    assert padded["actions/Aim/actees"].shape == (2, 3)
