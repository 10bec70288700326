"""Known games through their own views, and games of entities, by `from_pettingzoo` without a view."""

from __future__ import annotations

from functools import partial
from typing import Any

import entitize as ez
import numpy as np
import pettingzoo
import pytest
from entitize.envs import sample_actions


def test_the_dead_leave_the_field_of_a_known_game() -> None:
    """KAZ, with deaths: who is alive acts through an entity of its own, lanes and team agree about who is."""
    options = {"spawn_delay": 4, "line_death": True}
    make = partial(pettingzoo.make, "parallel", "butterfly/knights_archers_zombies-v11", **options)
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
    make = partial(pettingzoo.make, "aec", "classic/connect_four-v3")
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
