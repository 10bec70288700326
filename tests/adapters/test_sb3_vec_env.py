"""Entity vector environments as `VecEnv`s of Stable-Baselines3."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import entitize as ez
import gymnasium
import numpy as np
import pytest
from entitize.envs import PackedLayout, batch_observations, sample_actions
from entitize.ragged import RaggedArray
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import TimeLimit
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import VecMonitor

from facts import raises

ACTIONS = ez.EntityActionSpace({"Walk": ez.Categorical(3), "Push": ez.Continuous(-1.0, 1.0)}, optional=True)
SPACE = ez.EntitySpace({"Sheep": ["x"]}, ACTIONS, ["time"])


class Flock(ez.EntityEnv):
    """As many sheep as have joined; ends at `length`, by termination or truncation."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 7}  # noqa: RUF012 - Gymnasium declares no ClassVar

    def __init__(self, length: int = 3, cut_off: bool = False) -> None:
        self.action_space, self.observation_space = ACTIONS, SPACE
        self.length, self.cut_off = length, cut_off
        self.render_mode = "rgb_array"
        self.difficulty = 1
        self.received: list[dict[str, Any]] = []

    def render(self) -> Any:
        return np.full((2, 2, 3), self.time, np.uint8)

    def harder(self, by: int) -> int:
        self.difficulty += by
        return self.difficulty

    def _reset(self, options: dict[str, Any]) -> Any:
        self.time, self.options = 0, options
        self.offset = float(self.np_random.integers(100))
        return self._look()

    def _step(self, actions: dict[str, Any]) -> Any:
        self.received.append(actions)
        self.time += 1
        ended = self.time == self.length
        info = {"time": self.time, "is_success": True} if ended else {"time": self.time}
        return self._look(), float(self.time), ended and not self.cut_off, ended and self.cut_off, info

    def _look(self) -> Any:
        sheep = [[self.offset + i] for i in range(self.time + 1)]
        return ez.Observation(
            entities={"Sheep": sheep},
            globals=[self.time],
            actions={"Walk": ez.actions.CategoricalMask(), "Push": ez.actions.ContinuousMask()},
        )


class Puppet(ez.EntityVectorEnv):
    """Two lanes of which a test says everything; without final observations."""

    single_observation_space, single_action_space = SPACE, ACTIONS

    def __init__(self, **metadata: Any) -> None:
        self.num_envs = 2
        self.metadata = {**ez.EntityVectorEnv.metadata, "final_obs": False, **metadata}
        self.results: list[tuple[Any, ...]] = []
        self.reset_info: dict[str, Any] = {}
        self.stepped: list[ez.vector.Actions] = []
        SPACE.seed(1)

    def look(self) -> ez.EntityBatch:
        return batch_observations(SPACE, [SPACE.sample() for _ in range(2)])

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[ez.EntityBatch, dict[str, Any]]:
        self.last = self.look()
        return self.last, self.reset_info

    def step(self, actions: ez.vector.Actions) -> ez.vector.StepResult:
        self.stepped.append(actions)
        self.last = self.look()
        terminated, truncated, info = self.results.pop(0)
        return self.last, np.ones(2, np.float32), np.array(terminated), np.array(truncated), info


def flocks(*lanes: Flock) -> ez.vector.ListVectorEnv:
    return ez.vector.ListVectorEnv([partial(lambda lane: lane, lane) for lane in lanes])


def acted(
    venv: ez.sb3.RaggedVecEnv, packed: dict[str, Any], rng: np.random.Generator
) -> tuple[Any, ez.vector.Actions]:
    """Random legal actions for what the environments show, packed and not."""
    layout = PackedLayout(venv.entity_space)
    actions = sample_actions(venv.entity_space.actions, layout.unpack(packed), rng)
    return layout.pack_actions(actions), actions


def test_steps_are_those_of_the_vector_environment() -> None:
    """Lane by lane against two environments that are stepped by hand."""
    lanes = [Flock(3), Flock(4, cut_off=True)]
    venv = ez.sb3.vec_env(flocks(*lanes))
    twins = [Flock(3), Flock(4, cut_off=True)]
    layout, rng = PackedLayout(SPACE), np.random.default_rng(0)
    venv.seed(5)
    packed = venv.reset()
    expected = [twin.reset(seed=5 + lane)[0] for lane, twin in enumerate(twins)]
    for _ in range(13):
        assert layout.unpack(packed).equals(batch_observations(SPACE, expected))
        flat, actions = acted(venv, packed, rng)
        packed, rewards, dones, infos = venv.step(flat)
        assert rewards.dtype == np.float32 and dones.dtype == bool
        for lane, twin in enumerate(twins):
            action = {name: order[lane] for name, order in actions.items()}
            observation, reward, terminated, truncated, info = twin.step(action)
            assert (rewards[lane], dones[lane]) == (reward, terminated or truncated)
            if dones[lane]:
                terminal = infos[lane].pop("terminal_observation")
                assert SPACE.problem(terminal) is None
                assert layout.pack(batch_observations(SPACE, [terminal])).keys() == packed.keys()
                np.testing.assert_array_equal(terminal["entities"]["Sheep"], observation["entities"]["Sheep"])
                assert infos[lane].pop("TimeLimit.truncated") == truncated == (lane == 1)
                observation, _ = twin.reset()
            assert infos[lane] == info
            expected[lane] = observation
    for lane, twin in zip(lanes, twins, strict=True):
        for got, wanted in zip(lane.received, twin.received, strict=True):
            np.testing.assert_array_equal(got["Walk"].choices, wanted["Walk"].choices)
            np.testing.assert_array_equal(got["Push"].values, wanted["Push"].values)


def test_each_lane_gets_the_last_observation_of_its_own_episode() -> None:
    """Lane 2 ends alone, then lanes 1 and 3 end together."""
    venv = ez.sb3.vec_env(flocks(Flock(5), Flock(3), Flock(2), Flock(3)))
    venv.seed(4)
    packed, layout = venv.reset(), PackedLayout(SPACE)
    for ending in ([], [2], [1, 3]):
        sheep = layout.unpack(packed).entities["Sheep"]
        packed, _, dones, infos = venv.step(np.zeros(0))
        assert np.flatnonzero(dones).tolist() == ending
        for lane in ending:
            last = infos[lane]["terminal_observation"]["entities"]["Sheep"]
            np.testing.assert_array_equal(last[:-1], sheep[lane])


def test_seeds_and_options_are_used_once() -> None:
    venv = ez.sb3.vec_env(flocks(Flock(), Flock()))
    venv.seed(9)
    venv.set_options({"level": 2})
    first = venv.reset()
    assert venv.get_attr("options") == [{"level": 2}] * 2
    other = venv.reset()
    assert venv.get_attr("options") == [{}, {}]
    assert not np.array_equal(first["values/entities/Sheep"], other["values/entities/Sheep"])
    venv.seed(9)
    np.testing.assert_array_equal(venv.reset()["values/entities/Sheep"], first["values/entities/Sheep"])
    venv.set_options([{"level": 1}, {"level": 2}])
    with raises(ValueError, "options", "same"):
        venv.reset()


def test_attributes_and_methods_are_those_of_the_lanes() -> None:
    venv = ez.sb3.make_vec(flocks(Flock(3), Flock(4)))
    assert venv.get_attr("length") == [3, 4] and venv.get_attr("length", 1) == [4]
    venv.set_attr("difficulty", 5, indices=[1])
    assert venv.env_method("harder", 2) == [3, 7]
    assert venv.env_method("harder", by=1, indices=[0]) == [4]
    assert venv.get_attr("num_envs") == [2, 2]  # of the vector environment
    assert venv.has_attr("length") and not venv.has_attr("height")
    assert venv.env_is_wrapped(Monitor) == [False, False]
    watched = ez.sb3.vec_env(ez.vector.ListVectorEnv([lambda: Monitor(Flock()), Flock]))
    assert watched.env_is_wrapped(Monitor) == [True, False]


def test_attributes_of_an_engine_speak_for_all_lanes() -> None:
    puppet = Puppet()
    venv = ez.sb3.vec_env(puppet)
    puppet.speed = 3  # type: ignore[attr-defined]
    assert venv.get_attr("speed") == [3, 3] and venv.env_is_wrapped(Monitor) == [False, False]
    venv.set_attr("speed", 4)
    assert venv.get_attr("speed", 0) == [4]
    assert venv.env_method("look", indices=[0])[0].entities.keys() == {"Sheep"}
    with raises(ValueError, "'speed'", "lanes", "Puppet"):
        venv.set_attr("speed", 5, indices=0)
    with raises(AttributeError, "Puppet", "'sped'"):
        venv.set_attr("sped", 5)
    with raises(AttributeError, "Puppet", "'look_up'"):
        venv.env_method("look_up")


@pytest.mark.parametrize(
    "venv",
    [lambda: "CartPole-v1", lambda: ez.wrap_vec(SyncVectorEnv([partial(gymnasium.make, "CartPole-v1")]))],
)
def test_attributes_of_wrapped_environments_are_those_of_the_lanes(venv: Callable[[], Any]) -> None:
    carts = ez.sb3.make_vec(venv())
    carts.seed(0)
    carts.reset()
    assert carts.get_attr("x_threshold") == [2.4] and carts.env_is_wrapped(TimeLimit) == [True]
    carts.set_attr("x_threshold", 0.0001, indices=[0])
    assert carts.get_attr("x_threshold", 0) == [0.0001]
    _, _, dones, _ = carts.step(np.zeros(1, np.int64))
    assert dones.all(), "the cart is outside of its track now"
    assert carts.env_method("get_wrapper_attr", "gravity") == [9.8]
    with raises(AttributeError, "'gravitation'", "lanes"):
        carts.get_attr("gravitation")


def test_frames_come_from_the_lanes() -> None:
    venv = ez.sb3.vec_env(flocks(Flock(), Flock()))
    venv.reset()
    assert venv.render_mode == "rgb_array" and venv.metadata["render_fps"] == 7
    picture = venv.render()
    assert picture is not None and picture.shape == (4, 2, 3)
    assert list(ez.sb3.vec_env(Puppet()).metadata["render_modes"]) == []


def test_procgen_bootstraps_from_the_observation_before_the_end() -> None:
    puppet = Puppet()
    puppet.results = [([True, False], [False, True], {}), ([True, False], [True, False], {})]
    venv = ez.sb3.vec_env(puppet)
    packed = venv.reset()
    before = PackedLayout(SPACE).unpack(packed)
    _, _, dones, infos = venv.step(np.zeros(0))
    assert dones.tolist() == [True, True]
    assert infos[0] == {"TimeLimit.truncated": False}
    assert infos[1].pop("TimeLimit.truncated")
    terminal = batch_observations(SPACE, [infos[1]["terminal_observation"]])
    assert terminal.equals(before.gather([1]))
    _, _, dones, infos = venv.step(np.zeros(0))
    assert infos == [{"TimeLimit.truncated": False}, {}]  # terminated and cut off is terminated


def test_rewards_may_be_changed_in_place() -> None:
    """Stable-Baselines3 adds the value of a last state to them."""
    puppet = Puppet()
    kept = np.ones(2, np.float32)
    puppet.step = lambda actions: (puppet.look(), kept, ~kept.astype(bool), ~kept.astype(bool), {})  # type: ignore
    venv = ez.sb3.vec_env(puppet)
    venv.reset()
    _, rewards, _, _ = venv.step(np.zeros(0))
    rewards += 1
    assert kept.tolist() == [1, 1]


def test_infos_of_the_last_step_and_of_the_reset_are_kept_apart() -> None:
    merged = {
        "level": np.array([7, 8]),
        "final_info": {"won": np.array([True, False]), "_won": np.array([True, False])},
        "_final_info": np.array([True, False]),
    }
    puppet = Puppet()
    puppet.reset_info = {"level": np.array([1, 2])}
    puppet.results = [([True, False], [False, False], merged)]
    venv = ez.sb3.vec_env(puppet)
    venv.reset()
    assert venv.reset_infos == [{"level": 1}, {"level": 2}]
    _, _, _, infos = venv.step(np.zeros(0))
    assert infos == [{"won": True, "TimeLimit.truncated": False}, {"level": 8}]
    assert venv.reset_infos[0] == {"level": 7}


def test_an_ended_lane_without_a_final_info_keeps_the_info_that_it_has() -> None:
    final = {"won": np.array([True, False]), "_won": np.array([True, False])}
    merged = {"level": np.array([7, 8]), "final_info": final, "_final_info": np.array([True, False])}
    puppet = Puppet()
    puppet.reset_info = {"level": np.array([1, 2])}
    puppet.results = [([True, True], [False, False], merged)]
    venv = ez.sb3.vec_env(puppet)
    venv.reset()
    _, _, _, infos = venv.step(np.zeros(0))
    assert infos[1] == {"level": 8, "TimeLimit.truncated": False}
    assert venv.reset_infos == [{"level": 7}, {"level": 2}]


def test_idle_lanes_are_refused() -> None:
    puppet = Puppet()
    puppet.reset_info = {"inactive": np.array([False, False])}
    nobody = np.zeros(2, bool)
    puppet.results = [(nobody, nobody, {"inactive": np.array([False, True])})]
    venv = ez.sb3.vec_env(puppet)
    venv.reset()
    with raises(TypeError, "lane 1", "Puppet", "inactive", "entitize.PPO"):
        venv.step(np.zeros(0))
    with raises(gymnasium.error.ResetNeeded, "RaggedVecEnv", "reset()"):
        venv.step(np.zeros(0))
    puppet.reset_info = {"inactive": np.array([True, False])}
    with raises(TypeError, "lane 0", "Puppet", "inactive"):
        venv.reset()


def test_wrong_actions_move_no_lane() -> None:
    venv = ez.sb3.vec_env(flocks(Flock(), Flock()))
    with pytest.raises(gymnasium.error.ResetNeeded):
        venv.step(np.zeros(0))
    packed = venv.reset()
    flat, _ = acted(venv, packed, np.random.default_rng(0))
    with raises(ez.ActionError, 3, 4, "2 of 'Walk'", "2 of 'Push'"):
        venv.step(flat[:3])
    with raises(ez.ActionError, "env 1", "action 'Walk'", "actor 0"):
        venv.step(np.where(np.arange(4) == 1, 9, flat))
    with raises(ez.ActionError, "RaggedVecEnv", "step_async"):
        venv.step_wait()
    assert venv.step(flat)[1].tolist() == [1, 1]


def test_what_is_no_entity_vector_environment_is_refused() -> None:
    with raises(TypeError, "Flock", "entitize.vector.ListVectorEnv"):
        ez.sb3.vec_env(Flock())  # type: ignore[arg-type]
    cart = SyncVectorEnv([partial(gymnasium.make, "CartPole-v1")])
    with raises(TypeError, "entitize.wrap_vec"):
        ez.sb3.vec_env(cart)  # type: ignore[arg-type]
    cart.close()
    with raises(TypeError, "VecMonitor", "VecEnv"):
        ez.sb3.make_vec(ez.sb3.make_vec("Xor"))  # type: ignore[arg-type]
    with raises(ValueError, "SAME_STEP", "Puppet", "NEXT_STEP"):
        ez.sb3.vec_env(Puppet(autoreset_mode=AutoresetMode.NEXT_STEP))
    with raises(TypeError, "num_envs, size", "name"):
        ez.sb3.make_vec(flocks(Flock()), num_envs=3, size=2)
    with raises(gymnasium.error.NameNotFound, "'MineSweeper'"):
        ez.sb3.make_vec("MineSweper")


def test_environments_are_made_by_name_and_of_vector_environments() -> None:
    by_name = ez.sb3.make_vec("MineSweeper", num_envs=3, nmines=2)
    assert isinstance(by_name, VecMonitor) and isinstance(by_name.venv, ez.sb3.RaggedVecEnv)
    assert by_name.num_envs == 3 and by_name.get_attr("max_steps") == [100, 100, 100]
    assert by_name.reset()["values/entities/Mine"].shape == (6, 2)  # type: ignore[call-overload]
    assert ez.sb3.make_vec("Xor").num_envs == 1
    assert ez.sb3.make_vec(ez.games.MineSweeper, 3, nmines=2).num_envs == 3
    alone = ez.sb3.vec_env("MineSweeper", 2)
    assert type(alone) is ez.sb3.RaggedVecEnv and alone.num_envs == 2
    wrapped = ez.sb3.make_vec(ez.wrap_vec(SyncVectorEnv([partial(gymnasium.make, "CartPole-v1")] * 2)))
    packed = wrapped.reset()
    assert packed["values/entities/Vector"].shape == (2, 4)  # type: ignore[call-overload]
    for venv in (by_name, wrapped):
        venv.close()
        venv.close()


def test_a_monitor_tells_returns_and_lengths() -> None:
    venv = ez.sb3.make_vec(flocks(Flock(3), Flock(2)))
    venv.reset()
    episodes = []
    for _ in range(6):
        _, _, _, infos = venv.step(np.zeros(0))
        episodes += [(info["episode"]["r"], info["episode"]["l"]) for info in infos if "episode" in info]
    assert sorted(episodes) == [(3, 2)] * 3 + [(6, 3)] * 2


def test_packed_observations_stay_valid() -> None:
    venv = ez.sb3.vec_env(flocks(Flock(), Flock()))
    first = venv.reset()
    kept = {name: array.copy() for name, array in first.items()}
    for _ in range(4):
        venv.step(np.zeros(0))
    assert all(np.array_equal(array, first[name]) for name, array in kept.items())


def test_procgen_goes_through() -> None:
    venv = ez.sb3.make_vec(
        "Procgen/bigfish", num_envs=3, distribution_mode="easy", num_levels=3, start_level=1
    )
    venv.seed(2)
    packed = venv.reset()
    inner: ez.sb3.RaggedVecEnv = venv.unwrapped  # type: ignore[assignment]
    layout = PackedLayout(inner.entity_space)
    for _ in range(5):
        batch = layout.unpack_checked(packed)  # type: ignore[arg-type]
        assert len(batch) == 3 and batch.num_entities >= 3
        packed, _, _, infos = venv.step(np.array([1, 4, 7]))
        assert all(1 <= info["level_seed"] <= 3 for info in infos)
    actions = layout.unpack_actions(batch, np.array([1, 4, 7]))
    assert actions["act"] == RaggedArray(np.array([1, 4, 7]), np.arange(4))
    venv.close()
