"""`RandomOpponents`: lanes of the first players, against players that draw their choices."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...envs import EntityBatch
from ...envs.seeds import Seeds, lane_generators, lane_seeds
from ...envs.vector.vector_env import StepResult
from ...envs.vector.wrapper import EntityVectorWrapper
from ...ragged import RaggedArray
from .choices import ACTION
from .vector_env import GriddlyVectorEnv


class RandomOpponents(EntityVectorWrapper):
    """Games of several players of which the first is a lane; the others draw among their allowed choices.

    Args:
        venv: the games, with a lane for each player; it is closed with this one.

    Attributes:
        rules, games: those of `venv`.
    """

    def __init__(self, venv: GriddlyVectorEnv) -> None:
        super().__init__(venv)
        self.rules, self.games = venv.rules, venv.games
        self.num_envs, self.lane_games = len(venv.games), None
        self._first_seed = venv._first_seed
        self._own = np.arange(0, venv.num_envs, venv.rules.num_players)
        self._generators: list[np.random.Generator] = []
        self._all: EntityBatch | None = None  # what all players observe

    def _seeds(self, seed: Seeds) -> list[int | None]:
        return lane_seeds(seed, self.num_envs)

    def _reset(
        self, seeds: list[int | None], options: dict[str, Any] | None
    ) -> tuple[EntityBatch, dict[str, Any]]:
        own = [None if seed is None else [seed, 1] for seed in seeds]  # not the numbers of the game itself
        self._generators = lane_generators(own, self._generators)
        players = [seed for seed in seeds for _ in range(self.rules.num_players)]
        self._all, info = self.venv.reset(seed=players, options=options)
        return self._all.gather(self._own), self._infos(info)

    def _step(self, actions: dict[str, RaggedArray]) -> StepResult:
        choices = self._choices(actions.get(ACTION))
        self._all, rewards, terminated, truncated, info = self.venv.step_validated({ACTION: choices})
        own = self._own
        return self._all.gather(own), rewards[own], terminated[own], truncated[own], self._infos(info)

    def _choices(self, given: RaggedArray | None) -> RaggedArray:
        """Return the choices of all players: those that are given for the first ones, and drawn ones."""
        assert self._all is not None
        part = self._all.actions[ACTION]
        offsets, mask = part.actors.offsets, part.mask.values
        choices = np.zeros(len(mask), np.int64)  # nop
        for lane, generator in enumerate(self._generators):
            first = self._own[lane]
            start, stop = offsets[first + 1], offsets[first + self.rules.num_players]
            choices[start:stop] = (generator.random((stop - start, mask.shape[1])) * mask[start:stop]).argmax(
                1
            )
            if given is not None and len(given[lane]):
                choices[offsets[first] : start] = given[lane]
        return RaggedArray.unchecked(choices, offsets)

    def _infos(self, info: dict[str, Any]) -> dict[str, Any]:
        """Return what `info` says of the lanes."""
        found = {name: values[self._own] for name, values in info.items() if name != "final_obs"}
        if "final_obs" in info:
            ended = np.flatnonzero(info["_final_obs"])
            found["final_obs"] = info["final_obs"].gather(np.flatnonzero(np.isin(ended, self._own)))
        return found

    def _render(self) -> tuple[NDArray[np.uint8], ...]:
        frames = self.venv.render()
        assert frames is not None
        return frames[:: self.rules.num_players]
