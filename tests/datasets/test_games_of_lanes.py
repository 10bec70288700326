"""`EntityDataset.games`: episodes that lanes play in one game are one, as the number that each game shows."""

from __future__ import annotations

import json
from enum import Enum
from itertools import count
from pathlib import Path
from typing import Any

import entitize as ez
import numpy as np
import pytest
from entitize.datasets import DatasetError, EntityDataset
from entitize.trainers.cloning import Demonstrations

from facts import raises

SERIALS = count()


@ez.entity
class Racer:
    serial: float  # of the game: which no other game has
    left: float  # steps until it is out


class Pace(Enum):
    WALK = 1
    RUN = 2


class Race(ez.EntityGame):
    """Racers drop out at different times, and the slowest ends the game."""

    def __init__(self) -> None:
        self.possible_agents = ["racer_0", "racer_1", "racer_2"]
        self.spaces = ez.declare(entities=[Racer], actions={"pace": Pace})

    def _reset(self, options: Any) -> Any:
        self.serial = next(SERIALS)
        self.left = {agent: int(self.np_random.integers(1, 9)) for agent in self.possible_agents}
        return self.look()

    def _step(self, actions: Any) -> Any:
        playing = [agent for agent, left in self.left.items() if left > 0]
        for agent, chosen in actions.items():
            self.left[agent] -= Pace[chosen["pace"].labels[0]].value
        ended = {agent: self.left[agent] <= 0 for agent in playing}
        seen = {agent: one for agent, one in self.look().items() if agent in playing}
        return seen, dict.fromkeys(playing, 1.0), ended, False, {}

    def look(self) -> dict[str, Any]:
        seen = {}
        for agent, left in self.left.items():
            me = Racer(self.serial, max(left, 0))
            seen[agent] = ez.Obs(me, actions={"pace": ez.actions.CategoricalMask(actor_ids=[me])})
        return seen


def shown(dataset: EntityDataset, rows: Any) -> Any:
    """Return the serial that each of `rows` shows."""
    return dataset.gather(rows).observations.entities["Racer"].values[:, 0].astype(int)


@pytest.mark.parametrize("how", [{"steps": 60}, {"episodes": 40}])
def test_lanes_of_a_game_are_held_out_together(tmp_path: Path, how: dict[str, int]) -> None:
    folders = []
    for seed in (1, 2):
        with ez.make_vec(Race, num_envs=6) as venv:
            folders.append(ez.record(venv, None, tmp_path / str(seed), seed=seed, **how))
    dataset = EntityDataset(*folders)
    rows = dataset.decisions
    games, serials = dataset.games[rows], shown(dataset, rows)
    assert len(set(games)) == len(set(serials)) == len({*zip(games, serials, strict=True)}) > 10
    assert len(set(dataset.column("episode")[rows])) > 2 * len(set(games))

    parts = Demonstrations(dataset, held_out=0.25, seed=3)
    ours, theirs = (set(shown(dataset, part)) for part in (parts.learned, parts.held_out))
    assert not ours & theirs and len(theirs) == round(0.25 * len(set(serials)))


def test_lanes_that_play_alone_are_games(tmp_path: Path) -> None:
    with ez.make_vec("Count", num_envs=3) as venv:
        dataset = EntityDataset(ez.record(venv, None, tmp_path / "plays", steps=5))
    assert np.array_equal(dataset.games, dataset.column("episode"))


def test_games_of_lanes_that_are_not_there_are_an_error(tmp_path: Path) -> None:
    with ez.make_vec(Race, num_envs=3) as venv:
        with raises(ValueError, "'lane_games'"):
            ez.record(venv, None, tmp_path / "named", steps=5, metadata={"lane_games": [0]})
        venv.lane_games = np.zeros(2, np.int64)
        path = ez.record(venv, None, tmp_path / "plays", steps=5)
    assert json.loads((path / "dataset.json").read_text())["lane_games"] == [0, 0]
    with raises(DatasetError, "lane_games", "[0, 0]"):
        EntityDataset(path)
