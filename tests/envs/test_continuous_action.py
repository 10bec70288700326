from typing import Any

import numpy as np
import pytest
from entitize.envs import (
    ActionError,
    Continuous,
    ContinuousMask,
    EntityActionSpace,
    EntityBatchActionSpace,
    EntityBatchBuffer,
    EntityEnv,
    EntitySpace,
    GlobalContinuous,
    GlobalContinuousMask,
    ListVectorEnv,
    Observation,
    ObservationError,
    PaddedLayout,
    ProcessVectorEnv,
    batch_observations,
    check_entity_env,
    sample_actions,
    unbatch_observation,
    validate_actions,
)
from entitize.ragged import RaggedArray
from gymnasium.spaces import Box

from facts import raises

LOW = np.array([-1, 0, -np.inf, -np.inf], np.float32)
HIGH = np.array([2, np.inf, 3, np.inf], np.float32)


def spaces() -> EntitySpace:
    kinds = {"push": Continuous([-1, 0], [1, 2]), "steer": GlobalContinuous(-2, 2)}
    actions = EntityActionSpace(kinds, optional=True)
    return EntitySpace({"Drone": ["x", "y"]}, actions)


def observation(num_drones: int, steer: int) -> dict:
    return {
        "entities": {"Drone": np.arange(2 * num_drones, dtype=np.float32).reshape(-1, 2)},
        "actions": {
            "push": {"actors": np.arange(num_drones), "mask": np.ones((num_drones, 0), np.int8)},
            "steer": {"mask": np.ones((steer, 0), np.int8)},
        },
    }


def test_samples_have_the_distribution_of_a_box():
    space = Continuous(LOW, HIGH, seed=1)
    drawn = space.sample(mask={"actors": np.arange(4000), "mask": np.ones((4000, 0), np.int8)})
    assert drawn.shape == (4000, 4) and drawn.dtype == np.float32
    assert space.contains(drawn)
    box = Box(LOW, HIGH, seed=2)
    expected = np.stack([box.sample() for _ in range(4000)])
    np.testing.assert_allclose(drawn.mean(0), expected.mean(0), atol=0.1)
    np.testing.assert_allclose(drawn.std(0), expected.std(0), atol=0.1)


def test_contains_looks_at_shape_dtype_and_bounds():
    space = Continuous([-1, -1], [1, 1])
    assert space.contains(np.zeros((0, 2), np.float32))
    assert not space.contains(np.zeros(2, np.float32))
    assert not space.contains(np.zeros((1, 3), np.float32))
    assert not space.contains(np.zeros((1, 2), np.int64))
    assert not space.contains(np.full((1, 2), np.nan, np.float32))
    assert not space.contains(np.array([[0, 1.5]], np.float32))
    assert GlobalContinuous([-1, -1], [1, 1]).contains(np.zeros(2, np.float32))


def test_equal_bounds_make_equal_spaces_and_kinds_differ():
    assert Continuous(0, 1) == Continuous([0], [1]) and hash(Continuous(0, 1)) == hash(Continuous([0], [1]))
    assert Continuous(0, 1) != Continuous(0, 2)
    assert Continuous(0, 1) != GlobalContinuous(0, 1)
    assert repr(GlobalContinuous(0, 1)) == "GlobalContinuous([0.0], [1.0])"


@pytest.mark.parametrize(
    ("low", "high", "facts"),
    [
        ([0, 0], [1], ("low", "high", "length")),
        ([], [], ("low", "high", "length")),
        ([0, 2], [1, 2], ("low", "below high", 2.0)),
        ([np.nan], [2], ("low", "below high", "nan")),
    ],
)
def test_impossible_bounds_are_refused(low, high, facts):
    with raises(ValueError, *facts):
        Continuous(low, high)


def test_observations_batch_and_come_back():
    space = spaces()
    observations = [observation(2, 1), observation(0, 0), observation(3, 1)]
    assert all(space.contains(o) for o in observations)
    batch = batch_observations(space, observations)
    assert batch.actions["push"].actors.lengths.tolist() == [2, 0, 3]
    assert batch.actions["push"].mask.values.shape == (5, 0)
    assert batch.actions["steer"].actors.values.tolist() == [-1, -1]
    for step, original in enumerate(observations):
        back = unbatch_observation(space, batch, step)
        assert space.contains(back)
        np.testing.assert_equal(back, original)
    assert batch.gather([2, 0]).actions["push"].mask.values.shape == (5, 0)


def test_sampled_actions_follow_the_actors_of_a_batch():
    space = spaces()
    batch = batch_observations(space, [observation(2, 1), observation(0, 0), observation(3, 1)])
    actions = sample_actions(space.actions, batch, np.random.default_rng(0))
    assert actions["push"].values.shape == (5, 2) and actions["push"].lengths.tolist() == [2, 0, 3]
    assert actions["steer"].lengths.tolist() == [1, 0, 1]
    assert EntityBatchActionSpace(space, 3).contains(actions)
    assert validate_actions(space, batch, actions)["push"] == actions["push"]
    one = space.actions.sample(mask=observation(3, 1))
    assert one["push"].shape == (3, 2) and one["steer"].shape == (1, 1)
    assert space.actions.contains(one)


def test_numbers_outside_the_bounds_are_refused_by_name():
    space = spaces()
    batch = batch_observations(space, [observation(2, 1), observation(1, 0)])
    push = RaggedArray(np.array([[0, 1], [0, 1], [0, 2.5]], np.float32), [0, 2, 3])
    with raises(ActionError, "env 1", "action 'push'", "actor 0 (Drone 0 at x=0, y=1)", "number 1", 2.5):
        validate_actions(space, batch, {"push": push})
    with raises(ActionError, "action 'push'", "2 real numbers", "int64"):
        validate_actions(space, batch, {"push": push.with_values(np.zeros((3, 2), np.int64))})
    with raises(ActionError, "action 'steer'", 1):
        steer = RaggedArray(np.zeros((2, 1), np.float32), [0, 1, 2])
        validate_actions(space, batch, {"steer": steer})


class Drift(EntityEnv):
    """Drones are pushed, and a wind blows over all of them."""

    def __init__(self) -> None:
        self.observation_space = spaces()
        self.action_space = self.observation_space.actions

    def _reset(self, options: dict[str, Any]) -> Observation:
        self.drones = self.np_random.normal(size=(int(self.np_random.integers(1, 4)), 2))
        self.steps = 0
        return self._look()

    def _step(self, actions: dict[str, Any]) -> Any:
        push = actions["push"]
        for name, values in zip(push.actors, push.values, strict=True):
            self.drones[int(name[1:])] += values
        if "steer" in actions:
            self.drones[:, 0] += actions["steer"].values[0]
        self.steps += 1
        return self._look(), float(self.drones.sum()), self.steps == 5, False, {}

    def _look(self) -> Observation:
        ids = [f"d{i}" for i in range(len(self.drones))]
        actions: dict[str, Any] = {"push": ContinuousMask(actor_ids=ids[::2])}
        if self.steps % 2:
            actions["steer"] = GlobalContinuousMask()
        return Observation({"Drone": self.drones}, actions=actions, ids={"Drone": ids})


def test_an_environment_gets_the_numbers_of_its_actors():
    env = Drift()
    seen, _ = env.reset(seed=3)
    before = seen["entities"]["Drone"]
    push = np.full((len(seen["actions"]["push"]["actors"]), 2), 0.5, np.float32)
    seen, *_ = env.step({"push": push})
    expected = before.copy()
    expected[::2] += 0.5
    np.testing.assert_allclose(seen["entities"]["Drone"], expected, rtol=1e-6)
    seen, *_ = env.step({"steer": np.array([-1.5], np.float32)})
    np.testing.assert_allclose(seen["entities"]["Drone"][:, 0], expected[:, 0] - 1.5, rtol=1e-6)
    with raises(ActionError, "action 'push'", "actor 'd0'", "number 0", 3.0):
        env.step({"push": np.full_like(push, 3)})
    with raises(ActionError, "action 'push'", "(n, 2)", "(3,)"):
        env.step({"push": np.zeros(3)})
    with raises(ActionError, "action 'steer'", 1):
        env.step({"steer": np.zeros((1, 1))})


class Spring(EntityEnv):
    """Any force may be given."""

    observation_space = EntitySpace(
        {}, EntityActionSpace({"force": GlobalContinuous(-np.inf, np.inf)}), ["x"]
    )
    action_space = observation_space.actions
    x = 0.0

    def _reset(self, options: dict[str, Any]) -> Observation:
        return Observation({}, globals=[self.x], actions={"force": GlobalContinuousMask()})

    def _step(self, actions: dict[str, Any]) -> Any:
        self.x = float(actions["force"].values[0])
        return self._reset({}), self.x, False, False, {}


@pytest.mark.parametrize(
    ("force", "fact"),
    [(np.inf, "inf"), (-np.inf, "-inf"), (np.nan, "nan"), (1e39, "number"), ("0.5", "0.5"), (0.5j, "0.5j")],
)
def test_without_bounds_only_finite_real_numbers_are_legal(force: Any, fact: str) -> None:
    env = Spring()
    env.reset(seed=0)
    with raises(ActionError, "action 'force'", fact):
        env.step({"force": [force]})
    assert env.step({"force": [-3e38]})[1] == pytest.approx(-3e38)
    batch = batch_observations(env.observation_space, [env.reset()[0]])
    if isinstance(force, float) and not np.isfinite(force):
        given = RaggedArray(np.array([[force]], np.float32), [0, 1])
        with raises(ActionError, "action 'force'", "number 0", fact):
            validate_actions(env.observation_space, batch, {"force": given})


def test_numbers_that_float32_does_not_hold_are_named() -> None:
    env = Spring()
    env.x = 1e300
    with raises(ObservationError, "global feature 'x'", "float32", "1e+300"):
        env.reset(seed=0)
    env.x = np.inf
    with raises(ObservationError, "global feature 'x'", "finite number", "inf"):
        env.reset(seed=0)


def test_such_an_environment_conforms_alone_and_in_numbers():
    check_entity_env(Drift(), 40)
    check_entity_env(ListVectorEnv([Drift] * 3), 40)


@pytest.mark.parametrize("bound", [np.inf, 1e8, 2.0**24])
def test_such_an_environment_conforms_with_wide_bounds(bound: float) -> None:
    class Wide(Drift):
        def __init__(self) -> None:
            push, steer = Continuous([-bound, 0], [bound, 2]), GlobalContinuous(-bound, bound)
            self.action_space = EntityActionSpace({"push": push, "steer": steer}, optional=True)
            self.observation_space = EntitySpace({"Drone": ["x", "y"]}, self.action_space)

    check_entity_env(Wide(), 40)


@pytest.mark.full
def test_processes_step_it_as_a_list_does():
    rng = np.random.default_rng(0)
    with ListVectorEnv([Drift] * 3) as one, ProcessVectorEnv([Drift] * 3, num_workers=1) as other:
        batch, _ = one.reset(seed=1)
        other.reset(seed=1)
        for _ in range(7):
            actions = sample_actions(one.single_action_space, batch, rng)
            (batch, rewards, *_), (same, others, *_) = one.step(actions), other.step(actions)
            assert batch.equals(same)
            np.testing.assert_array_equal(rewards, others)


def test_padding_and_buffers_keep_continuous_actions():
    space = spaces()
    batch = batch_observations(space, [observation(2, 1), observation(0, 0), observation(3, 1)])
    layout = PaddedLayout(space, {"Drone": 4})
    padded = layout.pad(batch)
    assert layout.observation_space.contains({name: array[0] for name, array in padded.items()})
    actions = sample_actions(space.actions, batch, np.random.default_rng(0))
    flat = layout.pad_actions(batch, actions)
    assert flat["push"].shape == (3, 4, 2) and flat["steer"].shape == (3, 1, 1)
    for name, chosen in actions.items():
        for b, item in enumerate(chosen):
            assert flat[name][b, : len(item)].tolist() == item.tolist()
    buffer = EntityBatchBuffer(space)
    buffer.append(batch)
    buffer.append(batch)
    assert buffer.gather([3, 2]).equals(batch.gather([0, 2]))
