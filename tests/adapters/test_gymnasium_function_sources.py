"""`Function(source=...)`: views that read the environment or the info beside the observation."""

import copy
import json
import pickle
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from entitize import ObservationError, views, wrap, wrap_vec
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import DictInfoToList

from facts import raises


class Swarm(gymnasium.Env[Any, Any]):
    """Bees in a list, of which the observation says only how many there are; infos have their places too."""

    observation_space = spaces.Box(0, 9, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.bees = list(self.np_random.random(int(self.np_random.integers(1, 5))))
        return self._look()

    def step(self, action: Any) -> Any:
        self.bees.pop()
        observation, info = self._look()
        return observation, 1.0, not self.bees, False, info

    def _look(self) -> Any:
        return np.float32([len(self.bees)]), {"bees": list(self.bees), "deep": {"count": len(self.bees)}}


def of_env(observation: Any, env: gymnasium.Env[Any, Any]) -> dict[str, Any]:
    assert len(env.unwrapped.bees) == observation[0]
    return {"Bee": [[place] for place in env.unwrapped.bees]}


def of_info(observation: Any, info: dict[str, Any]) -> dict[str, Any]:
    assert len(info["bees"]) == info["deep"]["count"] == observation[0]
    return {"Bee": [[place] for place in info["bees"]]}


def of_envs(observations: Any, envs: Any) -> dict[str, Any]:
    from entitize import RaggedArray

    bees = [np.float32(env.unwrapped.bees).reshape(-1, 1) for env in envs]
    return {"Bee": RaggedArray.from_arrays(bees, dtype=np.float32, inner_shape=(1,))}


BEES = {"Bee": ["place"]}
VIEWS = {
    "env": views.Function(of_env, BEES, source="env"),
    "info": views.Function(of_info, BEES, source="info"),
    "batched": views.Function(of_envs, BEES, batched=True, source="env"),
}


def bees(env: Any) -> np.ndarray:
    return np.float32(env.unwrapped.bees).reshape(-1, 1)


@pytest.mark.parametrize("name", VIEWS)
def test_a_function_reads_the_environment_or_the_info(name):
    env = wrap(Swarm(), VIEWS[name])
    for seed in range(5):
        seen, _ = env.reset(seed=seed)
        over = False
        while not over:
            np.testing.assert_array_equal(seen["entities"]["Bee"], bees(env))
            seen, _, over, _, _ = env.step({"action": 0})
        assert len(seen["entities"]["Bee"]) == 0


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("mode", ["NEXT_STEP", "DISABLED", "SAME_STEP"])
def test_lanes_are_the_single_environments(name, mode):
    venv = SyncVectorEnv([Swarm] * 3, autoreset_mode=AutoresetMode[mode])
    if mode == "SAME_STEP" and name != "info":
        with raises(views.ViewError, "Swarm", "SAME_STEP", "source='info'"):
            wrap_vec(venv, VIEWS[name])
        return
    wrapped = wrap_vec(venv, VIEWS[name])
    batch, _ = wrapped.reset(seed=3)
    wrapped.action_space.seed(3)
    ended_lanes = 0
    for _ in range(12):
        for lane, env in enumerate(venv.envs):
            np.testing.assert_array_equal(batch.entities["Bee"][lane], bees(env))
        batch, _, over, _, info = wrapped.step(wrapped.action_space.sample(mask=batch))
        if over.any():
            ended_lanes += over.sum()
            assert info["final_obs"].entities["Bee"].lengths.tolist() == [0] * over.sum()
    assert ended_lanes > 3
    wrapped.close()


@pytest.mark.parametrize("mode", ["NEXT_STEP", "DISABLED", "SAME_STEP"])
def test_a_list_of_infos_is_read_as_a_dict_of_them(mode):
    """Gymnasium's `DictInfoToList`, around one with an observation of several parts."""

    class Hive(Swarm):
        observation_space = spaces.Dict({"count": Swarm.observation_space})

        def _look(self) -> Any:
            count, info = super()._look()
            return {"count": count}, {**info, "action_mask": np.int8([1, len(self.bees) > 2])}

    def arrays(batch: Any) -> list[Any]:
        return [
            rows.tolist() for part in (batch.entities["Bee"], batch.actions["action"].mask) for rows in part
        ]

    def of_hive(observation: Any, info: dict[str, Any]) -> dict[str, Any]:
        return of_info(observation["count"], info)

    view = views.Function(of_hive, BEES, source="info")
    plain, listed = (SyncVectorEnv([Hive] * 3, autoreset_mode=AutoresetMode[mode]) for _ in range(2))
    one, other = wrap_vec(plain, view), wrap_vec(DictInfoToList(listed), view)
    expected, given = one.reset(seed=3)[0], other.reset(seed=3)[0]
    one.action_space.seed(3)
    ends = 0
    for _ in range(12):
        assert arrays(given) == arrays(expected)
        actions = one.action_space.sample(mask=expected)
        expected, _, over, _, info = one.step(actions)
        given, _, _, _, same = other.step(actions)
        if over.any():
            ends += over.sum()
            np.testing.assert_array_equal(same["_final_obs"], info["_final_obs"])
            assert arrays(same["final_obs"]) == arrays(info["final_obs"])
    assert ends > 3
    one.close()
    other.close()


def test_infos_of_lanes_are_those_of_single_environments():
    """With numbers of NumPy, keys of any type, and those that vector environments use themselves."""

    class Busy(Swarm):
        def _look(self) -> Any:
            count, info = super()._look()
            return count, {**info, 5: np.float32(len(self.bees)), "idle": True, "inactive": len(self.bees)}

    infos: list[dict[Any, Any]] = []

    def of_busy(observation: Any, info: dict[Any, Any]) -> dict[str, Any]:
        infos.append(info)
        return of_info(observation, info)

    view = views.Function(of_busy, BEES, source="info")
    single = wrap(Busy(), view)
    single.reset(seed=3)
    single.step({"action": 0})
    expected, infos = infos, []
    lanes = wrap_vec(SyncVectorEnv([Busy]), view)
    lanes.reset(seed=3)
    lanes.step({"action": np.array([0])})
    assert infos == expected
    assert all(type(info[5]) is np.float32 for info in infos + expected)


def test_processes_have_infos_but_no_environments():
    processes = AsyncVectorEnv([Swarm] * 2)
    with raises(views.ViewError, "Swarm", "AsyncVectorEnv", "source='info'"):
        wrap_vec(processes, VIEWS["env"])
    processes.close()
    venv = wrap_vec(AsyncVectorEnv([Swarm] * 2), VIEWS["info"])
    single = wrap(Swarm(), VIEWS["info"])
    batch, _ = venv.reset(seed=3)
    for lane in range(2):
        np.testing.assert_array_equal(
            batch.entities["Bee"][lane], single.reset(seed=3 + lane)[0]["entities"]["Bee"]
        )
    venv.close()


def test_the_spec_and_copies_read_their_own_environment(tmp_path, monkeypatch):
    (tmp_path / "tests_entitize_bees.py").write_text(
        "def places(observation, env):\n    return {'Bee': [[place] for place in env.unwrapped.bees]}\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(gymnasium.registry, "Swarm-v0", EnvSpec("Swarm-v0", Swarm, disable_env_checker=True))
    view = views.Function("tests_entitize_bees:places", BEES, source="env")
    env = wrap(gymnasium.make("Swarm-v0"), view)
    env.reset(seed=1)
    assert "Swarm" not in json.dumps(env.spec.additional_wrappers[0].kwargs["view"])
    again = gymnasium.make(env.spec)
    for other in (again, copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        for seed in range(3):
            seen, _ = other.reset(seed=seed)
            np.testing.assert_array_equal(seen["entities"]["Bee"], bees(other))
        assert bees(env).shape != () and other.unwrapped is not env.unwrapped
    venv = SyncVectorEnv([partial(gymnasium.make, copy.deepcopy(env.spec))] * 2)
    venv.reset(seed=1)
    venv.close()


def test_a_copy_goes_on_where_the_environment_was():
    env = wrap(gymnasium.make("CartPole-v1"))
    env.reset(seed=1)
    env.step({"action": 1})
    other = pickle.loads(pickle.dumps(env))
    for action in (0, 1, 1):
        one, two = env.step({"action": action}), other.step({"action": action})
        np.testing.assert_array_equal(one[0]["entities"]["Vector"], two[0]["entities"]["Vector"])


def test_functions_of_items_have_no_environment():
    class Hives(Swarm):
        observation_space = spaces.Sequence(spaces.Box(0, 9, (1,)))

    with raises(views.ViewError, "Hives", "source='env'"):
        wrap(Hives(), views.Items({"item": VIEWS["env"]}))
    with raises(views.ViewError, "source", "'environment'"):
        wrap(Swarm(), views.Function(of_env, BEES, source="environment"))


@pytest.mark.parametrize(
    ("function", "entities", "facts"),
    [
        (3, BEES, ["'module:function'", 3]),
        (of_env, ["Bee"], ["entities", "['Bee']"]),
        (of_env, {"Bee": "place"}, ["entities", "'place'"]),
    ],
)
def test_a_declaration_of_another_form_is_refused(function, entities, facts):
    with raises(views.ViewError, *facts):
        wrap(Swarm(), views.Function(function, entities))


@pytest.mark.parametrize("rows", [[["a"]], [[1], [2, 3]], {}])
def test_rows_that_are_no_numbers_are_named(rows):
    env = wrap(Swarm(), views.Function(lambda _: {"Bee": rows}, BEES))
    with raises(ObservationError, "Swarm", "lane 0", "'Bee'"):
        env.reset(seed=1)
