"""The published engines of Orbit Wars and Planet Wars, without the package around them."""

from __future__ import annotations

import importlib.util
import sys
from importlib.metadata import files
from types import ModuleType, SimpleNamespace
from typing import Any


def load_engine(name: str) -> ModuleType:
    """Return the module "orbit_wars" or "planet_wars" of the installed wheel."""
    wanted = f"kaggle_environments/envs/{name}/{name}.py"
    (path,) = [file.locate() for file in files("kaggle-environments") or [] if str(file) == wanted]
    package, utils = ModuleType("kaggle_environments"), ModuleType("kaggle_environments.utils")
    utils.resolve_episode_seed = lambda env: env.info["seed"]  # type: ignore[attr-defined]
    stubs = {"kaggle_environments": package, "kaggle_environments.utils": utils}
    before = {name: sys.modules.get(name) for name in stubs}
    sys.modules.update(stubs)
    try:
        spec = importlib.util.spec_from_file_location(f"published_{name}", str(path))
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        for name, old in before.items():
            if old is None:
                del sys.modules[name]
            else:
                sys.modules[name] = old
    return module


class PublishedGame:
    """One game, driven as `kaggle_environments.core` drives it.

    `configuration` and `players`: of the engine, and what a player's observation has from the start.
    """

    def __init__(
        self, engine: ModuleType, seed: int, players: list[dict[str, Any]], /, **configuration: Any
    ) -> None:
        self._engine = engine
        options = SimpleNamespace(**configuration)
        self._env = SimpleNamespace(configuration=options, info={"seed": seed}, done=False)
        self._states = [
            SimpleNamespace(
                observation=SimpleNamespace(step=0, **known), action=[], status="ACTIVE", reward=0
            )
            for known in players
        ]
        engine.interpreter(self._states, self._env)
        self._num_steps = 1

    def step(self, moves: list[list[list[float]]]) -> bool:
        """Play the moves of each player; return whether the game is over."""
        for state, action in zip(self._states, moves, strict=True):
            state.action = action
        self._engine.interpreter(self._states, self._env)
        self.shown.step = self._num_steps
        self._num_steps += 1
        return bool(self._states[0].status == "DONE")

    @property
    def shown(self) -> Any:
        return self._states[0].observation

    @property
    def rewards(self) -> list[int]:
        return [state.reward for state in self._states]

    def observation(self, player: int) -> dict[str, Any]:
        """What the competition hands to a player."""
        return {**vars(self.shown), "player": player}


ORBIT_WARS = load_engine("orbit_wars")
PLANET_WARS = load_engine("planet_wars")


def orbit_wars(seed: int, num_players: int) -> PublishedGame:
    """A game of Orbit Wars."""
    return PublishedGame(
        ORBIT_WARS, seed, [{}] * num_players, cometSpeed=4.0, shipSpeed=6.0, episodeSteps=500
    )


def planet_wars(seed: int, max_turns: int = 200) -> PublishedGame:
    """A game of Planet Wars."""
    players = [{"player": player} for player in (1, 2)]
    return PublishedGame(PLANET_WARS, seed, players, episodeSteps=max_turns, seed=seed, map="random")
