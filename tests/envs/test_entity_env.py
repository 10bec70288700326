"""`EntityEnv`: resolving observations, dispatching actions, and what is said of wrong ones."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable
from typing import Any

import entitize as ez
import gymnasium
import numpy as np
import pytest

from facts import raises

Make = Callable[..., Any]
CM, GM, SM = ez.actions.CategoricalMask, ez.actions.GlobalCategoricalMask, ez.actions.SelectEntityMask

FULL = ez.Observation(
    entities={"Food": [[9.0]], "Unit": np.array([[1, 2, 3], [4, 5, 6]]), "Rock": np.zeros((1, 0))},
    globals=[0.5, 7],
    ids={"Unit": ["ann", "bob"], "Food": ["pie"]},
    visible={"Unit": [True, False]},
    actions={
        "Walk": CM(actor_ids=["bob", "ann"], mask=[[1, 0, 0], [0, 1, 1]]),
        "Aim": SM(actor_ids=["ann"], actee_types=["Food", "Unit"], mask=[[True, False, True]]),
        "Alarm": GM(mask=[False, True]),
    },
)


def test_ids_and_types_become_indices_that_count_through_the_types_of_the_space(
    scripted: Make, rich_space: ez.EntitySpace
) -> None:
    observation, info = scripted(rich_space, FULL).reset()
    assert info == {}
    assert observation in rich_space
    assert observation["entities"]["Unit"].tolist() == [[1, 2, 3], [4, 5, 6]]
    assert observation["entities"]["Rock"].shape == (1, 0)
    assert observation["globals"].tolist() == [0.5, 7]
    assert {name: flags.tolist() for name, flags in observation["visible"].items()} == {
        "Unit": [1, 0],
        "Rock": [1],
        "Food": [1],
    }
    walk, aim = observation["actions"]["Walk"], observation["actions"]["Aim"]
    assert walk["actors"].tolist() == [1, 0]
    assert walk["mask"].tolist() == [[1, 0, 0], [0, 1, 1]]
    assert aim["actors"].tolist() == [0]
    assert aim["actees"].tolist() == [3, 0, 1]  # Food comes after the rock, which has no id
    assert aim["mask"].tolist() == [1, 0, 1]
    assert observation["actions"]["Alarm"]["mask"].tolist() == [[0, 1]]


def test_a_type_without_ids_still_advances_the_indices(scripted: Make) -> None:
    actions = ez.EntityActionSpace({"Go": ez.Categorical(2)})
    space = ez.EntitySpace({"Food": ["x"], "Snake": ["x"]}, actions)
    env = scripted(
        space,
        ez.Observation(
            entities={"Food": [[1], [2], [3]], "Snake": [[4]]},
            ids={"Snake": ["sid"]},
            actions={"Go": CM(actor_ids=["sid"])},
        ),
    )
    observation, _ = env.reset()
    assert observation["actions"]["Go"]["actors"].tolist() == [3]
    env.step({"Go": [1]})
    assert env.received[0]["Go"].actors == ["sid"]


def test_neither_ids_nor_types_means_every_entity(scripted: Make, rich_space: ez.EntitySpace) -> None:
    env = scripted(
        rich_space,
        ez.Observation(
            entities={"Unit": [[1, 1, 1]], "Food": [[2], [3]]},
            globals=[0, 0],
            actions={"Walk": CM(), "Aim": SM(actor_types=["Food", "Unit"])},
        ),
    )
    observation, _ = env.reset()
    assert observation["actions"]["Walk"]["actors"].tolist() == [0, 1, 2]
    assert observation["actions"]["Aim"]["actors"].tolist() == [1, 2, 0]  # types in the order listed
    assert observation["actions"]["Aim"]["actees"].tolist() == [0, 1, 2]
    assert observation["actions"]["Alarm"]["mask"].shape == (0, 2)  # left out: can't be taken
    env.step({"Walk": [0, 1, 2], "Aim": [0, 1, 2]})
    assert env.received[0]["Walk"].actors == [0, 1, 2]  # without ids, indices
    assert env.received[0]["Aim"].actees == [0, 1, 2]


def test_an_empty_step_is_legal(scripted: Make, rich_space: ez.EntitySpace) -> None:
    env = scripted(rich_space, ez.Observation(globals=[0, 0]))
    observation, _ = env.reset()
    assert observation in rich_space
    assert [rows.shape for rows in observation["entities"].values()] == [(0, 3), (0, 0), (0, 1)]
    env.step(env.action_space.sample(mask=observation))
    assert env.received[0]["Walk"].actors == []


def test_where_nobody_selects_nobody_is_selectable(scripted: Make, rich_space: ez.EntitySpace) -> None:
    observation = ez.Observation(
        entities={"Food": [[1]]}, globals=[0, 0], actions={"Aim": SM(actor_types=[], actee_types=["Food"])}
    )
    plain, _ = scripted(rich_space, observation).reset()
    assert plain["actions"]["Aim"]["actees"].tolist() == []


def test_actions_come_back_with_ids_and_labels(scripted: Make, rich_space: ez.EntitySpace) -> None:
    env = scripted(rich_space, FULL)
    env.reset()
    env.step({"Walk": np.array([0, 2]), "Aim": [3], "Alarm": 1})
    walk, aim, alarm = (env.received[0][name] for name in ("Walk", "Aim", "Alarm"))
    assert walk.actors == ["bob", "ann"]
    assert walk.choices.tolist() == [0, 2]
    assert walk.choices.dtype == np.int64
    assert walk.labels == ["north", "stay"]
    assert (aim.actors, aim.actees) == (["ann"], ["pie"])
    assert (alarm.choice, alarm.label) == (1, "on")


@pytest.mark.parametrize("choice", [1, np.int32(1), np.array(1), np.array([1]), [1]])
def test_a_global_action_may_be_a_plain_number(
    scripted: Make, rich_space: ez.EntitySpace, choice: Any
) -> None:
    env = scripted(rich_space, FULL)
    env.reset()
    env.step({"Alarm": choice})
    assert env.received[0]["Alarm"].choice == 1


@pytest.mark.parametrize("action", [{}, {"Walk": []}, {"Walk": np.zeros(0, np.int64), "Alarm": []}])
def test_an_empty_or_missing_action_orders_nothing(
    scripted: Make, rich_space: ez.EntitySpace, action: dict[str, Any]
) -> None:
    env = scripted(rich_space, FULL)
    env.reset()
    env.step(action)
    received = env.received[0]
    assert (received["Walk"].actors, received["Walk"].labels, len(received["Walk"].choices)) == ([], [], 0)
    assert (received["Aim"].actors, received["Aim"].actees) == ([], [])
    assert "Alarm" not in received


def observation(**changes: Any) -> ez.Observation:
    parts = {name: getattr(FULL, name) for name in ("entities", "globals", "ids", "visible", "actions")}
    for name, change in changes.items():
        parts[name] = {**parts[name], **change} if isinstance(change, dict) else change
    return ez.Observation(**parts)


class Alike:
    """Looks like the id of a unit."""

    def __repr__(self) -> str:
        return "'ann'"


NAN = [[1, 2, 3], [4, float("nan"), 6]]
INF = [[1, 2, float("inf")], [4, 5, 6]]
WRONG_OBSERVATIONS: list[tuple[tuple[object, ...], Any]] = [
    (("'Unti'", "'Unit'", "'Rock'", "'Food'"), {"entities": {"Unti": [[1]]}}),
    (("'Ghost'",), {"ids": {"Ghost": []}}),
    (("'Ghost'",), {"visible": {"Ghost": []}}),
    (("'Unit'", 2, 3), {"entities": {"Unit": [[1, 2], [3, 4]]}}),
    (("'Unit'", 3), {"entities": {"Unit": [1, 2, 3]}}),
    (("'Unit'", 3), {"entities": {"Unit": [[1, 2, 3], [1, 2]]}}),
    (("'Food'", 1), {"entities": {"Food": [["apple"]]}}),
    (("'Unit'", "'y'", 1, "nan"), {"entities": {"Unit": NAN}}),
    (("'Unit'", "'health'", 0, "inf"), {"entities": {"Unit": INF}}),
    ((3, 2), {"globals": [1, 2, 3]}),
    ((2,), {"globals": ["a", "b"]}),
    (("'score'", "nan"), {"globals": [1, float("nan")]}),
    (("'Unit'", 1, 2), {"ids": {"Unit": ["ann"]}}),
    (("'Unit'", "'ann'"), {"ids": {"Unit": ["ann", "ann"]}}),
    (("'Food'", "'ann'"), {"ids": {"Food": ["ann"]}}),
    (("'Unit'", "'ann'"), {"ids": {"Unit": [["ann"], "bob"]}}),
    (("'visible'", "'Unit'", 1, 2), {"visible": {"Unit": [True]}}),
    (("'Wlak'", "'Walk'", "'Aim'", "'Alarm'"), {"actions": {"Wlak": CM()}}),
    (("'Walk'", "CategoricalMask", "GlobalCategoricalMask"), {"actions": {"Walk": GM()}}),
    (("'Aim'", "SelectEntityMask", "CategoricalMask"), {"actions": {"Aim": CM()}}),
    (("'Alarm'", "GlobalCategoricalMask", "CategoricalMask"), {"actions": {"Alarm": CM()}}),
    (("'Walk'", "'eve'", "'ann'", "'bob'", "'pie'"), {"actions": {"Walk": CM(actor_ids=["eve"])}}),
    (("'Walk'", "'ann'", "not equal"), {"actions": {"Walk": CM(actor_ids=[Alike()])}}),
    (("'Walk'", "mask", 0, 2), {"actions": {"Walk": CM(actor_ids=["ann"], mask=[[0, 1, 2]])}}),
    (("'Walk'", "mask", -1, 1), {"actions": {"Walk": CM(actor_ids=["ann"], mask=[[0, 1, -1]])}}),
    (("'Aim'", "'eve'"), {"actions": {"Aim": SM(actor_ids=["ann"], actee_ids=["eve"])}}),
    (("'Walk'", "'Ghost'", "'Unit'"), {"actions": {"Walk": CM(actor_types=["Ghost"])}}),
    (("'Walk'", "actor_types", "list", "'Unit'"), {"actions": {"Walk": CM(actor_types="Unit")}}),
    (("'Walk'", "actor_ids", "list", "'ann'"), {"actions": {"Walk": CM(actor_ids="ann")}}),
    (
        ("'Aim'", "actee_types", "list", "'Food'"),
        {"actions": {"Aim": SM(actor_types=["Unit"], actee_types="Food")}},
    ),
    (("'Walk'",), {"actions": {"Walk": CM(actor_ids=["ann"], actor_types=["Unit"])}}),
    (("'Walk'", "'ann'"), {"actions": {"Walk": CM(actor_ids=["ann", "bob", "ann"])}}),
    (("'Walk'", "'Unit'"), {"actions": {"Walk": CM(actor_types=["Unit", "Unit"])}}),
    (("'Walk'", 3, 2), {"actions": {"Walk": CM(actor_types=["Unit"], mask=[[1, 1], [1, 1], [1, 1]])}}),
    (("'Walk'", "float64"), {"actions": {"Walk": CM(actor_ids=["ann"], mask=[[0.0, 1.0, 1.0]])}}),
    (("'Walk'", 1, 3), {"actions": {"Walk": CM(actor_ids=["ann"], mask=[[1, 1, 1], [1]])}}),
    (("'Walk'", "'bob'"), {"actions": {"Walk": CM(actor_types=["Unit"], mask=[[1, 1, 1], [0, 0, 0]])}}),
    (("'Aim'", "'ann'"), {"actions": {"Aim": SM(actor_ids=["ann"], actee_types=["Food"], mask=[[False]])}}),
    (("'Aim'", "'bob'"), {"actions": {"Aim": SM(actor_ids=["bob"], actee_types=[])}}),
    (("'Aim'", 1), {"actions": {"Aim": SM(actor_ids=["ann"], actee_types=["Food"], mask=[True])}}),
    (("'Alarm'", 3, 2), {"actions": {"Alarm": GM(mask=[1, 1, 1])}}),
    (("'Alarm'",), {"actions": {"Alarm": GM(mask=[0, 0])}}),
]


@pytest.mark.parametrize(("facts", "wrong"), WRONG_OBSERVATIONS)
def test_a_wrong_observation_is_an_error_that_names_the_culprit(
    scripted: Make, rich_space: ez.EntitySpace, facts: tuple[object, ...], wrong: Any
) -> None:
    env = scripted(rich_space, observation(**wrong))
    with raises(ez.ObservationError, "Scripted", *facts):
        env.reset()
    env.first = FULL
    env.reset()  # and the environment is still good


def test_a_number_too_large_for_float32_is_named_without_a_warning(
    scripted: Make, rich_space: ez.EntitySpace
) -> None:
    env = scripted(rich_space, observation(entities={"Food": np.array([[1e300]])}))
    with raises(ez.ObservationError, "entity type 'Food'", "'x'", "entity 0", "float32", "1e+300"):
        env.reset()


def test_large_finite_features_are_not_taken_for_infinite_ones(
    scripted: Make, rich_space: ez.EntitySpace
) -> None:
    plain, _ = scripted(rich_space, observation(entities={"Food": [[3e38]]})).reset()
    assert plain["entities"]["Food"][0, 0] == np.float32(3e38)


def test_visible_needs_a_space_with_hidden_entities(scripted: Make) -> None:
    space = ez.EntitySpace({"Unit": ["x"]}, ez.EntityActionSpace({"Go": ez.GlobalCategorical(2)}))
    env = scripted(space, ez.Observation(entities={"Unit": [[1]]}, visible={"Unit": [True]}))
    with raises(ez.ObservationError, "hidden=True"):
        env.reset()


def test_something_that_is_no_observation_is_an_error(scripted: Make, rich_space: ez.EntitySpace) -> None:
    with raises(ez.ObservationError, "Scripted", "Observation", "dict"):
        scripted(rich_space, {"entities": {}}).reset()


@pytest.mark.parametrize("reward", [math.nan, math.inf, 1e39, -1e39])
def test_a_reward_must_be_finite_in_float32(
    reward: float, scripted: Make, rich_space: ez.EntitySpace
) -> None:
    env = scripted(rich_space, FULL, [(FULL, reward, False, False, {})])
    env.reset()
    with raises(ez.ObservationError, "reward", reward):
        env.step({})


WRONG_ACTIONS: list[tuple[tuple[object, ...], Any]] = [
    (("'Jump'", "'Walk'", "'Aim'", "'Alarm'"), {"Jump": [0]}),
    (("'Walk'", 3, 2, "'bob'", "'ann'"), {"Walk": [0, 1, 1]}),
    (("'Walk'", 1, 2), {"Walk": [0]}),
    (("'Walk'", "'ann'", 0, "'north'", 1, "'south'", 2, "'stay'"), {"Walk": [0, 0]}),
    (("'Walk'", "'bob'", 3, 0, "'north'"), {"Walk": [3, 1]}),
    (("'Walk'", "'bob'", -1), {"Walk": [-1, 1]}),
    (("'Walk'", "float64", 2), {"Walk": [0.0, 1.0]}),
    (("'Walk'", "int64", 1, 2), {"Walk": [[0, 1]]}),
    (("'Walk'",), {"Walk": [[0], [1, 2]]}),
    (("'Aim'", "'ann'", 0, 3, "'pie'", 1, "'bob'"), {"Aim": [0]}),
    (("'Aim'", "'ann'", 2), {"Aim": [2]}),
    (("'Aim'", "'ann'", -1), {"Aim": [-1]}),
    (("'Alarm'", 0, "'off'", 1, "'on'"), {"Alarm": 0}),
    (("'Alarm'", 2), {"Alarm": [1, 1]}),
]


@pytest.mark.parametrize(("facts", "wrong"), WRONG_ACTIONS)
def test_an_illegal_action_is_an_error_and_moves_nothing(
    scripted: Make, rich_space: ez.EntitySpace, facts: tuple[object, ...], wrong: Any
) -> None:
    env = scripted(rich_space, FULL)
    env.reset()
    with raises(ez.ActionError, "Scripted", *facts):
        env.step({"Walk": [0, 1], "Aim": [1], "Alarm": 1, **wrong})
    assert env.received == []
    env.step({"Walk": [0, 1], "Aim": [1], "Alarm": 1})
    assert len(env.received) == 1


def test_an_action_must_be_a_dict(scripted: Make, rich_space: ez.EntitySpace) -> None:
    env = scripted(rich_space, FULL)
    env.reset()
    with raises(ez.ActionError, "dict", "int"):
        env.step(3)


def test_an_order_where_nobody_may_act_is_an_error(scripted: Make, rich_space: ez.EntitySpace) -> None:
    env = scripted(rich_space, ez.Observation(globals=[0, 0]))
    env.reset()
    with raises(ez.ActionError, "action 'Walk'", 1):
        env.step({"Walk": [0]})
    with raises(ez.ActionError, "action 'Alarm'", 1):
        env.step({"Alarm": 0})


@pytest.mark.parametrize(("terminated", "truncated"), [(True, False), (False, True)])
def test_a_step_before_reset_or_after_the_end_needs_a_reset(
    scripted: Make, rich_space: ez.EntitySpace, terminated: bool, truncated: bool
) -> None:
    env = scripted(rich_space, FULL, [(FULL, 1, np.bool_(terminated), truncated, {"score": 3})])
    with raises(gymnasium.error.ResetNeeded, "Scripted", "reset()"):
        env.step({})
    env.reset()
    observation, reward, *ends, info = env.step({})
    assert observation in rich_space
    assert (reward, ends, info) == (1.0, [terminated, truncated], {"score": 3})
    assert type(ends[0]) is bool
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step({})


def test_a_step_that_raises_leaves_an_environment_that_needs_a_reset(
    scripted: Make, rich_space: ez.EntitySpace
) -> None:
    env = scripted(rich_space, FULL, [None])
    env.reset()
    with pytest.raises(ez.ObservationError):
        env.step({})
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step({})


def test_a_missing_observation_names_the_method(scripted: Make, rich_space: ez.EntitySpace) -> None:
    nothing: Any = None
    with raises(ez.ObservationError, "Scripted._reset", "Observation", "None"):
        scripted(rich_space, nothing).reset()
    env = scripted(rich_space, FULL, [(nothing, 0.0, False, False, {})])
    env.reset()
    with raises(ez.ObservationError, "Scripted._step", "Observation", "None"):
        env.step({})


def test_observations_are_fresh_and_the_environment_does_not_look_at_them_again(
    scripted: Make, rich_space: ez.EntitySpace
) -> None:
    source = np.array([[9.0]], np.float32)
    env = scripted(rich_space, observation(entities={"Food": source}))
    plain, _ = env.reset()
    for part in (plain["actions"]["Walk"], plain["actions"]["Aim"]):
        part["mask"][:] = 0
        part["actors"][:] = 99
    plain["entities"]["Food"][:] = -1
    env.step({"Walk": [0, 1], "Aim": [1]})
    assert env.received[0]["Walk"].actors == ["bob", "ann"]
    assert source[0, 0] == 9


def test_options_and_seeds_reach_the_author(scripted: Make, rich_space: ez.EntitySpace) -> None:
    env = scripted(rich_space, FULL)
    env.reset(seed=3, options={"level": 4})
    assert env.options == {"level": 4}
    drawn = env.np_random.random()
    env.reset()
    assert env.options == {}
    assert env.np_random.random() != drawn  # no seed: the random numbers go on
    env.reset(seed=3)
    assert env.np_random.random() == drawn


def test_spaces_that_do_not_belong_together_are_an_error(scripted: Make, rich_space: ez.EntitySpace) -> None:
    env = scripted(rich_space, FULL)
    env.action_space = ez.EntityActionSpace({"Walk": ez.Categorical(2)})
    with raises(ValueError, "Scripted", "action_space"):
        env.reset()
    env = scripted(rich_space, FULL)
    env.observation_space = gymnasium.spaces.Discrete(2)
    with raises(TypeError, "Scripted.observation_space", "EntitySpace", "Discrete(2)"):
        env.reset()


def test_the_example_in_the_documentation_works() -> None:
    assert ez.EntityEnv.__doc__ is not None
    source = ez.EntityEnv.__doc__.split("randomness:\n", 1)[1].split("`reset` and `step` are", 1)[0]
    names = {n: getattr(room, n) for room in (ez, ez.actions) for n in room.__all__ if n in source}
    exec(textwrap.dedent(source), names)
    ez.check_entity_env(names["Chase"]())


def test_an_author_must_write_reset_and_step() -> None:
    with raises(TypeError, "abstract"):
        ez.EntityEnv()  # type: ignore[abstract]


@pytest.mark.parametrize(
    "game", ["MineSweeper", "MultiSnake", "TreasureHunt", "CartPole-v1", "Procgen/coinrun"]
)
def test_sampled_actions_are_legal_for_the_last_observation(game: str) -> None:
    """Gymnasium's loop, `env.step(env.action_space.sample())`, for single and for vector environments."""
    env = ez.make(game)
    assert all(len(choices) == 0 for choices in env.action_space.sample().values())
    env.reset(seed=3)
    env.action_space.seed(3)
    for _ in range(40):
        *_, terminated, truncated, _ = env.step(env.action_space.sample())
        if terminated or truncated:
            env.reset()
    with ez.make_vec(game, num_envs=3) as venv:
        assert all(chosen.num_items == 0 for chosen in venv.action_space.sample().values())
        venv.reset(seed=3)
        venv.action_space.seed(3)
        for _ in range(40):
            venv.step(venv.action_space.sample())


def test_an_author_may_use_any_name() -> None:
    class Walk(ez.EntityEnv):
        action_space = ez.EntityActionSpace({"Go": ez.Categorical(2)})
        observation_space = ez.EntitySpace({"Unit": ["x"]}, action_space)

        def __init__(self) -> None:
            self._episode, self._resolved, self._resolver = "first", False, [1]

        def _prepare(self, place: int) -> None:
            self._place = place

        def _observe(self) -> ez.Observation:
            return ez.Observation(entities={"Unit": [[float(self._place)]]}, actions={"Go": CM()})

        def _reset(self, options: dict[str, Any]) -> ez.Observation:
            self._prepare(0)
            return self._observe()

        def _step(self, actions: Any) -> Any:
            self._prepare(self._place + 1)
            return self._observe(), 1.0, self._place == 5, False, {}

    env = Walk()
    ez.check_entity_env(env, 20)
    assert (env._episode, env._resolved, env._resolver) == ("first", False, [1])


def test_a_reset_may_give_an_info(scripted: Make, rich_space: ez.EntitySpace) -> None:
    given = {"level": 3}
    observation, info = scripted(rich_space, (FULL, given)).reset()
    assert observation in rich_space and info == given and info is not given
    with raises(ez.errors.ObservationError, "_reset", "info", 3):
        scripted(rich_space, (FULL, 3)).reset()
    with raises(ez.errors.ObservationError, "_reset", "tuple"):
        scripted(rich_space, (FULL, 0.0, False)).reset()
    with ez.vector.ListVectorEnv([lambda: scripted(rich_space, (FULL, given))]) as venv:
        assert venv.reset()[1]["level"].tolist() == [3]
