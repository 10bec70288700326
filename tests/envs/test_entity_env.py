"""`EntityEnv`: resolving observations, dispatching actions, and what is said of wrong ones."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from typing import Any

import entitize as ez
import gymnasium
import numpy as np
import pytest

from facts import mentions

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


NAN = [[1, 2, 3], [4, float("nan"), 6]]
INF = [[1, 2, float("inf")], [4, 5, 6]]
WRONG_OBSERVATIONS: dict[str, Any] = {
    "unknown entity type 'Unti' in entities; known: 'Unit', 'Rock', 'Food'": {"entities": {"Unti": [[1]]}},
    "unknown entity type 'Ghost' in ids": {"ids": {"Ghost": []}},
    "unknown entity type 'Ghost' in visible": {"visible": {"Ghost": []}},
    "entity type 'Unit' has shape (2, 2), expected (n, 3) for the features (x, y, health)": {
        "entities": {"Unit": [[1, 2], [3, 4]]}
    },
    "entity type 'Unit' has shape (3,), expected (n, 3)": {"entities": {"Unit": [1, 2, 3]}},
    "entity type 'Unit': not an array of numbers (n, 3)": {"entities": {"Unit": [[1, 2, 3], [1, 2]]}},
    "entity type 'Food': not an array of numbers (n, 1)": {"entities": {"Food": [["apple"]]}},
    "entity type 'Unit': feature 'y' of entity 1 is nan": {"entities": {"Unit": NAN}},
    "entity type 'Unit': feature 'health' of entity 0 is inf": {"entities": {"Unit": INF}},
    "globals have shape (3,), expected (2,) for the features (time, score)": {"globals": [1, 2, 3]},
    "globals: not an array of numbers (2,)": {"globals": ["a", "b"]},
    "global feature 'score' is nan": {"globals": [1, float("nan")]},
    "entity type 'Unit' has 1 ids for 2 entities": {"ids": {"Unit": ["ann"]}},
    "entity type 'Unit': the id 'ann' is given to two entities": {"ids": {"Unit": ["ann", "ann"]}},
    "entity type 'Food': the id 'ann' is given to two entities": {"ids": {"Food": ["ann"]}},
    "entity type 'Unit': id ['ann'] is not hashable": {"ids": {"Unit": [["ann"], "bob"]}},
    "'visible' of entity type 'Unit' has shape (1,), expected (2,)": {"visible": {"Unit": [True]}},
    "unknown action 'Wlak'; known: 'Walk', 'Aim', 'Alarm'": {"actions": {"Wlak": CM()}},
    "action 'Walk' needs a CategoricalMask, got GlobalCategoricalMask": {"actions": {"Walk": GM()}},
    "action 'Aim' needs a SelectEntityMask, got CategoricalMask": {"actions": {"Aim": CM()}},
    "action 'Alarm' needs a GlobalCategoricalMask, got CategoricalMask": {"actions": {"Alarm": CM()}},
    "action 'Walk': unknown actor id 'eve'; ids at this step: 'ann', 'bob', 'pie'": {
        "actions": {"Walk": CM(actor_ids=["eve"])}
    },
    "action 'Aim': unknown actee id 'eve'": {"actions": {"Aim": SM(actor_ids=["ann"], actee_ids=["eve"])}},
    "action 'Walk': unknown actor type 'Ghost'; known: 'Unit'": {
        "actions": {"Walk": CM(actor_types=["Ghost"])}
    },
    "action 'Walk': actors are named by id and by type": {
        "actions": {"Walk": CM(actor_ids=["ann"], actor_types=["Unit"])}
    },
    "action 'Walk': actor 'ann' is named twice": {"actions": {"Walk": CM(actor_ids=["ann", "bob", "ann"])}},
    "action 'Walk': actor 'Unit' is named twice": {"actions": {"Walk": CM(actor_types=["Unit", "Unit"])}},
    "action 'Walk': the mask has shape (3, 2), expected (2, 3)": {
        "actions": {"Walk": CM(actor_types=["Unit"], mask=[[1, 1], [1, 1], [1, 1]])}
    },
    "action 'Walk': the mask must be boolean, got float64": {
        "actions": {"Walk": CM(actor_ids=["ann"], mask=[[0.0, 1.0, 1.0]])}
    },
    "action 'Walk': the mask is not an array of shape (1, 3)": {
        "actions": {"Walk": CM(actor_ids=["ann"], mask=[[1, 1, 1], [1]])}
    },
    "action 'Walk': actor 'bob' is allowed nothing; leave out actors without a choice": {
        "actions": {"Walk": CM(actor_types=["Unit"], mask=[[1, 1, 1], [0, 0, 0]])}
    },
    "action 'Aim': actor 'ann' is allowed nothing": {
        "actions": {"Aim": SM(actor_ids=["ann"], actee_types=["Food"], mask=[[False]])}
    },
    "action 'Aim': actor 'bob' is allowed nothing": {
        "actions": {"Aim": SM(actor_ids=["bob"], actee_types=[])}
    },
    "action 'Aim': the mask has shape (1,), expected (1, 1)": {
        "actions": {"Aim": SM(actor_ids=["ann"], actee_types=["Food"], mask=[True])}
    },
    "action 'Alarm': the mask has shape (3,), expected (2,)": {"actions": {"Alarm": GM(mask=[1, 1, 1])}},
    "action 'Alarm': the mask allows none of off, on": {"actions": {"Alarm": GM(mask=[0, 0])}},
}


@pytest.mark.parametrize("sentence", WRONG_OBSERVATIONS)
def test_a_wrong_observation_is_an_error_that_names_the_culprit(
    scripted: Make, rich_space: ez.EntitySpace, sentence: str
) -> None:
    env = scripted(rich_space, observation(**WRONG_OBSERVATIONS[sentence]))
    with pytest.raises(ez.ObservationError, match=re.escape(f"Scripted: {sentence}")):
        env.reset()
    env.first = FULL
    env.reset()  # and the environment is still good


def test_a_number_too_large_for_float32_is_an_error_even_where_warnings_are_not(
    scripted: Make, rich_space: ez.EntitySpace
) -> None:
    env = scripted(rich_space, observation(entities={"Food": np.array([[1e300]])}))
    with pytest.raises(ez.ObservationError, match="entity type 'Food'"):
        env.reset()
    with (
        pytest.warns(RuntimeWarning, match="overflow"),
        pytest.raises(ez.ObservationError, match="'x' of entity 0 is inf"),
    ):
        import warnings

        warnings.simplefilter("always")
        env.reset()


def test_large_finite_features_are_not_taken_for_infinite_ones(
    scripted: Make, rich_space: ez.EntitySpace
) -> None:
    plain, _ = scripted(rich_space, observation(entities={"Food": [[3e38]]})).reset()
    assert plain["entities"]["Food"][0, 0] == np.float32(3e38)


def test_visible_needs_a_space_with_hidden_entities(scripted: Make) -> None:
    space = ez.EntitySpace({"Unit": ["x"]}, ez.EntityActionSpace({"Go": ez.GlobalCategorical(2)}))
    env = scripted(space, ez.Observation(entities={"Unit": [[1]]}, visible={"Unit": [True]}))
    with pytest.raises(ez.ObservationError, match="made without hidden=True"):
        env.reset()


def test_something_that_is_no_observation_is_an_error(scripted: Make, rich_space: ez.EntitySpace) -> None:
    with pytest.raises(ez.ObservationError, match="Scripted: must return an Observation, got dict"):
        scripted(rich_space, {"entities": {}}).reset()


def test_a_reward_must_be_finite(scripted: Make, rich_space: ez.EntitySpace) -> None:
    env = scripted(rich_space, FULL, [(FULL, float("nan"), False, False, {})])
    env.reset()
    with pytest.raises(ez.ObservationError, match="the reward is nan"):
        env.step({})


WRONG_ACTIONS: dict[str, Any] = {
    "action 'Jump': unknown action; known: 'Walk', 'Aim', 'Alarm'": {"Jump": [0]},
    "action 'Walk': 3 choices came for 2 actors ('bob', 'ann')": {"Walk": [0, 1, 1]},
    "action 'Walk': 1 choices came for 2 actors": {"Walk": [0]},
    "action 'Walk': actor 'ann': choice 0 ('north') is not allowed; allowed: 1 ('south'), 2 ('stay')": {
        "Walk": [0, 0]
    },
    "action 'Walk': actor 'bob': choice 3 is not allowed; allowed: 0 ('north')": {"Walk": [3, 1]},
    "action 'Walk': actor 'bob': choice -1 is not allowed": {"Walk": [-1, 1]},
    "action 'Walk': must be integers of shape (n,), got float64 (2,)": {"Walk": [0.0, 1.0]},
    "action 'Walk': must be integers of shape (n,), got int64 (1, 2)": {"Walk": [[0, 1]]},
    "action 'Walk': not an array of integers": {"Walk": [[0], [1, 2]]},
    "action 'Aim': actor 'ann': entity 0 is not allowed; allowed: 3 ('pie'), 1 ('bob')": {"Aim": [0]},
    "action 'Aim': actor 'ann': entity 2 is not allowed": {"Aim": [2]},
    "action 'Aim': actor 'ann': entity -1 is not allowed": {"Aim": [-1]},
    "action 'Alarm': choice 0 ('off') is not allowed; allowed: 1 ('on')": {"Alarm": 0},
    "action 'Alarm': 2 choices came for one global choice": {"Alarm": [1, 1]},
}


@pytest.mark.parametrize("sentence", WRONG_ACTIONS)
def test_an_illegal_action_is_an_error_and_moves_nothing(
    scripted: Make, rich_space: ez.EntitySpace, sentence: str
) -> None:
    env = scripted(rich_space, FULL)
    env.reset()
    with pytest.raises(ez.ActionError, match=re.escape(f"Scripted: {sentence}")):
        env.step({"Walk": [0, 1], "Aim": [1], "Alarm": 1, **WRONG_ACTIONS[sentence]})
    assert env.received == []
    env.step({"Walk": [0, 1], "Aim": [1], "Alarm": 1})
    assert len(env.received) == 1


def test_an_action_must_be_a_dict(scripted: Make, rich_space: ez.EntitySpace) -> None:
    env = scripted(rich_space, FULL)
    env.reset()
    with pytest.raises(ez.ActionError, match="an action is a dict from name to array, got int"):
        env.step(3)


def test_an_order_where_nobody_may_act_is_an_error(scripted: Make, rich_space: ez.EntitySpace) -> None:
    env = scripted(rich_space, ez.Observation(globals=[0, 0]))
    env.reset()
    with pytest.raises(
        ez.ActionError, match="action 'Walk': nobody may act at this step, but 1 choices came"
    ):
        env.step({"Walk": [0]})
    with pytest.raises(ez.ActionError, match="action 'Alarm': it cannot be taken at this step"):
        env.step({"Alarm": 0})


@pytest.mark.parametrize(("terminated", "truncated"), [(True, False), (False, True)])
def test_a_step_before_reset_or_after_the_end_needs_a_reset(
    scripted: Make, rich_space: ez.EntitySpace, terminated: bool, truncated: bool
) -> None:
    env = scripted(rich_space, FULL, [(FULL, 1, np.bool_(terminated), truncated, {"score": 3})])
    with pytest.raises(gymnasium.error.ResetNeeded, match=mentions("Scripted", "reset()")):
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
    with pytest.raises(TypeError):
        env.step({})
    with pytest.raises(gymnasium.error.ResetNeeded):
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
    with pytest.raises(ValueError, match="Scripted: action_space is"):
        env.reset()
    env = scripted(rich_space, FULL)
    env.observation_space = gymnasium.spaces.Discrete(2)
    with pytest.raises(
        TypeError, match=r"Scripted.observation_space must be an EntitySpace, got Discrete\(2\)"
    ):
        env.reset()


def test_the_example_in_the_documentation_works() -> None:
    assert ez.EntityEnv.__doc__ is not None
    source = ez.EntityEnv.__doc__.split("randomness:\n", 1)[1].split("`reset` and `step` are", 1)[0]
    names = {name: getattr(ez, name) for name in ez.__all__ if name in source}
    exec(textwrap.dedent(source), names)
    ez.check_entity_env(names["Chase"]())


def test_an_author_must_write_reset_and_step() -> None:
    with pytest.raises(TypeError, match="abstract"):
        ez.EntityEnv()  # type: ignore[abstract]
