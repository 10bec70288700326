"""Environments and modules of other packages that several test files use."""

from __future__ import annotations

import importlib
import warnings
from types import ModuleType
from typing import Any

import gymnasium
import pytest


def entity_gym_module(module: str) -> ModuleType:
    """A module of the entity_gym package, whose import warns of its age."""
    pytest.importorskip("ragged_buffer", reason="entity_gym needs it, and no build is for Python 3.12")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module(f"entity_gym.{module}")


def make(env_id: str, **options: Any) -> gymnasium.Env:
    """An environment of any of the packages, registered on first use."""
    if env_id.startswith("MiniGrid"):
        import minigrid

        gymnasium.register_envs(minigrid)
    elif env_id.startswith(("highway", "racetrack", "parking")):
        import highway_env

        gymnasium.register_envs(highway_env)
    elif env_id.startswith("ALE"):
        import ale_py

        gymnasium.register_envs(ale_py)
    elif env_id.startswith("MinAtar") and env_id not in gymnasium.registry:
        from minatar.gym import register_envs

        register_envs()
    return gymnasium.make(env_id, **options)


#: Ids that `wrap` needs no view for, with their options.
REAL: dict[str, dict[str, Any]] = {
    "CartPole-v1": {},
    "Pendulum-v1": {},
    "LunarLander-v3": {},
    "MiniGrid-DoorKey-5x5-v0": {},
    "MiniGrid-GoToDoor-5x5-v0": {},
    "MinAtar/Breakout-v1": {},
    "highway-fast-v0": {"config": {"vehicles_count": 4, "simulation_frequency": 5}},
    "Taxi-v4": {},
    "Blackjack-v1": {},
    "FrozenLake-v1": {},
    "ALE/Breakout-v5": {"obs_type": "ram"},
}


#: Steps to play where a step takes milliseconds.
SLOW = {"highway-fast-v0": 2, "ALE/Breakout-v5": 4}
