"""Replaying recorded actions finds the first step that differs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import entitize as ez
import numpy as np
import pytest
from entitize.datasets import DatasetError, EntityDataset, replay

from facts import raises


@pytest.mark.parametrize(
    "game", sorted([*ez.games.GAMES, "MultiSnake/lanes", "Procgen/coinrun", "Procgen/maze"])
)
def test_every_game_plays_the_same_again(game: str, tmp_path: Path) -> None:
    ez.record(ez.make_vec(game, num_envs=4), None, tmp_path / "plays", steps=60, seed=7)
    assert replay(EntityDataset(tmp_path / "plays"), ez.make_vec(game, num_envs=4)) is None


class Changed(ez.EntityVectorEnv):
    """Steps `venv`, but for one thing at one step."""

    def __init__(self, venv: ez.EntityVectorEnv, at: int, what: str) -> None:
        self.venv, self.num_envs, self.metadata = venv, venv.num_envs, venv.metadata
        self.single_observation_space = venv.single_observation_space
        self.single_action_space = venv.single_action_space
        self.at, self.what, self.steps = at, what, 0

    def reset(self, **kwargs: Any) -> Any:
        return self.venv.reset(**kwargs)

    def step(self, actions: Any) -> Any:
        batch, rewards, *rest = self.venv.step(actions)
        if self.steps == self.at and self.what == "reward":
            rewards = rewards + np.float32([0, 0, 0.5, 0])
        if self.steps == self.at and self.what == "entities":
            name = next(name for name, rows in batch.entities.items() if len(rows[1]))
            batch.entities[name].values[batch.entities[name].offsets[1], 0] += 1
        if self.steps >= self.at and self.what == "final" and "final_obs" in rest[-1]:
            for rows in rest[-1]["final_obs"].entities.values():
                rows.values[len(rows.values) - len(rows[-1]) :] += 1
        self.steps += 1
        return batch, rewards, *rest


@pytest.mark.parametrize(("what", "lane", "step"), [("reward", 2, 9), ("entities", 1, 10)])
def test_the_first_difference_is_found(what: str, lane: int, step: int, tmp_path: Path) -> None:
    ez.record(ez.make_vec("MultiSnake", num_envs=4), None, tmp_path / "plays", steps=20, seed=7)
    found = replay(EntityDataset(tmp_path / "plays"), Changed(ez.make_vec("MultiSnake", num_envs=4), 9, what))
    assert found is not None and what in found.what
    assert (found.lane, found.step) == (lane, step)


def test_a_different_last_observation_is_found(tmp_path: Path) -> None:
    venv = ez.make_vec("MineSweeper", num_envs=4)
    dataset = EntityDataset(ez.record(venv, None, tmp_path / "plays", steps=60, seed=7))
    steps = dataset.gather(np.arange(len(dataset)))
    played = np.cumsum(~steps.final) // 4  # steps of the environment, with the row's
    (row,) = np.flatnonzero(steps.final & (played > 9))[:1]
    behind = np.flatnonzero(steps.final & (played == played[row]))
    found = replay(dataset, Changed(venv, 9, "final"))
    assert found is not None and found.what.startswith("final/entities/")
    assert (found.step, found.lane) == (played[row], steps.lane[behind[-1]])
    assert found.episode == steps.episode[behind[-1]]


def test_a_recording_without_steps_does_not_differ(tmp_path: Path) -> None:
    with ez.datasets.Recorder(ez.make_vec("Count", num_envs=2), tmp_path / "plays", {"seed": 1}) as recorder:
        recorder.reset(seed=1)
    assert replay(EntityDataset(tmp_path / "plays"), ez.make_vec("Count", num_envs=2)) is None


def test_what_cannot_be_replayed_is_refused(tmp_path: Path) -> None:
    venv = ez.make_vec("MultiSnake", num_envs=4)
    ez.record(venv, None, tmp_path / "steps", steps=4)
    ez.record(venv, None, tmp_path / "episodes", episodes=4)
    with raises(DatasetError, "environment"):
        replay(EntityDataset(tmp_path / "steps"), ez.make_vec("MineSweeper", num_envs=4))
    with raises(DatasetError, 4, 2):
        replay(EntityDataset(tmp_path / "steps"), ez.make_vec("MultiSnake", num_envs=2))
    with raises(DatasetError, "steps=", "episodes="):
        replay(EntityDataset(tmp_path / "episodes"), venv)
    with ez.datasets.Recorder(venv, tmp_path / "unseeded") as recorder:
        recorder.reset()
    with raises(DatasetError, "seed"):
        replay(EntityDataset(tmp_path / "unseeded"), venv)


def test_numbers_may_differ_by_the_tolerance_whatever_their_size(tmp_path: Path) -> None:
    ez.record(ez.make_vec("MultiSnake", num_envs=4), None, tmp_path / "plays", steps=20, seed=7)
    dataset = EntityDataset(tmp_path / "plays")
    changed = [Changed(ez.make_vec("MultiSnake", num_envs=4), 9, "reward") for _ in range(2)]  # by 0.5
    assert replay(dataset, changed[0], tolerance=0.51) is None
    found = replay(dataset, changed[1], tolerance=0.49)
    assert found is not None and (found.what, found.lane, found.step) == ("reward", 2, 9)
