"""Kinds of agents, as their names tell them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import entitize as ez
import numpy as np
import pytest
from gymnasium import spaces
from pettingzoo import ParallelEnv


class Drones(ParallelEnv[str, Any, Any]):
    """Agents with these names that stand still; those whose name begins with "base" observe more."""

    metadata = {"name": "drones_v0", "render_modes": []}  # noqa: RUF012 - PettingZoo's form
    render_mode = None

    def __init__(self, names: Sequence[str]) -> None:
        self.possible_agents = list(names)
        self.agents: list[str] = []

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        return spaces.Box(-9, 9, (5 if agent.startswith("base") else 3,), np.float32)

    def action_space(self, agent: str) -> spaces.Space[Any]:
        return spaces.Discrete(2)

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.agents = list(self.possible_agents)
        return {a: np.zeros(self.observation_space(a).shape, np.float32) for a in self.agents}, {}


@pytest.mark.parametrize("between", ["_", ""])
def test_the_kind_is_the_name_without_its_number(between: str) -> None:
    drones = [f"drone{between}{i}" for i in range(11)]
    base = f"base{between}0"
    with ez.from_pettingzoo(Drones([*drones, base])) as venv:
        assert list(venv.single_observation_space.entities) == ["drone", "base"]
    team = ez.from_pettingzoo(Drones([*drones, base]), "team")
    assert list(team.observation_space.entities) == ["drone", "base"]
    team = ez.from_pettingzoo(Drones([*drones, base]), "team", team="drone", opponents="random")
    team.reset(seed=1)
    assert team.agents == drones
    with ez.from_pettingzoo(Drones([*drones, base]), opponents={"drone": "random"}) as venv:
        assert venv.agents == [(0, base)]
    views = {
        "drone": ez.views.Vector(name="Drone"),
        drones[0]: ez.views.Vector(name="Leader"),
        "base": ez.views.Vector(name="Base"),
    }
    with ez.from_pettingzoo(Drones([*drones, base]), view=views) as venv:
        assert set(venv.single_observation_space.entities) == {"Leader", "Drone", "Base"}
    mixed = {"drone": ez.views.Vector(name="Drone"), "base": ez.views.auto}
    with ez.from_pettingzoo(Drones([*drones, base]), view=mixed) as venv:
        assert {name: len(names) for name, names in venv.single_observation_space.entities.items()} == {
            "Drone": 3,
            "base": 5,
        }


def test_agents_that_have_only_a_number_keep_their_names() -> None:
    with ez.from_pettingzoo(Drones(["0", "1", "base"])) as venv:
        assert list(venv.single_observation_space.entities) == ["0_1", "base"]
