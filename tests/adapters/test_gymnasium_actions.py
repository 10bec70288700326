"""Gymnasium's action spaces as entity actions, and the masks that come with them."""

from typing import Any

import entitize as ez
import gymnasium
import numpy as np
import pytest
from entitize import ActionError, GlobalCategorical, GlobalContinuous, RaggedArray, wrap, wrap_vec
from entitize.envs import ObservationError
from gymnasium import spaces
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, OneOf, Tuple
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import TransformAction

from facts import raises


class Echo(gymnasium.Env):
    """Remembers the action that it was given; its masks are what it is told."""

    def __init__(
        self, action_space: spaces.Space, mask: Any = None, where: str = "info", length: int = 100
    ) -> None:
        self.action_space = action_space
        self.observation_space: spaces.Space = Box(-9, 9, (2,), np.float32)
        if where == "observation":
            masks = Box(0, 1, np.shape(mask), np.int8)
            self.observation_space = Dict(observation=self.observation_space, action_mask=masks)
        self.mask, self.where, self.length = mask, where, length
        if where == "method":
            self.action_masks = lambda: self._masks()
        self.given: list = []

    def _masks(self) -> Any:
        mask = self.mask(self.steps) if callable(self.mask) else self.mask
        return mask.copy() if isinstance(mask, np.ndarray) else mask

    def _look(self) -> tuple[Any, dict[str, Any]]:
        numbers = np.array([self.steps, 0], np.float32)
        if self.where == "observation":
            return {"observation": numbers, "action_mask": np.array(self._masks(), np.int8)}, {}
        return numbers, {} if self.mask is None or self.where == "method" else {"action_mask": self._masks()}

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return self._look()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), action
        self.given.append(action)
        self.steps += 1
        observation, info = self._look()
        return observation, 1.0, self.steps == self.length, False, info


EVERY_SPACE = {
    "discrete": Discrete(4, start=3),
    "multi-discrete": MultiDiscrete([2, 3], start=[1, 0]),
    "multi-discrete board": MultiDiscrete([[2, 3], [4, 5]]),
    "multi-binary": MultiBinary(3),
    "box": Box(-2, 3, (2, 2), np.float32),
    "double box": Box(-2, 3, (2,), np.float64),
    "integer box": Box(0, 255, (3,), np.uint8),
    "half-open box": Box(np.float32(0), np.float32(np.inf), (2,), np.float32),
    "dict": Dict(move=Discrete(3), aim=Box(-1, 1, (2,), np.float32), more=Dict(keys=MultiBinary(2))),
    "tuple": Tuple((Discrete(2), Tuple((Discrete(3), Box(0, 1, (1,), np.float32))))),
    "one of": OneOf((Discrete(3), MultiDiscrete([2, 2]), Box(-1, 1, (2,), np.float32))),
    "dict of one of": Dict(a=OneOf((Discrete(3), Tuple((Discrete(2), Discrete(2))))), b=Discrete(2)),
}


@pytest.mark.parametrize("name", EVERY_SPACE)
def test_orders_arrive_as_actions_of_the_space(name):
    raw = Echo(EVERY_SPACE[name])
    env = wrap(raw)
    seen, _ = env.reset(seed=1)
    env.action_space.seed(1)
    for _ in range(20):
        assert env.observation_space.contains(seen)
        seen, *_ = env.step(env.action_space.sample(mask=seen))
    assert len(raw.given) == 20  # each was contained in the space, or it would have raised
    actions = env.action_space.sample(mask=seen)
    for left_out in actions:
        rest = {name: choice for name, choice in actions.items() if name != left_out}
        for incomplete in (rest, {**rest, left_out: np.zeros(0, np.int64)}):
            with raises(ActionError, "Echo", f"action {left_out!r}", 1):
                env.step(incomplete)
    assert len(raw.given) == 20
    env.step(actions)


@pytest.mark.parametrize("name", EVERY_SPACE)
def test_a_batch_of_orders_is_the_orders_of_each_lane(name):
    lanes = [Echo(EVERY_SPACE[name]) for _ in range(3)]
    venv = wrap_vec(SyncVectorEnv([lambda lane=lane: lane for lane in lanes]))
    alone = [wrap(Echo(EVERY_SPACE[name])) for _ in range(3)]
    batch, _ = venv.reset(seed=1)
    for env in alone:
        env.reset()
    venv.action_space.seed(2)
    for _ in range(5):
        actions = venv.action_space.sample(mask=batch)
        batch, *_ = venv.step(actions)
        for lane, env in enumerate(alone):
            env.step({action: order[lane] for action, order in actions.items()})
    for lane, env in zip(lanes, alone, strict=True):
        for one, other in zip(lane.given, env.env.given, strict=True):
            assert_equal(one, other)


def assert_equal(one: Any, other: Any) -> None:
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_equal(one[key], other[key])
    elif isinstance(one, tuple):
        for mine, theirs in zip(one, other, strict=True):
            assert_equal(mine, theirs)
    else:
        np.testing.assert_array_equal(one, other)


def test_actions_are_named_by_their_place():
    names = {name: wrap(Echo(space)).action_space for name, space in EVERY_SPACE.items()}
    assert list(names["discrete"]) == ["action"]
    assert names["discrete"]["action"] == GlobalCategorical(["3", "4", "5", "6"])
    assert list(names["multi-discrete"]) == ["action_0", "action_1"]
    assert list(names["multi-discrete board"]) == ["action_0_0", "action_0_1", "action_1_0", "action_1_1"]
    assert names["box"]["action"] == GlobalContinuous([-2] * 4, [3] * 4)
    assert set(names["dict"]) == {"move", "aim", "more/keys_0", "more/keys_1"}
    assert list(names["tuple"]) == ["0", "1/0", "1/1"]
    assert list(names["one of"]) == ["action", "0", "1_0", "1_1", "2"]


@pytest.mark.parametrize(
    ("space", "facts"),
    [
        (Dict(arm=MultiDiscrete([2, 2]), arm_0=Discrete(5)), ("'arm_0'", "Rename")),
        (Dict({"a": Dict(b=Discrete(3)), "a/b": Discrete(2)}), ("'a/b'", "Rename")),
    ],
)
def test_two_actions_of_one_name_are_refused(space, facts):
    with raises(ValueError, "Echo", *facts):
        wrap(Echo(space))


def test_the_chosen_alternative_counts():
    raw = Echo(EVERY_SPACE["one of"])
    env = wrap(raw)
    env.reset()
    env.step({"action": [1], "0": [2], "1_0": [1], "1_1": [0], "2": np.array([[0.5, -0.5]], np.float32)})
    env.step({"action": 2, "0": 0, "1_0": 0, "1_1": 0, "2": np.array([0.5, -0.5], np.float32)})
    assert raw.given[0][0] == 1 and raw.given[0][1].tolist() == [1, 0]
    assert raw.given[1][0] == 2 and raw.given[1][1].tolist() == [0.5, -0.5]


def test_an_action_that_is_left_out_names_the_lane_and_moves_none():
    lanes = [Echo(Discrete(4), mask=np.array([0, 0, 1, 1], np.int8)) for _ in range(2)]
    venv = wrap_vec(SyncVectorEnv([lambda lane=lane: lane for lane in lanes]))
    batch, _ = venv.reset()
    for left_out, lane in (({}, 0), ({"action": RaggedArray([2], [0, 1, 1])}, 1)):
        with raises(ActionError, "Echo", f"env {lane}", "'action'", 1):
            venv.step(left_out)
    assert lanes[0].given == lanes[1].given == []
    venv.step({"action": batch.actions["action"].actors.with_values(np.array([2, 3]))})
    assert lanes[0].given == [2] and lanes[1].given == [3]


# -- masks --------------------------------------------------------------------------------------------------

MASKS: dict[str, tuple[spaces.Space, Any, dict[str, list]]] = {
    "discrete": (Discrete(3), np.array([1, 0, 1], np.int8), {"action": [1, 0, 1]}),
    "discrete list": (Discrete(3), [True, False, True], {"action": [1, 0, 1]}),
    "flat": (MultiDiscrete([2, 3]), np.array([1, 0, 0, 1, 1]), {"action_0": [1, 0], "action_1": [0, 1, 1]}),
    "a row per number": (  # Jumanji's Cleaner and LevelBasedForaging
        MultiDiscrete([2, 2, 2]),
        np.array([[1, 0], [0, 1], [1, 1]]),
        {"action_0": [1, 0], "action_1": [0, 1], "action_2": [1, 1]},
    ),
    "a list of rows": (
        MultiDiscrete([2, 2, 2]),
        [[1, 0], [0, 1], [1, 1]],
        {"action_0": [1, 0], "action_1": [0, 1], "action_2": [1, 1]},
    ),
    "a row per number of a board": (
        MultiDiscrete([[3, 3], [3, 3]]),
        np.arange(12).reshape(2, 2, 3) % 5 > 0,
        {"action_0_0": [0, 1, 1], "action_0_1": [1, 1, 0], "action_1_0": [1, 1, 1], "action_1_1": [1, 0, 1]},
    ),
    "a row per part of a tuple": (
        Tuple((Discrete(3), Discrete(3))),
        np.array([[0, 1, 1], [1, 1, 0]]),
        {"0": [0, 1, 1], "1": [1, 1, 0]},
    ),
    "combinations": (
        Discrete(6),
        np.array([[0, 1, 1], [1, 1, 0]]),
        {"action": [0, 1, 1, 1, 1, 0]},
    ),
    "tuple of masks": (
        MultiDiscrete([2, 3]),
        (np.array([1, 0], np.int8), np.array([0, 1, 1], np.int8)),
        {"action_0": [1, 0], "action_1": [0, 1, 1]},
    ),
    "dict": (
        Dict(a=Discrete(2), b=Box(0, 1, (1,), np.float32), c=Discrete(3)),
        {"a": np.array([0, 1], np.int8), "c": np.array([1, 1, 0], np.int8)},
        {"a": [0, 1], "c": [1, 1, 0]},
    ),
    "tuple": (
        Tuple((Discrete(2), Discrete(3))),
        (np.array([0, 1], np.int8), np.array([1, 1, 0], np.int8)),
        {"0": [0, 1], "1": [1, 1, 0]},
    ),
    "flat over a tuple": (
        Tuple((Discrete(2), Discrete(3))),
        np.array([0, 1, 1, 1, 0]),
        {"0": [0, 1], "1": [1, 1, 0]},
    ),
    "one of": (
        OneOf((Discrete(2), Discrete(3))),
        (np.array([0, 1], np.int8), np.array([1, 1, 0], np.int8)),
        {"action": [1, 1], "0": [0, 1], "1": [1, 1, 0]},
    ),
}


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("where", ["info", "method"])
def test_masks_are_read_in_every_form(name, where):
    space, mask, expected = MASKS[name]
    seen, _ = wrap(Echo(space, mask, where)).reset()
    venv = wrap_vec(SyncVectorEnv([lambda: Echo(space, mask, where)] * 2))
    batch, _ = venv.reset()
    for _ in range(2):
        for action, flags in expected.items():
            assert seen["actions"][action]["mask"].tolist() == [flags]
            assert batch.actions[action].mask.values.tolist() == [flags] * 2
        batch, *_ = venv.step(venv.action_space.sample(mask=batch))


def test_masks_in_the_observation_are_taken_out_of_it():
    env = wrap(Echo(Discrete(3), [0, 1, 1], "observation"))
    seen, _ = env.reset()
    assert env.observation_space.entities == {"observation": ("observation_0", "observation_1")}
    assert seen["actions"]["action"]["mask"].tolist() == [[0, 1, 1]]
    venv = wrap_vec(SyncVectorEnv([lambda: Echo(Discrete(3), [0, 1, 1], "observation", 2)] * 2))
    batch, _ = venv.reset()
    for _ in range(2):
        batch, _, _, _, info = venv.step(venv.action_space.sample(mask=batch))
    assert info["final_obs"].actions["action"].mask.values.tolist() == [[False, True, True]] * 2
    ignored = wrap(Echo(Discrete(3), [0, 1, 1], "observation"), action_mask="none")
    seen, _ = ignored.reset()
    assert seen["actions"]["action"]["mask"].tolist() == [[1, 1, 1]]
    assert "action_mask" in ignored.observation_space.entities


def test_masks_follow_each_lane_through_its_episodes():
    def mask(step: int) -> np.ndarray:
        return np.arange(4) >= min(step, 3)

    for mode in (AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP, AutoresetMode.DISABLED):
        makers = [lambda n=n: Echo(Discrete(4), mask, "info", n) for n in (2, 3, 5)]
        venv = wrap_vec(SyncVectorEnv(makers, autoreset_mode=mode))
        batch, _ = venv.reset()
        steps = [0, 0, 0]
        for _ in range(12):
            assert [row.tolist() for row in batch.actions["action"].mask.values] == [
                mask(s).tolist() for s in steps
            ]
            batch, _, terminated, _, _ = venv.step(venv.action_space.sample(mask=batch))
            steps = [0 if end else s + 1 for s, end in zip(steps, terminated, strict=True)]


def test_a_lane_without_a_mask_may_do_everything_and_one_without_a_choice_nothing():
    def sometimes(step: int) -> np.ndarray:
        return np.array([0, 0]) if step == 1 else np.array([0, 1])

    raw = Echo(Discrete(2), sometimes)
    venv = wrap_vec(SyncVectorEnv([lambda: raw, lambda: Echo(Discrete(2))]))
    batch, _ = venv.reset()
    assert batch.actions["action"].mask.values.tolist() == [[False, True], [True, True]]
    batch, *_ = venv.step({"action": RaggedArray([1, 0], [0, 1, 2])})
    part = batch.actions["action"]
    assert part.actors.lengths.tolist() == [0, 1] and part.mask.values.tolist() == [[True, True]]
    assert venv.observation_space.contains(batch)
    with raises(ActionError, "env 0", "action 'action'", "not available"):
        venv.step({"action": RaggedArray([0, 0], [0, 1, 2])})
    venv.step({"action": RaggedArray([1], [0, 0, 1])})
    assert raw.given == [1, 0]


def test_masks_of_something_else_than_flags_are_named():
    for mask in (np.array([1.0, np.nan, 0.0]), np.array(["a", "b", "c"]), np.array([1.0, 0.5, 0.0])):
        with raises(ObservationError, "Echo", "mask", "action 'action'", 0, 1):
            wrap(Echo(Discrete(3), mask)).reset()
    for lanes in (
        wrap(Echo(Discrete(3), lambda steps: None)),
        ez.make_vec(lambda: Echo(Discrete(3), lambda s: None), 2),
    ):
        with raises(ObservationError, "action_mask"):
            lanes.reset()


def test_masks_of_the_wrong_length_are_named():
    with raises(ObservationError, "Echo", "action_mask", "action 'action'", "(2,)", "(3,)"):
        wrap(Echo(Discrete(3), np.array([1, 1]))).reset()
    with raises(ObservationError, "mask", "action 'action'", 4, 5):
        wrap(Echo(MultiDiscrete([2, 3]), (np.ones(2), np.ones(2)))).reset()
    with raises(ObservationError, "(4,)", "(5,)"):
        wrap(Echo(Tuple((Discrete(2), Discrete(3))), np.ones(4))).reset()


@pytest.mark.parametrize(
    ("space", "masks"),
    [
        (Dict(a=Discrete(2), b=Discrete(3)), [{"a": np.array([1, 0])}, {"b": np.array([1, 0, 0])}, {}]),
        (
            Dict(a=Discrete(2), b=Discrete(3)),
            [{"a": None, "b": np.array([1, 0, 0])}, {"a": np.array([1, 0])}],
        ),
        (Tuple((Discrete(2), Discrete(3))), [(None, np.array([1, 0, 0])), (np.array([1, 0]), None)]),
        (Dict(a=MultiDiscrete([2, 3])), [{"a": (np.array([1, 0]), np.array([1, 0, 0]))}, {}]),
        (Dict(a=Dict(b=Discrete(2))), [{"a": {"b": np.array([1, 0])}}, {"a": {}}, {}]),
    ],
)
def test_lanes_may_mask_different_parts(space, masks):
    """A part without a mask allows everything in that lane, and in no other."""
    single = [wrap(Echo(space, mask)).reset()[0]["actions"] for mask in masks]
    batch, _ = wrap_vec(SyncVectorEnv([lambda m=m: Echo(space, m) for m in masks])).reset()
    for name, action in batch.actions.items():
        assert action.actors.lengths.tolist() == [1] * len(masks), name
        assert action.mask.values.tolist() == [seen[name]["mask"][0].tolist() for seen in single], name
        assert action.mask.values.any(1).all() and not action.mask.values.all(), name


def test_masks_of_some_parts_only_name_those_that_are_missing():
    two, three = np.ones(2), np.ones(3)
    pair = Tuple((Discrete(2), Discrete(3)))
    for space, mask, facts in (
        (pair, (two,), ["action_mask", "[0, 1]", "got 1", "none for [1]"]),
        (pair, two, ["action_mask", "{'0': 2, '1': 3}", "(5,)", "(2,)"]),
        (Dict(a=pair), {"a": (two,)}, ["action_mask['a']", "[0, 1]", "none for [1]"]),
        (Dict(a=MultiDiscrete([2, 3])), {"a": (three,)}, ["action_mask['a']", "a_0", "a_1", "[2, 3]", "[3]"]),
        (MultiDiscrete([2, 3]), (three, two), ["action_mask", "[2, 3]", "[3, 2]"]),
    ):
        with raises(ObservationError, "Echo", *facts):
            wrap(Echo(space, mask)).reset()
        with raises(ObservationError, "Echo", *facts):
            wrap_vec(SyncVectorEnv([lambda space=space, mask=mask: Echo(space, mask)] * 2)).reset()
    with raises(ObservationError, "Echo", "action 'action'", "(3,)", "(2,)"):
        wrap_vec(SyncVectorEnv([lambda n=n: Echo(Discrete(3), np.ones(n), "method") for n in (2, 3)])).reset()


@pytest.mark.parametrize("where", ["info", "method", "observation"])
@pytest.mark.parametrize(
    ("space", "form"),
    [
        (MultiDiscrete([3, 4]), np.array),
        (MultiDiscrete([3, 4]), np.ndarray.tolist),
        (MultiDiscrete([3, 3]), np.array),
        (Tuple((Discrete(3), Discrete(4))), np.array),
    ],
)
def test_masks_of_combinations_are_refused_with_two_ways_out(space, form, where):
    """Jumanji's BinPack and Minesweeper."""
    mask = np.zeros(space.nvec if isinstance(space, MultiDiscrete) else (3, 4), np.int8)
    mask[1, 2] = 1
    raw = Echo(space, form(mask), where)
    facts = ["Echo", "mask", "2 numbers", f"shape {mask.shape}", f"Discrete({mask.size})", "'none'"]
    with raises(ObservationError, *facts):
        wrap(raw).reset()
    with raises(ObservationError, *facts):
        wrap_vec(SyncVectorEnv([lambda: Echo(space, form(mask), where)] * 2)).reset()
    free = wrap(raw, action_mask="none")
    free.reset()
    free.step(dict.fromkeys(free.action_space, 0))


def test_combinations_of_several_numbers_can_be_one_choice():
    mask = np.zeros((3, 4), np.int8)
    mask[1, 2] = 1
    joint = TransformAction(
        Echo(MultiDiscrete([3, 4]), mask), lambda i: np.array(np.unravel_index(i, (3, 4))), Discrete(12)
    )
    env = wrap(joint)
    seen, _ = env.reset()
    env.step(env.action_space.sample(mask=seen))
    assert env.unwrapped.given[0].tolist() == [1, 2]


def test_actions_without_choices_are_refused_at_wrap_time():
    with raises(ez.views.ViewError, "Echo", "action_space['say']", "Text"):
        wrap(Echo(Dict(say=spaces.Text(3))))
    with raises(ez.views.ViewError, "Echo", "choose"):
        wrap(Echo(Box(np.zeros(2, np.float32), np.array([0, 1], np.float32))))


def test_mask_sources_that_are_not_there_are_named():
    with raises(ez.views.ViewError, "observation_space", "'action_mask'"):
        wrap(Echo(Discrete(2)), action_mask="observation")
    with raises(ValueError, "Echo", "action_masks()"):
        wrap(Echo(Discrete(2)), action_mask="method")
    with raises(ValueError, "Echo", "action_masks()"):
        wrap_vec(SyncVectorEnv([lambda: Echo(Discrete(2))]), action_mask="method")
    with raises(ValueError, "action_mask", "'guess'", "'auto', 'info'"):
        wrap(Echo(Discrete(2)), action_mask="guess")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("low", "high", "dtype"),
    [
        (0, 2**63 - 1, np.int64),
        (-(2**63), 2**63 - 1, np.int64),
        (0, 2**64 - 1, np.uint64),
        (-3, 2**31 - 1, np.int32),
        (0, 255, np.uint8),
    ],
)
def test_the_limits_of_whole_numbers_are_reached_and_not_passed(low: int, high: int, dtype: Any) -> None:
    space = Box(low, high, (1,), dtype)
    env = wrap(Echo(space))
    for wanted in (low, high):
        env.reset(seed=0)
        env.step({"action": np.array([[np.float32(wanted)]])})
        (given,) = env.unwrapped.given[-1:]  # type: ignore[attr-defined]
        assert given.dtype == dtype and given.tolist() == [wanted] and space.contains(given)


@pytest.mark.parametrize("n", [1, 2])
def test_masks_of_different_dtypes_in_two_lanes(n: int) -> None:
    kinds = iter([np.int8, np.bool_])
    venv = ez.make_vec(lambda: Echo(Discrete(n), mask=np.ones(n, next(kinds))), 2)
    batch, _ = venv.reset(seed=0)
    assert batch.actions["action"].mask.values.tolist() == [[True] * n] * 2


@pytest.mark.parametrize("shape", [(3, 3, 0), (2, 0, 4, 4), (0, 2, 2)])
def test_a_grid_without_cells_is_refused(shape: tuple[int, ...]) -> None:
    env = Echo(Discrete(2))
    env.observation_space = Box(0, 1, shape, np.float32)
    with raises(ez.views.ViewError, "observation_space", "cells"):
        wrap(env)
