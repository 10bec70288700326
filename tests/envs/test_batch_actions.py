"""Drawing and checking the actions of a batch, against the single environments' own checks."""

from __future__ import annotations

from typing import Any

import entitize as ez
import numpy as np
import pytest
from entitize.envs import (
    EntityBatchActionSpace,
    batch_observations,
    no_actions,
    sample_actions,
    validate_actions,
)
from entitize.ragged import RaggedArray
from hypothesis import given
from hypothesis import strategies as st

from facts import raises

ACTIONS = ez.EntityActionSpace(
    {
        "Walk": ez.Categorical(["n", "s", "stay"]),
        "Aim": ez.SelectEntity(),
        "Alarm": ez.GlobalCategorical(["off", "on"]),
    },
    optional=True,
)
SPACE = ez.EntitySpace({"Unit": ["x"], "Rock": [], "Food": ["x"]}, ACTIONS)


def observations(seed: int, count: int) -> list[dict[str, Any]]:
    SPACE.seed(seed)
    return [SPACE.sample() for _ in range(count)]


def allowed_choices(part: dict[str, Any], row: int) -> list[int]:
    """What actor `row` of an observation's part may choose, slowly."""
    if "actees" not in part:
        return [choice for choice in range(part["mask"].shape[1]) if part["mask"][row, choice]]
    width = len(part["actees"])
    return [int(part["actees"][c]) for c in range(width) if part["mask"][row * width + c]]


@given(seed=st.integers(0, 2**32 - 1), count=st.integers(0, 5))
def test_sampled_actions_are_legal_one_per_actor(seed: int, count: int) -> None:
    parts = observations(seed, count)
    batch = batch_observations(SPACE, parts)
    sampled = sample_actions(ACTIONS, batch, np.random.default_rng(seed))
    for name, order in sampled.items():
        for step, part in enumerate(parts):
            mask = part["actions"][name]
            rows = len(mask["actors"]) if "actors" in mask else len(mask["mask"])
            assert len(order[step]) == rows
            assert all(int(order[step][row]) in allowed_choices(mask, row) for row in range(rows))
    validated = validate_actions(SPACE, batch, sampled)
    assert list(validated) == list(ACTIONS)
    assert all(validated[name] == sampled[name] for name in ACTIONS)


def test_sampled_actions_are_uniform_over_what_is_allowed() -> None:
    SPACE.seed(11)
    part = next(o for o in (SPACE.sample() for _ in range(500)) if len(allowed_aim(o)) == 4)
    batch = batch_observations(SPACE, [part] * 4000)
    drawn = sample_actions(ACTIONS, batch, np.random.default_rng(0))["Aim"]
    first = drawn.values[drawn.offsets[:-1]]
    counts = [int(np.sum(first == choice)) for choice in allowed_aim(part)]
    assert sum(counts) == 4000
    assert all(abs(count - 1000) < 140 for count in counts)  # five standard deviations


def allowed_aim(observation: dict[str, Any]) -> list[int]:
    aim = observation["actions"]["Aim"]
    return allowed_choices(aim, 0) if len(aim["actors"]) else []


class Frozen(ez.EntityEnv):
    """Has the observation that it was given, and checks actions as every single environment does."""

    def __init__(self, observation: dict[str, Any]) -> None:
        self.observation_space, self.action_space = SPACE, ACTIONS
        counts = [len(rows) for rows in observation["entities"].values()]
        ids = {name: [(name, i) for i in range(n)] for name, n in zip(SPACE.entities, counts, strict=True)}
        flat = [identity for group in ids.values() for identity in group]
        walk, aim, alarm = (observation["actions"][name] for name in ACTIONS)
        actions: dict[str, Any] = {
            "Walk": ez.actions.CategoricalMask(
                actor_ids=[flat[a] for a in walk["actors"]], mask=walk["mask"]
            ),
            "Aim": ez.actions.SelectEntityMask(
                actor_ids=[flat[a] for a in aim["actors"]],
                actee_ids=[flat[a] for a in aim["actees"]],
                mask=aim["mask"].reshape(len(aim["actors"]), len(aim["actees"])),
            ),
        }
        if len(alarm["mask"]):
            actions["Alarm"] = ez.actions.GlobalCategoricalMask(mask=alarm["mask"][0])
        self.observation = ez.Observation(entities=observation["entities"], ids=ids, actions=actions)

    def _reset(self, options: dict[str, Any]) -> ez.Observation:
        return self.observation

    def _step(self, actions: dict[str, Any]) -> Any:
        return self.observation, 0.0, False, False, {}


@given(seed=st.integers(0, 2**32 - 1), data=st.data())
def test_a_batch_of_actions_is_refused_exactly_where_a_single_environment_refuses_its_part(
    seed: int, data: st.DataObject
) -> None:
    parts = observations(seed, 3)
    batch = batch_observations(SPACE, parts)
    actions = sample_actions(ACTIONS, batch, np.random.default_rng(seed))
    lists = {name: [sequence.tolist() for sequence in order] for name, order in actions.items()}
    name, step = data.draw(st.sampled_from(list(ACTIONS))), data.draw(st.integers(0, 2))
    lists[name][step] = data.draw(
        st.one_of(
            st.just([]),
            st.lists(st.integers(-1, 9), min_size=len(lists[name][step]), max_size=len(lists[name][step])),
            st.lists(st.integers(-1, 9), max_size=4),
        )
    )
    refused = []
    for index, part in enumerate(parts):
        env = Frozen(part)
        env.reset()
        try:
            env.step({key: order[index] for key, order in lists.items()})
        except ez.ActionError:
            refused.append(index)
    ragged = {key: RaggedArray.from_arrays(order, dtype=np.int64) for key, order in lists.items()}
    if refused:
        with pytest.raises(ez.ActionError, match=rf"^env {refused[0]}: action '{name}': "):
            validate_actions(SPACE, batch, ragged)
    else:
        assert validate_actions(SPACE, batch, ragged)[name] == ragged[name]


def written_out() -> ez.EntityBatch:
    """Two steps: nobody acts in the first; in the second a unit and a food walk, and the food aims."""
    empty = {
        "entities": {
            "Unit": np.zeros((1, 1), np.float32),
            "Rock": np.zeros((0, 0), np.float32),
            "Food": np.zeros((0, 1), np.float32),
        },
        "actions": {
            "Walk": {"actors": np.zeros(0, np.int64), "mask": np.zeros((0, 3), np.int8)},
            "Aim": {
                "actors": np.zeros(0, np.int64),
                "actees": np.zeros(0, np.int64),
                "mask": np.zeros(0, np.int8),
            },
            "Alarm": {"mask": np.zeros((0, 2), np.int8)},
        },
    }
    full = {
        "entities": {
            "Unit": np.zeros((2, 1), np.float32),
            "Rock": np.zeros((1, 0), np.float32),
            "Food": np.zeros((1, 1), np.float32),
        },
        "actions": {
            "Walk": {"actors": np.array([1, 3]), "mask": np.array([[1, 1, 1], [0, 1, 1]], np.int8)},
            "Aim": {
                "actors": np.array([3]),
                "actees": np.array([2, 0, 1]),
                "mask": np.array([1, 0, 1], np.int8),
            },
            "Alarm": {"mask": np.array([[1, 0]], np.int8)},
        },
    }
    assert SPACE.problem(empty) is None
    assert SPACE.problem(full) is None
    return batch_observations(SPACE, [empty, full])


def ragged(*sequences: list[Any], dtype: Any = np.int64) -> RaggedArray:
    return RaggedArray.from_arrays(sequences, dtype=dtype)


WRONG: list[tuple[tuple[object, ...], Any]] = [
    (("'Jump'", "'Walk'", "'Aim'", "'Alarm'"), {"Jump": ragged([], [])}),
    (("'Walk'", "RaggedArray"), {"Walk": [[], [0, 1]]}),
    (("'Walk'", "float32"), {"Walk": ragged([], [0, 1], dtype=np.float32)}),
    (("'Walk'", "int64", 1), {"Walk": RaggedArray.from_lengths(np.zeros((2, 1), np.int64), [0, 2])}),
    (("'Walk'", 1, 2), {"Walk": ragged([0, 1])}),
    ((1, "'Walk'", 3, 0), {"Walk": ragged([], [0, 1, 1])}),
    ((0, "'Walk'", 1), {"Walk": ragged([0], [0, 1])}),
    ((1, "'Walk'", 3, 0, "'s'", 2, "'stay'"), {"Walk": ragged([], [0, 0])}),
    ((1, "'Walk'", 3, 0, "'n'", "'s'", 2), {"Walk": ragged([], [3, 1])}),
    ((1, "'Walk'", -1), {"Walk": ragged([], [-1, 1])}),
    ((1, "'Aim'", 3, 0, 2), {"Aim": ragged([], [0])}),
    ((1, "'Aim'", 3, 0), {"Aim": ragged([], [3])}),
    ((1, "'Aim'", 3, 0, 4), {"Aim": ragged([], [4])}),
    ((1, "'Aim'", 3, 0, -1), {"Aim": ragged([], [-1])}),
    ((0, "'Alarm'"), {"Alarm": ragged([0], [0])}),
    ((1, "'Alarm'", 2), {"Alarm": ragged([], [0, 0])}),
    ((1, "'Alarm'", 0, "'off'"), {"Alarm": ragged([], [1])}),
]


@pytest.mark.parametrize(("facts", "wrong"), WRONG)
def test_an_illegal_action_is_named_with_env_action_and_actor(facts: tuple[object, ...], wrong: Any) -> None:
    with raises(ez.ActionError, *facts):
        validate_actions(SPACE, written_out(), wrong)


def test_actions_must_be_a_dict() -> None:
    with raises(ez.ActionError, "RaggedArray", "list"):
        validate_actions(SPACE, written_out(), [])  # type: ignore[arg-type]


def test_what_is_left_out_orders_nothing_and_int32_will_do() -> None:
    checked = validate_actions(SPACE, written_out(), {"Walk": ragged([], [0, 1], dtype=np.int32)})
    assert checked["Walk"] == ragged([], [0, 1])
    assert checked["Aim"] == checked["Alarm"] == ragged([], [])


def test_a_mask_that_allows_nothing_is_an_error_and_no_draw() -> None:
    batch = written_out()
    batch.actions["Walk"].mask.values[1] = False
    with raises(ez.ObservationError, "env 1", "action 'Walk'"):
        sample_actions(ACTIONS, batch, np.random.default_rng(0))


def test_the_vector_action_space_draws_legal_actions_for_a_batch_and_none_without() -> None:
    space = EntityBatchActionSpace(SPACE, 2)
    batch = written_out()
    space.seed(1)
    first = space.sample(mask=batch)
    space.seed(1)
    assert space.sample(mask=batch) == first
    assert first in space
    assert validate_actions(SPACE, batch, first) == first
    assert space.sample() == no_actions(ACTIONS, 2)
    assert space.sample() in space
    assert {"Walk": ragged([0])} not in space
    assert {"Walk": ragged([3], [])} not in space
    assert {"Jump": ragged([], [])} not in space
    assert space == EntityBatchActionSpace(SPACE, 2)
    assert space != EntityBatchActionSpace(SPACE, 3)


def test_an_action_may_be_left_out_only_where_the_space_says_optional() -> None:
    strict = ez.EntitySpace(SPACE.entities, ez.EntityActionSpace(dict(ACTIONS.items())))
    assert strict == SPACE and strict.actions == ACTIONS
    batch = written_out()
    complete = sample_actions(ACTIONS, batch, np.random.default_rng(0))
    assert validate_actions(strict, batch, complete) == complete
    for name in ACTIONS:
        some = {other: given for other, given in complete.items() if other != name}
        for left_out in (some, {**some, name: RaggedArray.empty(2, (), np.int64)}):
            validate_actions(SPACE, batch, left_out)
            with raises(ez.ActionError, "env 1", f"action {name!r}", "left out"):
                validate_actions(strict, batch, left_out)
