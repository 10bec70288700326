"""The published engine of Planet Wars, and a game of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from published_orbit_wars import load_engine

ENGINE = load_engine("planet_wars")


class PublishedGame:
    """One game, driven as `kaggle_environments.core` drives it."""

    def __init__(self, seed: int, max_turns: int = 200) -> None:
        configuration = SimpleNamespace(episodeSteps=max_turns, seed=seed, map="random")
        self._env = SimpleNamespace(configuration=configuration, info={"seed": seed}, done=False)
        self._states = [
            SimpleNamespace(
                observation=SimpleNamespace(step=0, player=player), action=[], status="ACTIVE", reward=0
            )
            for player in (1, 2)
        ]
        ENGINE.interpreter(self._states, self._env)
        self._num_steps = 1

    def step(self, orders: list[list[list[int]]]) -> bool:
        """Carry out the orders of each player; return whether the game is over."""
        for state, action in zip(self._states, orders, strict=True):
            state.action = action
        ENGINE.interpreter(self._states, self._env)
        self.shown.step = self._num_steps
        self._num_steps += 1
        return bool(self._states[0].status == "DONE")

    @property
    def shown(self) -> Any:
        return self._states[0].observation

    @property
    def rewards(self) -> list[int]:
        return [state.reward for state in self._states]
