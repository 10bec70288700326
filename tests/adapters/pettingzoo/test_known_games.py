"""Known games through their own views, and games of entities, by `from_pettingzoo` without a view."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import entitize as ez
import numpy as np
import pettingzoo
import pytest
from entitize.envs import sample_actions
from magent2.environments import battle_v4
from mpe2 import simple_crypto_v3, simple_tag_v3, simple_world_comm_v3

PARALLEL = partial(partial, pettingzoo.make, "parallel")
TURNS = partial(partial, pettingzoo.make, "aec")
KAZ = "butterfly/knights_archers_zombies-v11"
#: When zombies appear carries over from one game to the next: without them KAZ can repeat a game.
PEACE = {"spawn_delay": 10_000, "max_cycles": 8}

GAMES: dict[str, Callable[[], Any]] = {
    "battle": partial(battle_v4.parallel_env, map_size=12, max_cycles=9),
    "chess": TURNS("classic/chess-v6"),
    "connect_four": TURNS("classic/connect_four-v3"),
    "crypto": partial(simple_crypto_v3.parallel_env, max_cycles=5),
    "knights_archers_zombies": PARALLEL(KAZ, **PEACE),
    "knights_archers_zombies_in_turns": TURNS(KAZ, **PEACE),
    "pursuit": PARALLEL("sisl/pursuit-v5", max_cycles=4, n_pursuers=3),
    "tag_continuous": partial(simple_tag_v3.parallel_env, max_cycles=5, continuous_actions=True),
    "tag_in_turns": partial(simple_tag_v3.env, max_cycles=3),
    "world_comm": partial(simple_world_comm_v3.parallel_env, max_cycles=5),
}


@pytest.mark.parametrize("mode", ["lanes", "team"])
@pytest.mark.parametrize("name", GAMES)
def test_known_games_keep_the_rules_in_both_modes(name: str, mode: Any) -> None:
    env = ez.from_pettingzoo(GAMES[name](), mode)
    ez.check_entity_env(env, num_steps=14)
    env.close()


def test_the_dead_leave_the_field_of_a_known_game() -> None:
    """KAZ, with deaths: who is alive acts through an entity of its own, lanes and team agree about who is."""
    make = PARALLEL(KAZ, spawn_delay=4, line_death=True)
    venv, env = ez.from_pettingzoo(make()), ez.from_pettingzoo(make(), "team")
    batch, info = venv.reset(seed=2)
    seen, _ = env.reset(seed=2)
    rng = np.random.default_rng(3)
    counts = set()
    for _ in range(200):
        living = [agent for lane, (_, agent) in enumerate(venv.agents) if not info["inactive"][lane]]
        assert env.agents == living
        acting = seen["actions"]["action"]["actors"]
        assert len(acting) == len(living) == len(seen["entities"]["Archer"]) + len(seen["entities"]["Knight"])
        counts.add(len(living))
        orders = sample_actions(venv.single_action_space, batch, rng)
        by_agent = dict(zip(living, orders["action"].values, strict=True))
        seen, reward, over, _, _ = env.step({"action": [by_agent[agent] for agent in living]})
        batch, rewards, *_, info = venv.step(orders)
        assert reward == pytest.approx(float(rewards.sum()))
        if over:
            break
    assert over and counts >= {4, 3, 2, 1}
    venv.close()
    env.close()


def test_a_game_seen_by_its_own_view_can_be_seen_through_its_spaces() -> None:
    make = GAMES["connect_four"]
    assert list(ez.from_pettingzoo(make()).single_observation_space.entities) == ["Mark"]
    plain = ez.from_pettingzoo(make(), view=ez.views.auto).single_observation_space
    assert list(plain.entities) == ["observation/Channel0", "observation/Channel1"]


@pytest.mark.parametrize("api", ["parallel", "aec"])
def test_snakes_are_lanes(api: Any) -> None:
    venv = ez.from_pettingzoo(
        lambda: ez.to_pettingzoo(ez.games.MultiSnakeAgents(num_snakes=3), api), num_envs=2
    )
    assert venv.agents[:3] == [(0, "snake_0"), (0, "snake_1"), (0, "snake_2")]
    ez.check_entity_env(venv, num_steps=30)
    venv.close()
