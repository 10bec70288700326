"""Infos are recorded where they are plain, and nothing that an environment says ends the recording."""

from __future__ import annotations

import math
from pathlib import Path
from types import MappingProxyType
from typing import Any

import entitize as ez
import gymnasium
import numpy as np
from entitize.datasets import EntityDataset


def test_infos_are_recorded_where_they_are_plain(tmp_path: Path) -> None:
    venv = ez.make_vec("Procgen/coinrun", num_envs=2, num_levels=5)
    ez.record(venv, None, tmp_path / "plays", steps=3)
    infos = EntityDataset(tmp_path / "plays").infos([0, 1, 5])
    assert all(0 <= info["level_seed"] < 5 for info in infos)


class Counting(gymnasium.Env[Any, Any]):
    """Its infos say which step they are of; an episode has three."""

    observation_space = gymnasium.spaces.Box(0, 9, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(1, np.float32), {"steps": 0}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        return np.zeros(1, np.float32), 0.0, self.steps == 3, False, {"steps": self.steps}


def test_infos_are_those_of_the_step_also_where_an_episode_ends(tmp_path: Path) -> None:
    venv = ez.wrap_vec(gymnasium.vector.SyncVectorEnv([Counting] * 2))
    dataset = EntityDataset(ez.record(venv, None, tmp_path / "plays", steps=7))
    infos = dataset.infos(dataset.decisions)
    steps = dataset.column("step")[dataset.decisions]
    assert [info["steps"] for info in infos] == (steps + 1).tolist()


class Occupied(Counting):
    """Its infos have keys that say something else of a vector environment."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward, terminated, truncated, {**info, "inactive": True, "idle": 1}


def test_infos_that_are_the_vector_environments_are_never_recorded(tmp_path: Path) -> None:
    venv = ez.make_vec(Occupied, num_envs=2)
    dataset = EntityDataset(ez.record(venv, None, tmp_path / "plays", steps=7))
    infos = dataset.infos(dataset.decisions)
    assert len(infos) == 14 and all(list(info) == ["steps"] for info in infos)


class Unbounded(Counting):
    """Its infos contain numbers that JSON has no words for."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, _ = super().step(action)
        return observation, reward, terminated, truncated, {"best": math.inf, "parts": [1.5, math.nan]}


def test_infos_are_json_also_where_numbers_are_not_finite(tmp_path: Path) -> None:
    venv = ez.wrap_vec(gymnasium.vector.SyncVectorEnv([Unbounded]))
    dataset = EntityDataset(ez.record(venv, None, tmp_path / "plays", steps=2))
    assert dataset.infos(dataset.decisions) == [{"best": None, "parts": [1.5, None]}] * 2


class Odd(ez.EntityEnv):
    """Its infos contain values that are plain, that stand for plain ones, and that JSON has no form for."""

    def __init__(self) -> None:
        self.action_space = ez.EntityActionSpace({"Go": ez.GlobalCategorical(["on", "off"])})
        self.observation_space = ez.EntitySpace({}, self.action_space)

    def _reset(self, options: dict[str, Any]) -> ez.Observation:
        self.steps = 0
        return self._look()

    def _step(self, actions: Any) -> Any:
        self.steps += 1
        info = {
            "when": np.datetime64("2024-01-01"),
            "took": np.timedelta64(3, "s"),
            "raw": np.bytes_(b"x"),
            "waves": [1, 2j],
            "numbered": {7: 1},
            3: "a key that is no text",
            "mapping": MappingProxyType({"a": 1, "b": MappingProxyType({"c": [np.float32(0.5), None]})}),
            "numpy": [np.bool_(True), np.int8(3), np.float16(0.5), np.longdouble(0.25), np.str_("word")],
            "wide": [np.array([0.5], np.longdouble)],
        }
        return self._look(), 0.0, self.steps == 2, False, info

    def _look(self) -> ez.Observation:
        return ez.Observation({}, actions={"Go": ez.actions.GlobalCategoricalMask()})


def test_infos_that_are_not_plain_are_left_out(tmp_path: Path) -> None:
    dataset = EntityDataset(ez.record(ez.vector.ListVectorEnv([Odd] * 2), None, tmp_path / "plays", steps=3))
    expected = {
        "mapping": {"a": 1, "b": {"c": [0.5, None]}},
        "numpy": [True, 3, 0.5, 0.25, "word"],
        "wide": [[0.5]],
    }
    assert dataset.infos(dataset.decisions) == [expected] * 6


def test_infos_of_later_files_are_their_own(tmp_path: Path) -> None:
    from entitize.datasets import DatasetWriter

    from recorded_steps import SPACES, random_steps

    space = next(iter(SPACES.values()))
    with DatasetWriter(tmp_path / "plays", space) as writer:
        for first, count in ((0, 5), (5, 3), (8, 4)):
            writer.append(
                random_steps(space, count, first), [f'{{"n": {n}}}' for n in range(first, first + count)]
            )
            writer.flush()
    dataset = EntityDataset(tmp_path / "plays")
    assert dataset.num_parts == 3
    rows = [7, 0, 11, 5, 8, 4]
    assert [info["n"] for info in dataset.infos(rows)] == rows
