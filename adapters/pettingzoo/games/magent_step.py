"""`MagentStep`: a step of a MAgent2 game with arrays, without its observations.

Shape alphabet: A possible agents.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..game_view import ArrayResult

_MODULE = "magent2.environments.magent_env"
#: The methods that make up a step.
_PARTS = frozenset({"step", "_compute_observations", "_compute_rewards", "_compute_terminates"})


class MagentStep:
    """Steps a game as `magent_parallel_env.step` does, but without its observations and dicts.

    Args:
        game: an unwrapped game for which `fits` is True.
    """

    def __init__(self, game: Any) -> None:
        self._game = game
        self._agents: list[str] = []  # the game's own list, after the last call or the first after a reset
        self._playing: NDArray[np.bool_] = np.zeros(0, bool)  # (A,) those of them among the possible agents
        self._places: list[NDArray[np.int32]] = []  # by group, of the engine's agents in possible_agents

    @staticmethod
    def fits(game: Any) -> bool:
        """Return True if the game's step is MAgent2's own, and draws nothing on a screen."""
        if not _PARTS.isdisjoint(vars(game)) or game.render_mode == "human":
            return False
        return all(getattr(type(game), name).__module__ == _MODULE for name in _PARTS)

    @property
    def is_last(self) -> bool:
        """True if the game has been neither reset nor stepped in another way since the last call.

        Its own `reset` and `step` make a new list of agents.
        """
        return self._game.agents is self._agents

    def __call__(self, actions: NDArray[np.int64]) -> ArrayResult:
        """Step the game with the actions of all possible agents (A,)."""
        game, engine, everyone = self._game, self._game.env, self._game.possible_agents
        if not self.is_last:
            playing = set(game.agents)
            self._playing = np.array([agent in playing for agent in everyone])
            self._places = [engine.get_agent_id(handle) for handle in game.handles]
        chosen, start = actions[self._playing].astype(np.int32), 0
        for handle, size in zip(game.handles, game.team_sizes, strict=True):
            engine.set_action(handle, chosen[start : start + size])
            start += size
        game.frames += 1
        is_over = engine.step()

        rewards, ended = np.zeros(len(everyone)), np.ones(len(everyone), bool)
        for group, handle in enumerate(game.handles):
            places = self._places[group]
            rewards[places] = engine.get_reward(handle)
            if not is_over:
                ended[places] = dead = ~engine.get_alive(handle)
                game.team_sizes[group] = len(places) - dead.sum()
                self._places[group] = places[~dead]
        engine.clear_dead()

        terminated = self._playing & ended
        truncated = self._playing & (game.frames >= game.max_cycles)
        if (over := terminated | truncated).any():
            self._playing = self._playing & ~over
            game.agents = [everyone[place] for place in np.flatnonzero(self._playing)]
        self._agents = game.agents
        return ArrayResult(rewards, terminated, truncated, {})
