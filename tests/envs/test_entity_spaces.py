"""Spaces: what is in them, what is not and why, sampling, equality, pickling."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
import re
from collections.abc import Callable
from typing import Any

import entitize as ez
import gymnasium
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts import mentions, raises

Change = Callable[[dict[str, Any]], Any]


@given(seed=st.integers(0, 2**32 - 1))
def test_samples_are_in_the_space_by_our_own_and_by_gymnasiums_reading(seed: int) -> None:
    actions = ez.EntityActionSpace(
        {"Walk": ez.Categorical(3), "Aim": ez.SelectEntity(), "Alarm": ez.GlobalCategorical(2)}
    )
    space = ez.EntitySpace({"Unit": ["x", "y"], "Rock": []}, actions, ["time"], hidden=True)
    space.seed(seed)
    observation = space.sample()
    assert space.problem(observation) is None
    assert gymnasium.spaces.Dict.contains(space, observation)  # part by part
    num_entities = sum(map(len, observation["entities"].values()))
    aim = observation["actions"]["Aim"]
    assert len(aim["mask"]) == len(aim["actors"]) * len(aim["actees"])
    assert set(aim["actors"]) | set(aim["actees"]) <= set(range(num_entities))


@given(seed=st.integers(0, 2**32 - 1))
def test_masked_samples_are_legal_and_unmasked_ones_order_nothing(seed: int) -> None:
    actions = ez.EntityActionSpace(
        {"Walk": ez.Categorical(3), "Aim": ez.SelectEntity(), "Alarm": ez.GlobalCategorical(2)}
    )
    space = ez.EntitySpace({"Unit": ["x"], "Rock": []}, actions)
    space.seed(seed)
    actions.seed(seed)
    observation = space.sample()
    for mask in (observation, observation["actions"]):
        action = actions.sample(mask=mask)
        assert action in actions
        walk, aim = observation["actions"]["Walk"], observation["actions"]["Aim"]
        assert len(action["Walk"]) == len(walk["actors"])
        assert all(walk["mask"][row, choice] for row, choice in enumerate(action["Walk"]))
        allowed = aim["mask"].reshape(len(aim["actors"]), len(aim["actees"]))
        columns = [aim["actees"].tolist().index(selected) for selected in action["Aim"]]
        assert len(columns) == len(aim["actors"])
        assert all(allowed[row, column] for row, column in enumerate(columns))
        assert len(action["Alarm"]) == len(observation["actions"]["Alarm"]["mask"])
    unmasked = actions.sample()
    assert unmasked in actions
    assert [len(order) for order in unmasked.values()] == [0, 0, 0]


@pytest.mark.parametrize("names", [["actions"], ["actions", "Walk"]])
def test_an_action_may_have_the_name_of_the_part_of_an_observation_that_holds_the_masks(
    names: list[str],
) -> None:
    actions = ez.EntityActionSpace({name: ez.Categorical(3) for name in names}, seed=1)
    mask = {"actors": np.arange(4), "mask": np.tile(np.array([0, 0, 1], np.int8), (4, 1))}
    masks = dict.fromkeys(names, mask)
    for given_mask in (masks, {"actions": masks}, {"actions": masks, "entities": {}}):
        drawn = actions.sample(mask=given_mask)
        assert all(drawn[name].tolist() == [2] * 4 for name in names)


def test_masked_samples_are_uniform_over_what_is_allowed() -> None:
    space = ez.Categorical(4, seed=0)
    mask = {"actors": np.arange(4000), "mask": np.tile(np.array([1, 0, 1, 1], np.int8), (4000, 1))}
    counts = np.bincount(space.sample(mask=mask), minlength=4)
    assert counts[1] == 0
    assert np.all(np.abs(counts[[0, 2, 3]] - 4000 / 3) < 150)  # five standard deviations


def entity(observation: dict[str, Any], **parts: Any) -> None:
    observation["entities"].update(parts)


def part(action: str, name: str, value: Any) -> Change:
    return lambda observation: observation["actions"][action].update({name: value})


PROBLEMS: dict[tuple[str, ...], Change] = {
    ("missing", "'globals'"): lambda o: o.pop("globals"),
    ("unknown", "'extra'"): lambda o: o.update(extra=1),
    ("'entities'", "missing", "'Rock'"): lambda o: o["entities"].pop("Rock"),
    ("'entities'", "dict", "list"): lambda o: o.update(entities=[]),
    ("'actions'", "unknown", "'Wlak'"): lambda o: o["actions"].update(Wlak={}),
    ("entity type 'Unit' (x, y, health)", "float32 (n, 3)", "float64 (2, 3)"): lambda o: entity(
        o, Unit=np.zeros((2, 3))
    ),
    ("entity type 'Unit' (x, y, health)", "float32 (n, 3)", "float32 (2, 2)"): lambda o: entity(
        o, Unit=np.zeros((2, 2), np.float32)
    ),
    ("entity type 'Unit' (x, y, health)", "float32 (n, 3)", "list"): lambda o: entity(o, Unit=[]),
    ("entity type 'Unit'", "feature 'y'", "entity 1", "nan"): lambda o: entity(
        o, Unit=np.array([[1, 1, 1], [1, np.nan, 1]], np.float32)
    ),
    ("'globals' (time, score)", "float32 (2,)", "(3,)"): lambda o: o.update(globals=np.zeros(3, np.float32)),
    ("global feature 'score'", "inf"): lambda o: o.update(globals=np.array([0, np.inf], np.float32)),
    ("'visible'", "missing", "'Food'"): lambda o: o["visible"].pop("Food"),
    ("'visible'", "'Unit'", "int8 (2,)", "int8 (1,)"): lambda o: o["visible"].update(
        Unit=np.ones(1, np.int8)
    ),
    ("'visible'", "'Unit'", "0 and 1"): lambda o: o["visible"].update(Unit=np.full(2, 7, np.int8)),
    ("action 'Walk'", "missing", "'mask'"): lambda o: o["actions"]["Walk"].pop("mask"),
    ("action 'Walk'", "'actors'", "int64 (n,)", "int32"): part("Walk", "actors", np.zeros(1, np.int32)),
    ("action 'Walk'", "'actors'", "entity 3", "3 entities"): part("Walk", "actors", np.array([3])),
    ("action 'Walk'", "'actors'", "entity -1"): part("Walk", "actors", np.array([-1])),
    ("action 'Walk'", "'actors'", "twice"): part("Walk", "actors", np.array([1, 1])),
    ("action 'Walk'", "'mask'", "int8 (2, 3)", "int8 (1, 3)"): part("Walk", "mask", np.ones((1, 3), np.int8)),
    ("action 'Walk'", "'mask'", "int8 (2, 3)", "bool (2, 3)"): part("Walk", "mask", np.ones((2, 3), bool)),
    ("action 'Walk'", "'mask'", "0 and 1"): part("Walk", "mask", np.full((2, 3), 2, np.int8)),
    ("action 'Walk'", "row 1", "'mask'", "choice"): part(
        "Walk", "mask", np.array([[1, 1, 1], [0, 0, 0]], np.int8)
    ),
    ("action 'Aim'", "'actees'", "entity 9"): part("Aim", "actees", np.array([9])),
    ("action 'Aim'", "'mask'", "int8 (3,)", "int8 (2,)"): part("Aim", "mask", np.ones(2, np.int8)),
    ("action 'Aim'", "row 0", "'mask'", "entity"): part("Aim", "mask", np.zeros(3, np.int8)),
    ("action 'Alarm'", "'mask'", "2 rows", "one"): part("Alarm", "mask", np.ones((2, 2), np.int8)),
    ("action 'Alarm'", "'mask'", "int8 (1, 2)", "int8 (1, 3)"): part(
        "Alarm", "mask", np.ones((1, 3), np.int8)
    ),
    ("action 'Alarm'", "'mask'", "int8 (1, 2)", "got int"): part("Alarm", "mask", 1),
    ("action 'Alarm'", "row 0", "'mask'", "choice"): part("Alarm", "mask", np.zeros((1, 2), np.int8)),
}


@pytest.fixture
def observation() -> dict[str, Any]:
    return {
        "entities": {
            "Unit": np.zeros((2, 3), np.float32),
            "Rock": np.zeros((0, 0), np.float32),
            "Food": np.zeros((1, 1), np.float32),
        },
        "globals": np.zeros(2, np.float32),
        "visible": {"Unit": np.ones(2, np.int8), "Rock": np.ones(0, np.int8), "Food": np.zeros(1, np.int8)},
        "actions": {
            "Walk": {"actors": np.array([0, 1]), "mask": np.ones((2, 3), np.int8)},
            "Aim": {"actors": np.array([0]), "actees": np.array([0, 2, 1]), "mask": np.ones(3, np.int8)},
            "Alarm": {"mask": np.ones((1, 2), np.int8)},
        },
    }


@pytest.mark.parametrize("facts", PROBLEMS)
def test_what_is_not_in_the_space_is_explained(
    rich_space: ez.EntitySpace, observation: dict[str, Any], facts: tuple[str, ...]
) -> None:
    assert observation in rich_space
    PROBLEMS[facts](observation)
    assert observation not in rich_space
    assert re.search(mentions(*facts), str(rich_space.problem(observation)))


@pytest.mark.parametrize("thing", [None, 5, [], "observation", np.zeros(3)])
def test_membership_of_anything_is_answered_and_not_raised(rich_space: ez.EntitySpace, thing: Any) -> None:
    assert thing not in rich_space
    assert thing not in rich_space["entities"]["Unit"]
    assert thing not in rich_space.actions


def test_a_space_without_entities_has_no_entry_for_them(bare_space: ez.EntitySpace) -> None:
    assert set(bare_space.spaces) == {"actions"}
    observation = bare_space.sample()
    assert observation in bare_space
    assert bare_space.actions.sample(mask=observation) in bare_space.actions


@pytest.mark.parametrize(
    ("space", "inside", "outside"),
    [
        (ez.Categorical(3), [[], [0, 2]], [[3], [-1]]),
        (ez.GlobalCategorical(3), [[], [2]], [[0, 0], [3]]),
        (ez.SelectEntity(), [[], [0, 99]], [[-1]]),
    ],
)
def test_actions_are_lists_of_integers_in_range(space: Any, inside: list[Any], outside: list[Any]) -> None:
    for order in inside:
        assert np.array(order, np.int64) in space
    for order in outside:
        assert np.array(order, np.int64) not in space
    assert np.zeros(1) not in space
    assert np.zeros((1, 1), np.int64) not in space


def test_a_global_action_may_be_a_number() -> None:
    assert 1 in ez.GlobalCategorical(2)
    assert 2 not in ez.GlobalCategorical(2)


def test_the_order_of_types_and_actions_counts() -> None:
    actions = ez.EntityActionSpace({"B": ez.Categorical(2), "A": ez.Categorical(2)})
    space = ez.EntitySpace({"Z": ["x"], "Y": ["x"]}, actions)
    assert list(space.sample()["entities"]) == ["Z", "Y"]
    assert list(actions.sample()) == ["B", "A"]
    assert space != ez.EntitySpace({"Y": ["x"], "Z": ["x"]}, actions)
    assert actions != ez.EntityActionSpace({"A": ez.Categorical(2), "B": ez.Categorical(2)})


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda space: pickle.loads(pickle.dumps(space))])
def test_spaces_are_equal_to_their_copies_and_to_no_others(
    rich_space: ez.EntitySpace, bare_space: ez.EntitySpace, copied: Callable[[Any], Any]
) -> None:
    assert copied(rich_space) == rich_space
    assert copied(rich_space.actions) == rich_space.actions
    assert rich_space != bare_space
    assert ez.Categorical(2) != ez.GlobalCategorical(2)
    assert ez.Categorical(["a", "b"]) != ez.Categorical(["a", "c"])
    assert ez.EntitySpace({"U": ["x"]}, bare_space.actions) != ez.EntitySpace(
        {"U": ["y"]}, bare_space.actions
    )
    for kind in (ez.Categorical(2), ez.SelectEntity()):
        assert hash(copied(kind)) == hash(kind)


def test_seeded_samples_repeat(rich_space: ez.EntitySpace, same_data: Callable[[Any, Any], bool]) -> None:
    samples = []
    for _ in range(2):
        rich_space.seed(5)
        rich_space.actions.seed(6)
        observation = rich_space.sample()
        samples.append({**observation, "sampled": rich_space.actions.sample(mask=observation)})
    assert same_data(samples[0], samples[1])


def test_what_acts_or_can_be_selected_is_visible_in_samples() -> None:
    actions = ez.EntityActionSpace({"move": ez.Categorical(2), "aim": ez.SelectEntity()})
    space = ez.EntitySpace({"A": ["x"], "B": ["y"]}, actions, hidden=True)
    space.seed(3)
    hidden = 0
    for _ in range(50):
        observation = space.sample()
        flags = np.concatenate(list(observation["visible"].values()))
        hidden += int((flags == 0).sum())
        for part in observation["actions"].values():
            assert flags[part["actors"]].all() and flags[part.get("actees", [])].all()
    assert hidden > 10


NO_ACTIONS = ez.EntityActionSpace({})


@pytest.mark.parametrize(
    ("make", "error", "facts"),
    [
        (lambda: ez.Categorical([]), ValueError, ("at least one choice",)),
        (lambda: ez.Categorical(0), ValueError, ("at least one choice",)),
        (lambda: ez.Categorical("ab"), TypeError, ("choices", "list", "'ab'")),
        (lambda: ez.Categorical(["a", "b", "a"]), ValueError, ("choices", "repeat", "'a'")),
        (lambda: ez.EntityActionSpace({"Go": 2}), TypeError, ("action 'Go'", "space")),  # type: ignore[dict-item]
        (lambda: ez.EntitySpace({}, {}), TypeError, ("EntityActionSpace",)),  # type: ignore[arg-type]
        (lambda: ez.EntitySpace({"U": "xy"}, NO_ACTIONS), TypeError, ("U: feature names", "list")),
        (
            lambda: ez.EntitySpace({"U": ["x", "x"]}, NO_ACTIONS),
            ValueError,
            ("U: feature names", "repeat", "'x'"),
        ),
        (
            lambda: ez.EntitySpace({}, NO_ACTIONS, ["t", "t"]),
            ValueError,
            ("globals: feature names", "repeat", "'t'"),
        ),
    ],
)
def test_impossible_spaces_are_refused(
    make: Callable[[], Any], error: type[Exception], facts: tuple[object, ...]
) -> None:
    with raises(error, *facts):
        make()


def test_entities_have_names(rich_space: ez.EntitySpace) -> None:
    assert [rich_space.entity_name([2, 0, 1], index) for index in range(3)] == ["Unit 0", "Unit 1", "Food 0"]
    with raises(IndexError, 0, 2, 3):
        rich_space.entity_name([2, 0, 1], 3)


def test_spaces_say_what_they_are(rich_space: ez.EntitySpace) -> None:
    assert repr(rich_space) == (
        "EntitySpace(Unit[3], Rock[0], Food[1], globals[2], EntityActionSpace("
        "Walk=Categorical(['north', 'south', 'stay']), Aim=SelectEntity(),"
        " Alarm=GlobalCategorical(['off', 'on'])))"
    )


def test_samples_refuse_what_they_have_no_use_for(rich_space: ez.EntitySpace) -> None:
    """As Gymnasium's spaces do: probabilities are for its discrete ones, and observations have no mask."""
    venv = ez.make_vec("Xor", 2)
    actions = rich_space.actions
    spaces = [rich_space, actions, *actions.spaces.values(), venv.observation_space, venv.action_space]
    for space in spaces:
        with raises(gymnasium.error.Error, type(space).__name__, "probability", 0.5):
            space.sample(probability=0.5)
    for space in (rich_space, venv.observation_space):
        with raises(gymnasium.error.Error, type(space).__name__, "mask"):
            space.sample(mask={})


@pytest.mark.parametrize(
    ("space", "action"),
    [
        (ez.Categorical(["left", "right", "stay"]), [2, 0]),
        (ez.GlobalCategorical(["off", "on"]), [1]),
        (
            ez.MultiCategorical({"kind": ["go", "turn"], "angle": ["a", "b", "c"]}, uses={"turn": ["angle"]}),
            [[1, 2], [0, 0]],
        ),
        (ez.SelectEntity(), [1, 0]),
        (ez.Continuous([-1, -1], [1, 1]), [[0.5, -0.25], [0, 1]]),
        (ez.GlobalContinuous([-1, 0], [1, 2]), [[0.5, 1.5]]),
    ],
)
def test_an_action_comes_back_from_what_its_author_got_and_from_names_alone(
    space: Any, action: list[Any]
) -> None:
    object_ = space.to_author([0, 1], np.array(action), [0, 1])
    fields = json.loads(json.dumps(dataclasses.asdict(object_), default=np.ndarray.tolist))
    assert space.from_author(fields) == action
    named = {name: value for name, value in fields.items() if name not in ("choice", "choices")}
    assert space.from_author(named) == action


@pytest.mark.parametrize("space", [ez.Categorical(["a", "b"]), ez.MultiCategorical({"kind": ["a", "b"]})])
def test_choices_that_there_are_not_have_no_number(space: Any) -> None:
    with raises(ValueError, "a, b", "'c'"):
        space.from_author({"labels": ["c"] if type(space) is ez.Categorical else [{"kind": "c"}]})
    with pytest.raises(KeyError):
        space.from_author({})
    with pytest.raises(KeyError, match="label"):
        ez.GlobalCategorical(2).from_author({"choices": [1]})
