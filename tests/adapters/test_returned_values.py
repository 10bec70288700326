"""Environments that return other values than Gymnasium's interface asks for."""

from __future__ import annotations

from functools import partial
from typing import Any

import entitize as ez
import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from facts import raises

POINT = np.zeros(3, np.float32)


class Wrong(gymnasium.Env[Any, Any]):
    """An environment whose `reset` and `step` return what a test wants."""

    observation_space = spaces.Box(-1, 1, (3,))
    action_space = spaces.Discrete(2)
    reset_result: Any = (POINT, {})
    step_result: Any = (POINT, 0.0, False, False, {})

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        return self.reset_result

    def step(self, action: Any) -> Any:
        return self.step_result


class Spaceless(Wrong):
    action_space = None  # type: ignore[assignment]


WRONG_STEPS = [
    ((POINT, 0.0, False, {}), (5, 4)),
    (None, ("None",)),
    ((POINT, None, False, False, {}), ("reward", "None")),
    ((POINT, np.zeros(2), False, False, {}), ("reward", "expected")),
    ((POINT, "x", False, False, {}), ("reward", "'x'")),
    ((POINT, "1", False, False, {}), ("reward", "'1'")),
    ((POINT, b"1", False, False, {}), ("reward", "b'1'")),
    ((POINT, np.str_("1"), False, False, {}), ("reward", "'1'")),
    ((POINT, ["1"], False, False, {}), ("reward", "'1'")),
    ((POINT, np.complex64(1), False, False, {}), ("reward", "1+0j")),
    ((POINT, 10**400, False, False, {}), ("reward", "1000")),
    ((POINT, 0.0, None, False, {}), ("terminated", "None")),
    ((POINT, 0.0, "a", False, {}), ("terminated", "'a'")),
    ((POINT, 0.0, np.str_("a"), False, {}), ("terminated", "'a'")),
    ((POINT, 0.0, False, False, None), ("info", "None")),
]
WRONG_RESETS = [(POINT, ("info",)), ((POINT, None), ("info", "None")), ((POINT, {}, 1), (2, 3))]


@pytest.mark.parametrize(("result", "facts"), WRONG_STEPS)
@pytest.mark.parametrize("num_envs", [None, 2])
def test_step(result: Any, facts: Any, num_envs: int | None) -> None:
    made = type("Mine", (Wrong,), {"step_result": result})
    if num_envs is None:
        env: Any = ez.make(made)
        env.reset(seed=0)
        action: Any = {"action": np.array([0])}
    else:
        env = ez.make_vec(made, num_envs)
        batch, _ = env.reset(seed=0)
        env.action_space.seed(0)
        action = env.action_space.sample(mask=batch)
    with env, raises(ez.ObservationError, "Mine", "step", *facts):
        env.step(action)


@pytest.mark.parametrize(("result", "facts"), WRONG_RESETS)
def test_reset(result: Any, facts: Any) -> None:
    made = type("Mine", (Wrong,), {"reset_result": result})
    for env in (ez.make(made), ez.make_vec(made, 2)):
        with env, raises(ez.ObservationError, "Mine", "reset", *facts):
            env.reset(seed=0)


def test_an_observation_that_is_missing() -> None:
    made = type("Mine", (Wrong,), {"reset_result": (None, {})})
    with ez.make_vec(made, 2) as venv, raises(ez.ObservationError, "Mine", "observation", "None"):
        venv.reset(seed=0)


BOX = spaces.Box(-1, 1, (3,))
PAIR = spaces.Dict(x=BOX, flag=spaces.Discrete(2))
LIST = spaces.Dict(x=BOX, many=spaces.Sequence(BOX))
WRONG_OBSERVATIONS: list[tuple[spaces.Space[Any], Any, Any, tuple[object, ...]]] = [
    (BOX, POINT, POINT[:2], ("observation_space", "(3,)", "(2,)")),
    (BOX, POINT, POINT[None], ("observation_space", "(3,)", "(1, 3)")),
    (BOX, POINT, 0.5, ("observation_space", "(3,)", "()")),
    (BOX, POINT, [[1], [1, 2]], ("observation_space", "(3,)", "[[1], [1, 2]]")),
    (PAIR, {"x": POINT, "flag": 1}, {"x": POINT}, ("observation_space", "'flag'", "got only ['x']")),
    (PAIR, {"x": POINT, "flag": 1}, {"x": POINT[:2], "flag": 1}, ("['x']", "(3,)", "(2,)")),
    (PAIR, {"x": POINT, "flag": 1}, {"x": POINT, "flag": None}, ("['flag']", "int64", "None")),
    (PAIR, {"x": POINT, "flag": 1}, 5, ("observation_space", "['x', 'flag']", "int")),
    (spaces.Tuple([BOX, BOX]), (POINT, POINT), (POINT,), ("observation_space", "tuple of 2", "array")),
    (spaces.Tuple([BOX, BOX]), (POINT, POINT), (POINT, POINT[:1]), ("['1']", "(3,)", "(1,)")),
    (spaces.MultiBinary(3), np.ones(3, np.int8), np.ones(2, np.int8), ("(3,)", "(2,)")),
    (spaces.MultiDiscrete([2, 2]), np.ones(2, np.int64), np.ones(3, np.int64), ("(2,)", "(3,)")),
    (LIST, {"x": POINT, "many": (POINT,)}, {"x": POINT, "many": (POINT[:2],)}, ("Sequence", "'many'")),
]


@pytest.mark.parametrize(("space", "right", "wrong", "facts"), WRONG_OBSERVATIONS)
def test_an_observation_that_is_not_of_its_space(space: Any, right: Any, wrong: Any, facts: Any) -> None:
    """The second lane returns it at a step, then at a reset."""
    made = []

    class Mine(Wrong):
        observation_space = space
        reset_result = (right, {})

        def __init__(self) -> None:
            self.step_result = (wrong if made else right, 0.0, False, False, {})
            made.append(self)

    with ez.make_vec(Mine, 2) as venv:
        batch, _ = venv.reset(seed=0)
        venv.action_space.seed(0)
        with raises(ez.ObservationError, "env 1", "Mine", *facts):
            venv.step(venv.action_space.sample(mask=batch))
        made[1].reset_result = (wrong, {})
        with raises(ez.ObservationError, "env 1", "Mine", *facts):
            venv.reset()


def test_an_error_of_the_environments_own_stays_as_it_is() -> None:
    class Mine(Wrong):
        works = False

        def reset(self, **options: Any) -> Any:
            return super().reset(**options) if self.works else {}["start"]

        def step(self, action: Any) -> Any:
            raise KeyError("mine")

    with ez.make_vec(Mine, 2) as venv:
        with pytest.raises(KeyError, match="start"):
            venv.reset(seed=0)
        Mine.works = True
        batch, _ = venv.reset(seed=0)
        venv.action_space.seed(0)
        with pytest.raises(KeyError, match="mine"):
            venv.step(venv.action_space.sample(mask=batch))


def test_an_environment_without_a_space() -> None:
    for make in (ez.make, ez.make_vec, lambda make: ez.wrap(make())):
        with raises(TypeError, "Spaceless", "action_space"):
            make(Spaceless)  # type: ignore[operator]


@pytest.mark.parametrize("view", [ez.views.Vector, "Vector", 3])
def test_a_view_is_an_object(view: Any) -> None:
    for make in (ez.make, ez.make_vec):
        with raises(TypeError, "CartPole-v1", "view", repr(view)):
            make("CartPole-v1", view=view)  # type: ignore[operator]
    with raises(TypeError, "gymnasium.Env", "'CartPole-v1'"):
        ez.wrap("CartPole-v1")  # type: ignore[arg-type]


@pytest.mark.parametrize(("result", "facts"), WRONG_STEPS)
def test_step_of_an_entity_environment(result: Any, facts: Any) -> None:
    class Lonely(ez.EntityEnv):
        action_space = ez.EntityActionSpace({"answer": ez.GlobalCategorical(["a", "b"])})
        observation_space = ez.EntitySpace({}, action_space)

        def _observed(self) -> ez.Observation:
            return ez.Observation(entities={}, actions={})

        def _reset(self, options: dict[str, Any]) -> ez.Observation:
            return self._observed()

        def _step(self, actions: Any) -> Any:
            return result

    env = Lonely()
    env.reset(seed=0)
    with raises(ez.ObservationError, "Lonely", *facts):
        env.step({"answer": np.array([], np.int64)})


@pytest.mark.parametrize("reward", ["1", b"1", np.str_("1"), None, 1j])
def test_a_wrapper_around_an_entity_environment(reward: Any) -> None:
    class Rewarded(gymnasium.RewardWrapper[Any, Any]):
        def reward(self, given: Any) -> Any:
            return reward

    with ez.vector.ListVectorEnv([lambda: Rewarded(ez.make("Count"))]) as venv:
        batch, _ = venv.reset(seed=0)
        venv.action_space.seed(0)
        with raises(ez.WorkerError, "env 0", "reward", repr(reward)) as caught:
            venv.step(venv.action_space.sample(mask=batch))
    assert isinstance(caught.value.__cause__, ez.ObservationError)


@pytest.mark.parametrize("reward", [True, 2, np.float32(1), np.array([1]), np.array([True]), [1.0]])
def test_other_single_numbers_are_rewards(reward: Any) -> None:
    env = ez.make(type("Mine", (Wrong,), {"step_result": (POINT, reward, False, False, {})}))
    env.reset(seed=0)
    given = env.step({"action": np.array([0])})[1]
    assert type(given) is float and given == np.asarray(reward).item()


def test_step_of_a_vector_environment() -> None:
    class Lanes(type(ez.make_vec("Count", 2))):  # type: ignore[misc]
        def _step(self, actions: Any) -> Any:
            batch, rewards, *rest = super()._step(actions)
            return batch, rewards[:1], *rest

    with Lanes(2) as venv:
        batch, _ = venv.reset(seed=0)
        venv.action_space.seed(0)
        with raises(ez.ObservationError, "rewards", "(2,)"):
            venv.step(venv.action_space.sample(mask=batch))


class Numbered(Wrong):
    """An environment whose second lane returns `wrong` from the step `first` on (0: at reset)."""

    def __init__(self, lane: int, wrong: Any, first: int) -> None:
        self.is_wrong, self.wrong, self.first = lane == 1, wrong, first

    def _now(self) -> Any:
        return self.wrong if self.is_wrong and self.time >= self.first else (POINT, 0.0, {"x": np.zeros(2)})

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.time = 0
        observation, _, info = self._now()
        return observation, info

    def step(self, action: Any) -> Any:
        self.time += 1
        observation, reward, info = self._now()
        return observation, reward, False, self.time == 3, info


@pytest.mark.parametrize("first", [0, 2])
@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize(
    ("wrong", "facts"),
    [
        ((np.zeros(4, np.float32), 0.0, {}), ("observation_space", "(3,)", "(4,)")),
        ((np.array([1, None, 1]), 0.0, {}), ("observation_space", "float32", "None")),
        ((POINT, 0.0, {"x": np.zeros(3)}), ("info['x']", "SyncVectorEnv", "array([0., 0., 0.])")),
        ((POINT, 0.0, {"x": "red"}), ("info['x']", "SyncVectorEnv", "got 'red'")),
        ((POINT, 0.0, None), ("info", "dict", "None")),
    ],
)
def test_a_users_own_vector_environment_names_the_lane(wrong: Any, facts: Any, mode: Any, first: int) -> None:
    lanes = [partial(Numbered, lane, wrong, first) for lane in range(3)]
    with ez.wrap_vec(SyncVectorEnv(lanes, autoreset_mode=mode)) as venv:
        venv.action_space.seed(0)
        with raises(ez.ObservationError, "env 1", "Numbered", "step" if first else "reset", *facts):
            venv.reset(seed=0)
            for _ in range(2):
                venv.step(venv.action_space.sample())


@pytest.mark.parametrize("reward", ["x", np.zeros(2)])
def test_a_users_own_vector_environment_names_the_lane_of_a_reward(reward: Any) -> None:
    lanes = [partial(Numbered, lane, (POINT, reward, {}), 1) for lane in range(3)]
    with ez.wrap_vec(SyncVectorEnv(lanes)) as venv:
        venv.reset(seed=0)
        with raises(ez.ObservationError, "env 1", "Numbered", "step", "reward"):
            venv.step(venv.action_space.sample())


class FlagEngine(SyncVectorEnv):
    """Stands for an engine with flags of its own."""

    flags: Any = None

    def step(self, actions: Any) -> Any:
        observations, rewards, _, truncated, infos = super().step(actions)
        return observations, rewards, self.flags, truncated, infos


def engine_step(flags: Any) -> Any:
    engine = FlagEngine([Wrong] * 2, autoreset_mode=AutoresetMode.DISABLED)
    engine.flags = flags
    venv = ez.wrap_vec(engine)
    venv.reset()
    return venv.step(venv.action_space.sample())


@pytest.mark.parametrize(
    "flags", [["a", "b"], [b"1", b"0"], np.array(["", None], object), [False], None, [1j, 0]]
)
def test_flags_of_lanes_that_are_none(flags: Any) -> None:
    with raises(ez.errors.ObservationError, "Wrong", "terminated", 2):
        engine_step(flags)


@pytest.mark.parametrize("flags", [[0, 1], np.float32([0, 1]), np.array([False, np.True_], object)])
def test_flags_of_lanes_that_are_numbers(flags: Any) -> None:
    terminated = engine_step(flags)[2]
    assert terminated.dtype == bool and terminated.tolist() == [False, True]
