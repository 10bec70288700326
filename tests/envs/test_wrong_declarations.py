"""Spaces and declarations with wrong arguments: one error that says what was expected, and what was given."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, IntEnum
from typing import Any

import entitize as ez
import gymnasium
import numpy as np
import pytest
from entitize.envs import GlobalContinuousMask

from facts import raises


@ez.entity
class Drone:
    x: float


@ez.entity
class Weather:
    wind: float


class Undecorated:
    x: float


class Move(Enum):
    LEFT = 0
    RIGHT = 1


class Rank(IntEnum):
    LOW = 1


class NoMembers(Enum):
    pass


untyped: Any = ez  # type checkers refuse what these tests call
DRONE = Drone(1.0)
ACTIONS = ez.EntityActionSpace({"move": ez.Categorical(2)})


def declare(entities: Any = (Drone,), actions: Any = None, **options: Any) -> Any:
    return untyped.declare(entities, {"move": Move} if actions is None else actions, **options)


def game(agent: Any) -> None:
    raise AssertionError("no game is played")


DECLARED: dict[str, tuple[Callable[[], Any], type[Exception], tuple[Any, ...]]] = {
    "names": (lambda: declare({"A": ["x"]}), TypeError, ("entities", "classes", "{'A': ['x']}")),
    "classes by name": (lambda: declare({"Drone": Drone}), TypeError, ("entities", "classes", "Drone")),
    "one class": (lambda: declare(Drone), TypeError, ("entities", "list", "Drone")),
    "a string": (lambda: declare("Drone"), TypeError, ("entities", "'Drone'")),
    "no entities": (lambda: untyped.declare(None, {"move": Move}), TypeError, ("entities", "None")),
    "a set": (lambda: declare({Drone}), TypeError, ("entities", "list", "Drone")),
    "a number among them": (lambda: declare([3]), TypeError, ("entities", "class", 3)),
    "a name among them": (lambda: declare(["Drone"]), TypeError, ("entities", "class", "'Drone'")),
    "an object": (lambda: declare([DRONE]), TypeError, ("entities", "class", repr(DRONE))),
    "an undecorated class": (lambda: declare([Undecorated]), TypeError, ("Undecorated", "@entity")),
    "a class twice": (lambda: declare([Drone, Drone]), TypeError, ("'Drone'", "two")),
    "actions: None": (lambda: untyped.declare([Drone], None), TypeError, ("actions", "dict", "None")),
    "actions: a list": (lambda: declare(actions=[Move]), TypeError, ("actions", "dict", "Move")),
    "actions: an Enum": (lambda: declare(actions=Move), TypeError, ("actions", "dict", "Move")),
    "actions: a number": (lambda: declare(actions=3), TypeError, ("actions", "dict", 3)),
    "actions: keys": (lambda: declare(actions={1: Move}), TypeError, ("actions", "strings", 1)),
    "action None": (lambda: declare(actions={"move": None}), TypeError, ("'move'", "Enum", "None")),
    "action of strings": (lambda: declare(actions={"move": ["a"]}), TypeError, ("'move'", "Enum", "['a']")),
    "action class": (lambda: declare(actions={"move": ez.SelectEntity}), TypeError, ("'move'", "space")),
    "empty Enum": (lambda: declare(actions={"move": NoMembers}), ValueError, ("'move'", "NoMembers")),
    "globals None": (lambda: declare(global_features=None), TypeError, ("globals", "None")),
    "globals number": (lambda: declare(global_features=3), TypeError, ("globals", 3)),
    "globals dict": (lambda: declare(global_features={"a": 1}), TypeError, ("globals", "{'a': 1}")),
    "globals object": (lambda: declare(global_features=Weather(1)), TypeError, ("globals", "Weather")),
    "hidden": (lambda: declare(hidden=[Drone]), TypeError, ("hidden", "True or False", "Drone")),
    "optional": (lambda: declare(optional="yes"), TypeError, ("optional", "True or False", "'yes'")),
}
SPACES: dict[str, tuple[Callable[[], Any], type[Exception], tuple[Any, ...]]] = {
    "types: a list": (lambda: untyped.EntitySpace(["A"], ACTIONS), TypeError, ("entities", "dict", "['A']")),
    "types: None": (lambda: untyped.EntitySpace(None, ACTIONS), TypeError, ("entities", "dict", "None")),
    "features: None": (
        lambda: untyped.EntitySpace({"A": None}, ACTIONS),
        TypeError,
        ("A:", "feature", "None"),
    ),
    "features: a class": (lambda: untyped.EntitySpace({"A": Drone}, ACTIONS), TypeError, ("A:", "Drone")),
    "features: a set": (
        lambda: untyped.EntitySpace({"A": {"x"}}, ACTIONS),
        TypeError,
        ("A:", "list", "{'x'}"),
    ),
    "features: a dict": (
        lambda: untyped.EntitySpace({"A": {"x": 1}}, ACTIONS),
        TypeError,
        ("A:", "{'x': 1}"),
    ),
    "globals: None": (lambda: untyped.EntitySpace({}, ACTIONS, None), TypeError, ("globals", "None")),
    "hidden: a list": (lambda: untyped.EntitySpace({}, ACTIONS, hidden=[]), TypeError, ("hidden", "[]")),
    "frame: a number": (lambda: untyped.EntitySpace({}, ACTIONS, frame=3), ValueError, ("frame", 3)),
    "frame: a flag": (
        lambda: untyped.EntitySpace({}, ACTIONS, frame=(True, 1, 1)),
        ValueError,
        ("frame", "True"),
    ),
    "actions: None": (lambda: untyped.EntityActionSpace(None), TypeError, ("actions", "dict", "None")),
    "actions: a string": (
        lambda: untyped.EntityActionSpace("move"),
        TypeError,
        ("actions", "dict", "'move'"),
    ),
    "optional: a string": (
        lambda: untyped.EntityActionSpace({}, optional="x"),
        TypeError,
        ("optional", "'x'"),
    ),
    "choices: None": (lambda: untyped.Categorical(None), TypeError, ("choices", "None")),
    "choices: a fraction": (lambda: untyped.Categorical(2.5), TypeError, ("choices", 2.5)),
    "choices: a flag": (lambda: untyped.Categorical(True), TypeError, ("choices", "True")),
    "choices: a member": (lambda: untyped.Categorical(Rank.LOW), TypeError, ("choices", "Rank.LOW")),
    "choices: a class": (lambda: untyped.Categorical(int), TypeError, ("choices", "int")),
    "choices: a dict": (lambda: untyped.Categorical({"a": 1}), TypeError, ("choices", "{'a': 1}")),
    "choices: a set": (lambda: untyped.Categorical({"a"}), TypeError, ("choices", "list", "{'a'}")),
    "choices: none": (lambda: untyped.GlobalCategorical(0), ValueError, ("choices", 0)),
    "component: None": (lambda: untyped.MultiCategorical({"k": None}), TypeError, ("'k'", "choices", "None")),
    "component: a flag": (
        lambda: untyped.MultiCategorical({"k": True}),
        TypeError,
        ("'k'", "choices", "True"),
    ),
    "uses: a number": (lambda: untyped.MultiCategorical({"k": 2}, 3), TypeError, ("uses", "dict", 3)),
    "uses: None": (
        lambda: untyped.MultiCategorical({"k": 2}, {"0": None}),
        TypeError,
        ("uses of '0'", "None"),
    ),
    "bound: None": (lambda: untyped.Continuous(None, 1), TypeError, ("low", "number", "None")),
    "bound: a string": (lambda: untyped.Continuous(0, "1"), TypeError, ("high", "number", "'1'")),
    "bound: complex": (lambda: untyped.GlobalContinuous(1j, 1), TypeError, ("low", "number", "1j")),
    "bound: a space": (
        lambda: untyped.Continuous(gymnasium.spaces.Box(0, 1, (2,)), 1),
        TypeError,
        ("low", "number", "Box"),
    ),
    "bound: too large": (lambda: untyped.Continuous(0, 10**400), TypeError, ("high", "number")),
    "bounds of several lengths": (lambda: untyped.Continuous([[0], [0, 1]], 1), TypeError, ("low", "[0, 1]")),
}
PROGRAMS: dict[str, tuple[Callable[[], Any], type[Exception], tuple[Any, ...]]] = {
    "entities": (
        lambda: untyped.program(entities={"A": ["x"]}, actions={"move": Move})(game),
        TypeError,
        ("entities", "{'A': ['x']}"),
    ),
    "no function": (lambda: untyped.Program(3, [Drone], {"move": Move}), TypeError, ("function", 3)),
    "no agent": (lambda: untyped.Program(lambda: None, [Drone], {}), TypeError, ("function", "agent")),
    "config": (
        lambda: untyped.train(game, entities=[Drone], actions={"move": Move}, num_games=1, config={}),
        TypeError,
        ("PPOConfig", "{}"),
    ),
    "network": (
        lambda: untyped.train(game, entities=[Drone], actions={"move": Move}, network=3),
        TypeError,
        ("network", "dict", 3),
    ),
}


@pytest.mark.parametrize(("call", "error", "facts"), DECLARED.values(), ids=DECLARED)
def test_a_declaration(call: Callable[[], Any], error: type[Exception], facts: tuple[Any, ...]) -> None:
    with raises(error, *facts):
        call()


@pytest.mark.parametrize(("call", "error", "facts"), SPACES.values(), ids=SPACES)
def test_a_space(call: Callable[[], Any], error: type[Exception], facts: tuple[Any, ...]) -> None:
    with raises(error, *facts):
        call()


@pytest.mark.parametrize(("call", "error", "facts"), PROGRAMS.values(), ids=PROGRAMS)
def test_a_program(call: Callable[[], Any], error: type[Exception], facts: tuple[Any, ...]) -> None:
    with raises(error, *facts):
        call()


def test_names_come_from_any_ordered_list() -> None:
    space = untyped.EntitySpace({"A": (name for name in "xy"), "B": np.array(["z"])}, ACTIONS)
    assert space.entities == {"A": ("x", "y"), "B": ("z",)}
    assert untyped.Categorical(np.int64(3)).choices == ("0", "1", "2")
    assert ez.MultiCategorical({"kind": Move}).components == {"kind": ("LEFT", "RIGHT")}


def test_a_bound_beyond_float32_is_none() -> None:
    assert ez.Continuous([0], [1e39]).high.tolist() == [np.inf]


@pytest.mark.parametrize(
    ("make", "error", "facts"),
    [
        (lambda: untyped.Obs("x"), TypeError, ("entities", "'x'")),
        (lambda: untyped.Obs(None), TypeError, ("entities", "None")),
        (lambda: untyped.Obs(Drone), TypeError, ("entities", "Drone")),
        (lambda: untyped.Obs(entities=3), TypeError, ("entities", 3)),
        (lambda: untyped.Obs(hidden=3), ez.ObservationError, ("hidden",)),
        (lambda: untyped.Obs(DRONE, actions=[DRONE]), ez.ObservationError, ("actions", "dict", "Drone")),
        (
            lambda: untyped.Obs(DRONE, actions={"move": None}),
            ez.ObservationError,
            ("'move'", "actors", "None"),
        ),
        (
            lambda: untyped.Obs(DRONE, actions={"move": DRONE}),
            ez.ObservationError,
            ("'move'", "actors", "Drone"),
        ),
        (
            lambda: untyped.Obs(DRONE, actions={"move": {DRONE: Move.LEFT}}),
            ez.ObservationError,
            ("'move'", "list", "Move.LEFT"),
        ),
        (lambda: untyped.Obs(Drone("1")), ez.ObservationError, ("Drone.x", "'1'")),
        (lambda: untyped.Obs(Drone(10**400)), ez.ObservationError, ("Drone.x", "number")),
    ],
)
def test_an_observation_of_objects(
    make: Callable[[], Any], error: type[Exception], facts: tuple[Any, ...]
) -> None:
    with raises(error, *facts):
        make()


OBSERVATIONS: dict[str, tuple[dict[str, Any], tuple[Any, ...]]] = {
    "entities: a list": ({"entities": [[1]]}, ("entities", "dict", "[[1]]")),
    "actions: a list": ({"actions": ["Move"]}, ("actions", "dict", "['Move']")),
    "ids: a list": ({"ids": ["a"]}, ("ids", "dict", "['a']")),
    "ids: None for a type": ({"ids": {"Cat": None}}, ("'Cat'", "ids", "list", "None")),
    "ids: a generator": ({"ids": {"Cat": (name for name in "a")}}, ("'Cat'", "ids", "list", "generator")),
    "an actor that is no list": (
        {"actions": {"Move": ez.actions.CategoricalMask(actor_ids=3)}},
        ("'Move'", "actor_ids", "list", 3),
    ),
    "actor types that are no list": (
        {"actions": {"Move": ez.actions.CategoricalMask(actor_types=3)}},
        ("'Move'", "actor_types", "list", 3),
    ),
}


@pytest.mark.parametrize(("parts", "facts"), OBSERVATIONS.values(), ids=OBSERVATIONS)
def test_an_observation(parts: dict[str, Any], facts: tuple[Any, ...]) -> None:
    with raises(ez.ObservationError, "Cats", *facts):
        _Cats(parts).reset()


def test_ids_and_visibility_may_be_none() -> None:
    assert len(_Cats({"ids": None, "visible": None}).reset()[0]["entities"]["Cat"]) == 1


class _Cats(ez.EntityEnv):
    """Observes one cat, with the given parts of an observation in place of others."""

    def __init__(self, parts: dict[str, Any]) -> None:
        self.parts = parts
        self.action_space = ez.EntityActionSpace({"Move": ez.Categorical(2)})
        self.observation_space = ez.EntitySpace({"Cat": ["x"]}, self.action_space, hidden=True)

    def _reset(self, options: dict[str, Any]) -> ez.Observation:
        return ez.Observation(**{"entities": {"Cat": [[1]]}, **self.parts})

    def _step(self, actions: dict[str, Any]) -> Any:
        raise NotImplementedError


def test_two_classes_of_one_name_are_not_one_type() -> None:
    @ez.entity(name="Drone")
    class Other:
        y: float

    with raises(ez.ObservationError, "Drone", "2", "class"):
        untyped.Obs([DRONE, Other(1.0)])


@pytest.mark.parametrize(
    ("seen", "facts"),
    [
        (lambda: untyped.Obs(DRONE, globals=DRONE), ["globals", "wind", "x"]),
        (lambda: untyped.Obs(Drone(None)), ["Drone.x", "finite", "None"]),  # type: ignore[arg-type]
        (lambda: untyped.Obs(Drone(1e300)), ["Drone.x", "finite", "1e+300"]),
    ],
)
def test_values_of_objects_are_named_as_they_came(seen: Callable[[], Any], facts: list[object]) -> None:
    class Windy(ez.EntityEnv):
        def __init__(self) -> None:
            spaces = ez.declare(entities=[Drone], global_features=Weather, actions={"move": Move})
            self.observation_space, self.action_space = spaces

        def _reset(self, options: Any) -> Any:
            return seen()

        def _step(self, actions: Any) -> Any:
            raise NotImplementedError

    with raises(ez.ObservationError, *facts):
        Windy().reset()


def test_one_entity_may_be_given_by_itself() -> None:
    assert np.shape(untyped.Obs(entities=DRONE, hidden=DRONE).entities["Drone"]) == (1, 1)


@pytest.mark.parametrize("wrong", [["1"], [b"1"], [1j], np.array(["1"]), [10**400], ["1", 2.0]])
def test_features_are_real_numbers(wrong: Any) -> None:
    space = ez.EntitySpace({"A": ["x"]}, ez.EntityActionSpace({"go": ez.GlobalContinuous(0, 1)}), ["g"])

    class Features(ez.EntityEnv):
        observation_space, action_space = space, space.actions

        def _reset(self, options: dict[str, Any]) -> ez.Observation:
            return ez.Observation({"A": options.get("rows", [[1]])}, options.get("globals", [1]))

        def _step(self, actions: Any) -> Any:
            return ez.Observation({}, [0], {"go": GlobalContinuousMask()}), 0, False, False, {}

    env = Features()
    env.reset(seed=0)
    with raises(ez.ObservationError, "Features", "'A'", "number"):
        env.reset(options={"rows": [[value] for value in wrong]})
    with raises(ez.ObservationError, "Features", "globals", "number"):
        env.reset(options={"globals": wrong})


class Levels(ez.EntityEnv):
    """Sets new spaces in its third episode, or in its first."""

    def __init__(
        self, later: dict[str, list[str]], labels: tuple[str, ...] = ("l", "r"), episode: int = 3
    ) -> None:
        self.later, self.labels, self.episode, self.begun = later, labels, episode, 0
        self.declare({"A": ["x"], "B": ["y"]}, ("l", "r"))

    def declare(self, entities: dict[str, list[str]], labels: tuple[str, ...]) -> None:
        self.action_space = ez.EntityActionSpace({"go": ez.GlobalCategorical(labels)})
        self.observation_space = ez.EntitySpace(entities, self.action_space)

    def _reset(self, options: dict[str, Any]) -> ez.Observation:
        self.begun += 1
        if self.begun == self.episode:
            self.declare(self.later, self.labels)
        return self._look()

    def _step(self, actions: dict[str, Any]) -> Any:
        return self._look(), 1.0, True, False, {}

    def _look(self) -> ez.Observation:
        entities = {name: np.ones((2, len(f))) for name, f in self.observation_space.entities.items()}
        return ez.Observation(entities, actions={"go": ez.actions.GlobalCategoricalMask()})


CHANGES: dict[str, tuple[dict[str, list[str]], tuple[str, ...], list[str]]] = {
    "fewer types": ({"A": ["x"]}, ("l", "r"), ["['A', 'B']", "['A']"]),
    "more types": ({"A": ["x"], "B": ["y"], "C": []}, ("l", "r"), ["['A', 'B']", "['A', 'B', 'C']"]),
    "another order": ({"B": ["y"], "A": ["x"]}, ("l", "r"), ["['A', 'B']", "['B', 'A']"]),
    "other features": ({"A": ["x"], "B": ["z"]}, ("l", "r"), ["'B'", "('y',)", "('z',)"]),
    "other choices": ({"A": ["x"], "B": ["y"]}, ("l", "r", "s"), ["'go'", "'s'"]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_spaces_that_change_between_episodes_are_refused(change: str) -> None:
    later, labels, facts = CHANGES[change]
    env = Levels(later, labels)
    env.reset(seed=1)
    env.reset()
    with raises(ez.ObservationError, "Levels", "episode 3", "observation_space", *facts):
        env.reset()
    for episode in (1, 3):  # a vector environment reads the spaces before the first
        lanes = ez.vector.ListVectorEnv([lambda episode=episode: Levels(later, labels, episode)])
        with raises(ez.WorkerError, "env 0", "Levels", "observation_space", *facts):
            batch, _ = lanes.reset(seed=1)
            for _ in range(3):
                batch, *_ = lanes.step(lanes.action_space.sample(mask=batch))


def test_spaces_may_be_made_again_each_episode() -> None:
    env = Levels({"A": ["x"], "B": ["y"]})
    for _ in range(4):
        observation, _ = env.reset(seed=1)
        assert {name: len(rows) for name, rows in observation["entities"].items()} == {"A": 2, "B": 2}
