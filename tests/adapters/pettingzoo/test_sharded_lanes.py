"""PettingZoo games in worker processes, against the same games in this one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import entitize as ez
import numpy as np
import pettingzoo
import pytest
from entitize.adapters.pettingzoo.sharded_lanes import ShardedGameLanes
from gymnasium import spaces
from mpe2 import simple_tag_v3

from facts import raises

TAG = partial(simple_tag_v3.parallel_env, max_cycles=9)
GAMES: dict[str, Callable[[], Any]] = {
    "in parallel": TAG,
    "in turns": partial(pettingzoo.make, "aec", "classic/tictactoe-v3"),
}


class Fragile(pettingzoo.ParallelEnv):
    """Two agents; a game with seed 7 raises at its second step."""

    metadata = {"name": "fragile"}  # noqa: RUF012 - PettingZoo declares no ClassVar

    def __init__(self) -> None:
        self.possible_agents = ["left_0", "right_0"]
        self.agents: list[str] = []

    def observation_space(self, agent: str) -> Any:
        return spaces.Box(-1, 1, (2,), np.float32)

    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(2)

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.seed, self.steps, self.agents = seed, 0, list(self.possible_agents)
        return self.seen(), {agent: {} for agent in self.agents}

    def step(self, actions: dict[str, Any]) -> Any:
        self.steps += 1
        if self.steps == 2 and self.seed == 7:
            raise RuntimeError("the game broke")
        return self.seen(), *(dict.fromkeys(self.agents, value) for value in (1.0, False, False, {}))

    def seen(self) -> dict[str, Any]:
        return {agent: np.zeros(2, np.float32) for agent in self.agents}

    def close(self) -> None:
        pass


def assert_same_play(one: ez.EntityVectorEnv, other: ez.EntityVectorEnv, steps: int) -> None:
    """Play the same actions in both, from the same seed."""
    one.action_space.seed(1)
    (batch, info), (its, its_info) = one.reset(seed=5), other.reset(seed=5)
    for _ in range(steps):
        assert batch.equals(its) and info.keys() == its_info.keys()
        np.testing.assert_array_equal(info.get("inactive"), its_info.get("inactive"))
        actions = one.action_space.sample(mask=batch)
        batch, *results, info = one.step(actions)
        its, *its_results, its_info = other.step(actions)
        for mine, theirs in zip(results, its_results, strict=True):
            np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("name", GAMES)
def test_lanes_in_workers_are_those_of_one_process(name: str) -> None:
    with (
        ez.from_pettingzoo(GAMES[name], num_envs=5) as here,
        ez.make_vec(GAMES[name], num_envs=5, num_workers=2) as there,
    ):
        assert isinstance(there, ShardedGameLanes)
        assert there.agents == here.agents and there.lane_names == here.lane_names
        np.testing.assert_array_equal(there.lane_games, here.lane_games)
        assert_same_play(here, there, 25)
        with raises(ValueError, "seed", -1):
            there.reset(seed=-1)
        there.reset(seed=5)
        with raises(ez.ActionError, there.agents[0][1], "'action'"):
            there.step({})


def test_a_team_in_workers_is_that_of_one_process() -> None:
    make = partial(ez.from_pettingzoo, TAG, "team", team="adversary", opponents=still, num_envs=3)
    with make() as here, make(num_workers=2) as there:
        assert_same_play(here, there, 25)


def still(observation: Any, mask: Any, agent: str) -> int:
    """Choose not to move."""
    return 0


def test_opponents_in_workers_are_seeded_and_matches_are_played() -> None:
    make = partial(pettingzoo.make, "aec", "classic/connect_four-v3")
    with ez.from_pettingzoo(make, opponents={"player_0": "random"}, num_envs=4, num_workers=2) as venv:
        actor = ez.evaluation.RandomActor(venv.single_action_space)
        first, second = (ez.evaluate(actor, venv, 12, seed=2) for _ in range(2))
        np.testing.assert_array_equal(first.returns, second.returns)
    with ez.make_vec(make, 4, num_workers=2) as venv:
        results = ez.self_play.play_matches({"one": actor, "other": actor}, venv, games_per_pair=20)
        assert results.games.tolist() == [[0, 20], [20, 0]]


def test_a_game_that_raises_is_named_with_its_lanes() -> None:
    venv = ez.make_vec(Fragile, 4, num_workers=2)
    venv.step(venv.action_space.sample(mask=venv.reset(seed=4)[0]))
    with raises(ez.WorkerError, "game 3", "fragile", "the game broke") as caught:
        venv.step(venv.action_space.sample())
    assert caught.value.env_indices == (6, 7)


def test_what_cannot_be_shared_is_refused_before_workers_start() -> None:
    lock = threading.Lock()

    def locked() -> Any:
        assert not lock.locked()
        return TAG()

    with raises(TypeError, "game 0", "num_workers", "function"):
        ez.from_pettingzoo(TAG(), num_workers=1)  # type: ignore[call-overload]
    with raises(ValueError, "num_workers", 2, 3):
        ez.make_vec(TAG, 2, num_workers=3)
    with raises(ValueError, "simple_tag_v3", "wolf"):
        ez.from_pettingzoo(TAG, opponents={"wolf": "random"}, num_envs=2, num_workers=2)
    with raises(TypeError, "game 0", "pickle"):
        ez.from_pettingzoo(locked, num_envs=2, num_workers=2)
