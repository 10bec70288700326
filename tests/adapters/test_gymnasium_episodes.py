"""Episodes of wrapped vector environments: infos, seeds and options."""

from functools import partial
from typing import Any

import entitize as ez
import gymnasium
import numpy as np
import pytest
from entitize import views, wrap, wrap_vec
from entitize.envs import ObservationError
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import RecordEpisodeStatistics as RecordEpisodeStatisticsOfLanes

from facts import raises

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:.*freesansbold")


def test_infos_of_a_reset_replace_those_of_the_step_before():
    venv = wrap_vec(
        gymnasium.wrappers.vector.RecordEpisodeStatistics(
            SyncVectorEnv([partial(gymnasium.make, "Taxi-v4", max_episode_steps=n) for n in (3, 5)])
        )
    )
    batch, info = venv.reset(seed=2)
    for step in range(1, 11):
        batch, _, _, truncated, info = venv.step(venv.action_space.sample(mask=batch))
        np.testing.assert_array_equal(batch.actions["action"].mask.values, info["action_mask"].astype(bool))
        np.testing.assert_array_equal(truncated, [step % 3 == 0, step % 5 == 0])
        assert ("final_info" in info) == bool(truncated.any())
        if truncated.any():
            np.testing.assert_array_equal(info["_episode"], truncated)
            np.testing.assert_array_equal(info["episode"]["l"][truncated], np.array([3, 5])[truncated])
    venv.close()


class Remarks(gymnasium.Env):
    """Says something about each step, and nothing of a reset; an episode has three steps."""

    observation_space = gymnasium.spaces.Box(0, 9, (2,))
    action_space = gymnasium.spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[Any, Any]]:
        self.steps += 1
        said = {"action_mask": np.array([0, 0, 1]), "idle": 3, "inactive": 1, 0: 1.5, "more": {1: self.steps}}
        return np.full(2, self.steps, np.float32), 0.0, self.steps == 3, False, said


class Loose(Remarks):
    """Says values whose type and shape change from lane to lane and from step to step."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        observation, _ = super().reset(seed=seed)
        return observation, self.remarks()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[Any, Any]]:
        *result, _ = super().step(action)
        return *result, self.remarks()

    def remarks(self) -> dict[str, Any]:
        count = int(self.np_random.integers(1, 4))
        loose = [("target", None if count > 2 else count), ("score", 0.5 if count > 2 else 0)]
        return {"alive": np.arange(count), "nested": dict(loose)}


def test_infos_of_lanes_may_differ_in_shape_and_type():
    lanes = [Loose() for _ in range(5)]
    venv = ez.make_vec(Loose, num_envs=5)
    batch, info = venv.reset(seed=0)
    said = [env.reset(seed=lane)[1] for lane, env in enumerate(lanes)]
    for _ in range(7):
        for lane, own in enumerate(said):
            np.testing.assert_array_equal(info["alive"][lane], own["alive"])
            assert {key: info["nested"][key][lane] for key in own["nested"]} == own["nested"]
        batch, _, terminated, _, info = venv.step(venv.action_space.sample(mask=batch))
        said = [env.step(0)[-1] for env in lanes]
        for lane in np.flatnonzero(terminated):
            np.testing.assert_array_equal(info["final_info"]["alive"][lane], said[lane]["alive"])
            said[lane] = lanes[lane].reset()[1]
    venv.close()


class Logging(Remarks):
    """Has one list in all of its infos, which is empty after a reset."""

    def __init__(self) -> None:
        self.log: list[int] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.log.clear()
        return super().reset(seed=seed)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[Any, Any]]:
        *result, _ = super().step(action)
        self.log.append(self.steps)
        return *result, {"log": self.log}


def test_last_infos_stay_where_a_reset_empties_a_list_of_them():
    with ez.make_vec(Logging, num_envs=2) as venv:
        batch, _ = venv.reset(seed=0)
        for _ in range(3):
            batch, *_, info = venv.step(venv.action_space.sample(mask=batch))
    assert list(info["final_info"]["log"]) == [[1, 2, 3]] * 2


class Fickle(gymnasium.Env[Any, Any]):
    """One flat mask for two numbers, whose dtype changes with the step and the lane; 3-step episodes."""

    observation_space = spaces.Box(0, 1, (1,), np.float32)

    def __init__(self, action_space: spaces.Space[Any]) -> None:
        self.action_space = action_space

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return self.look()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        observation, info = self.look()
        return observation, 0.0, self.steps == 3, False, info

    def look(self) -> tuple[Any, dict[str, Any]]:
        dtype = self.np_random.choice([np.bool_, np.int8, np.float64])
        return np.zeros(1, np.float32), {"action_mask": np.array([1, 0, 0, 1, 1], dtype)}


@pytest.mark.parametrize(
    "space",
    [
        spaces.MultiDiscrete([2, 3]),
        spaces.Tuple([spaces.Discrete(2), spaces.Discrete(3)]),
        spaces.Dict(a=spaces.Discrete(2), b=spaces.Discrete(3)),
    ],
)
def test_lanes_may_have_masks_of_different_dtypes(space):
    venv = ez.make_vec(Fickle, num_envs=4, action_space=space)
    batch, _ = venv.reset(seed=0)
    for _ in range(8):
        first, second = (part.mask.values for part in batch.actions.values())
        np.testing.assert_array_equal(first, [[1, 0]] * 4)
        np.testing.assert_array_equal(second, [[0, 1, 1]] * 4)
        batch = venv.step(venv.action_space.sample(mask=batch))[0]
    venv.close()


@pytest.mark.parametrize("mode", ["NextStep", "Disabled", "SameStep"])
def test_a_new_episode_knows_nothing_of_the_one_before(mode):
    venv = wrap_vec(SyncVectorEnv([Remarks] * 2, autoreset_mode=mode))
    batch, _ = venv.reset(seed=0)
    for step in range(1, 8):
        batch, _, terminated, _, info = venv.step(
            {"action": batch.actions["action"].actors.with_values(np.array([2, 2]))}
        )
        ended = step % 3 == 0
        assert terminated.tolist() == [ended] * 2
        assert batch.actions["action"].mask.values.tolist() == [[ended, ended, True]] * 2
        assert not ez.envs.inactive_lanes(info, 2).any()


class Says(gymnasium.Env):
    """Has one info at a reset and another at each step; an episode has `length` steps."""

    observation_space = gymnasium.spaces.Box(0, 9, (2,))
    action_space = gymnasium.spaces.Discrete(3)

    def __init__(self, at_reset: Any, at_step: Any, length: int) -> None:
        self.at_reset, self.at_step, self.length = at_reset, at_step, length

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        assert not options or set(options) <= {"level"}
        return np.zeros(2, np.float32), {"goal": self.at_reset}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[Any, Any]]:
        self.steps += 1
        return np.zeros(2, np.float32), 0.0, self.steps == self.length, False, {"goal": self.at_step}


@pytest.mark.parametrize(
    ("at_reset", "at_step"), [({"x": 1}, None), ({"x": 1}, 3.0), (None, {"x": 1}), ("far", {"x": 1})]
)
def test_infos_of_a_reset_may_be_of_another_kind(at_reset: Any, at_step: Any) -> None:
    venv = wrap_vec(SyncVectorEnv([partial(Says, at_reset, at_step, length) for length in (2, 3)]))
    venv.reset(seed=0)
    for step in range(1, 8):
        *_, info = venv.step(venv.action_space.sample())
        told = [own["goal"] for own in ez.envs.lane_infos(info, 2)]
        assert told == [at_reset if step % length == 0 else at_step for length in (2, 3)]


def test_environments_inside_are_not_told_which_lanes_are_reset() -> None:
    inside = RecordEpisodeStatisticsOfLanes(SyncVectorEnv([partial(Says, 0, 0, n) for n in (2, 3)]))
    venv = wrap_vec(inside)
    venv.reset(seed=0, options={"level": 1})
    lengths = []
    for _ in range(6):
        *_, info = venv.step(venv.action_space.sample())
        lengths += [own["episode"]["l"] for own in ez.envs.lane_infos(info, 2) if "episode" in own]
    assert lengths == [2, 3, 2, 2, 3]


@pytest.mark.parametrize("env_id", ["CartPole-v1", "entitize/Count-v0"])
def test_seeds_may_be_numpys(env_id: str) -> None:
    venv = ez.make_vec(env_id, 2)
    space = venv.observation_space
    for seed in (np.int64(7), np.array([7, 8]), [np.int32(7), 8]):
        venv.reset(seed=7)
        expected = venv.reset(seed=[7, 8])[0]
        assert venv.reset(seed=seed)[0].equals(expected), (seed, space)
    for wrong in (-1, [1.5, 2.5], [1]):
        with raises(ValueError, "seed"):
            venv.reset(seed=wrong)


def test_infos_of_an_environment_say_nothing_about_lanes():
    venv = ez.make_vec(Remarks, num_envs=2)
    net = ez.RogueNet(venv.single_observation_space, venv.single_action_space, d_model=8, n_layer=1)
    trainer = ez.PPO(net, venv, ez.PPOConfig(total_timesteps=32, num_steps=8))
    trainer.train(progress=False)
    assert trainer.step == 32


def test_entities_that_are_chosen_survive_the_end_of_an_episode():
    class Rows(gymnasium.vector.VectorEnv):
        """Resets by itself, a step after the end."""

        metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012 - Gymnasium's form
        num_envs = 2
        single_observation_space = gymnasium.spaces.Box(0, 9, (3, 2))
        single_action_space = gymnasium.spaces.Discrete(3)

        def reset(self, *, seed=None, options=None):
            self.steps = 0
            return np.ones((2, 3, 2), np.float32), {}

        def step(self, actions):
            self.steps += 1
            ended = np.array([self.steps == 2, False])
            return np.ones((2, 3, 2), np.float32), np.zeros(2), ended, np.zeros(2, bool), {}

    rows = views.Rows(name="Item", index=True)
    venv = wrap_vec(Rows(), rows, actions=views.PerEntity("Item"))
    batch, _ = venv.reset(seed=0)
    for _ in range(4):
        batch, *_ = venv.step(venv.action_space.sample(mask=batch))
        assert batch.actions["action"].actees.lengths.tolist() in ([3, 3], [0, 3])


def test_numbers_beyond_float32_are_refused():
    class Large(Remarks):
        observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float64)

        def reset(self, *, seed=None, options=None):
            return np.array([1.0, 1e300]), {}

    with raises(ObservationError, "Large", "finite", "1e+300"):
        wrap(Large()).reset()


def test_one_of_several_spaces_may_be_a_graph():
    box = gymnasium.spaces.Box(0, 1, (2,))
    space = gymnasium.spaces.OneOf([gymnasium.spaces.Graph(box, box, seed=1), box])

    class Either(Remarks):
        observation_space = space

        def reset(self, *, seed=None, options=None):
            return (np.int64(1), np.ones(2, np.float32)), {}

    observation, _ = wrap(Either()).reset()
    assert sum(len(rows) for rows in observation["entities"].values()) >= 1


def test_shared_memory_that_gymnasium_reads_only_once_is_refused():
    class Saying(gymnasium.Env):
        observation_space = spaces.Dict(
            said=spaces.Tuple([spaces.Discrete(2), spaces.Text(3)]), n=spaces.Box(0, 9, (1,))
        )
        action_space = spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return {"said": (0, "abc"), "n": np.ones(1, np.float32)}, {}

    with raises(ez.views.ViewError, "Saying", "AsyncVectorEnv", "Text", "shared_memory=False"):
        ez.wrap_vec(shared := AsyncVectorEnv([Saying]))
    shared.close()
    with ez.wrap_vec(AsyncVectorEnv([Saying], shared_memory=False)) as venv:
        assert venv.reset(seed=1)[0].entities["said/part_1"].lengths.tolist() == [3]


# -- what is known of some environments ---------------------------------------------------------------------


class Vanishing(gymnasium.Env):
    """Gives None where its space has a sequence: Gymnasium's own `contains` raises for it."""

    observation_space = spaces.Dict({"units": spaces.Sequence(spaces.Box(-9, 9, (2,)), stack=True)})
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return {"units": np.zeros((1, 2), np.float32)}, {}

    def step(self, action):
        return {"units": None}, 0.0, False, False, {}


def test_none_in_place_of_a_sequence_is_told():
    with wrap(Vanishing()) as env:
        env.reset(seed=0)
        with raises(ObservationError, "Vanishing", "None"):
            env.step({"action": [0]})
