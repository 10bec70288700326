"""`ParallelGame`: a running game whose agents act at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...envs.returned import LARGEST_REWARD, tuple_words
from .game import FinalObserver, FinalStep, GameStep, PettingZooGame
from .game_view import ArrayStep

_DICTS = (dict,) * 5


class ParallelGame(PettingZooGame):
    """A game of PettingZoo's `ParallelEnv`: all agents in play act at once.

    Attributes:
        array_step: steps the game with arrays, for `step_arrays`; None: it has `step` only.
    """

    is_simultaneous = True
    array_step: ArrayStep | None = None
    _observations: Mapping[str, Any]
    _infos: Mapping[str, Any]

    def _begin(self, seed: int | None, options: dict[str, Any] | None) -> None:
        result = self.env.reset(seed=seed, options=options)
        if not isinstance(result, tuple) or len(result) != 2:
            self.fail(f"reset: expected 2 dicts by agent (observations, infos), got {tuple_words(result)}")
        self._observations, self._infos = result
        self._check_dicts("reset", observations=self._observations, infos=self._infos)
        self._go_on([])

    def step(self, actions: dict[str, Any], observe_final: FinalObserver) -> GameStep:
        self.doing = "step"
        result = self.env.step(actions)
        if not isinstance(result, tuple) or len(result) != 5:
            self.fail(f"step: expected 5 dicts by agent, got {tuple_words(result)}")
        observations, rewards, terminations, truncations, infos = result
        kinds = type(observations), type(rewards), type(terminations), type(truncations), type(infos)
        if kinds != _DICTS:
            self._check_dicts(
                "step",
                observations=observations,
                rewards=rewards,
                terminations=terminations,
                truncations=truncations,
                infos=infos,
            )
        self._observations, self._infos = observations, infos
        outcome, before = GameStep(), self.agents
        outcome.rewards = self._rewards(before, rewards)
        if not any(terminations.values()) and not any(truncations.values()):
            agents = list(self.env.agents)
            if agents == before and self._observations.keys() == outcome.rewards.keys():
                self.acting = tuple(agents)  # no agent joined or left
                return outcome
        staying = set(self.env.agents)
        for agent in before:
            terminated, truncated = bool(terminations.get(agent)), bool(truncations.get(agent))
            if terminated or truncated:
                self._end(agent, terminated, truncated, outcome, observe_final)
            elif agent not in staying:
                self.fail(f"agent {agent!r} left without having been terminated or truncated")
        self._go_on(before)
        return outcome

    def step_arrays(
        self, actions: NDArray[np.int64], observe_final: FinalObserver
    ) -> tuple[NDArray[np.float64], dict[int, FinalStep]]:
        """Step as `step` does, by `array_step`. The agents then have no observations of the game's own.

        Args:
            actions: of all possible agents (A,); those of agents that are not in play are ignored.

        Returns:
            rewards (A,), 0 for agents that are not in play; the last steps of agents that ended, by place in
            `possible_agents`.
        """
        assert self.array_step is not None
        self.doing = "step"
        result = self.array_step(actions)
        self._observations, self._infos = {}, result.infos
        if not np.abs(result.rewards).max(initial=0.0) <= LARGEST_REWARD:
            self._rewards(self.agents, dict(zip(self.possible_agents, result.rewards.tolist(), strict=True)))
        outcome, ended = GameStep(), np.flatnonzero(result.terminated | result.truncated)
        for number in ended.tolist():
            flags = bool(result.terminated[number]), bool(result.truncated[number])
            self._end(self.possible_agents[number], *flags, outcome, observe_final)
        if len(ended):
            self.agents = list(self.env.agents)
            self.acting = tuple(self.agents)
        return result.rewards, dict(zip(ended.tolist(), outcome.ended.values(), strict=True))

    def _go_on(self, before: Iterable[str]) -> None:
        self.agents = list(self.env.agents)
        self._check_agents(self.agents)
        self.acting = tuple(self.agents)
        for agent in self.agents:
            if agent not in self._observations:
                self.fail(
                    f"no observation of agent {agent!r}: expected an observation of every agent in play"
                )
        for agent in self._observations.keys() - set(self.agents) - set(before):
            self.fail(f"observations: expected only agents in play, got an observation of agent {agent!r}")

    def _check_dicts(self, call: str, **parts: Any) -> None:
        """Check what `call` returned for all agents."""
        for name, part in parts.items():
            if not isinstance(part, Mapping):
                self.fail(f"{call}: expected {name} as a dict by agent, got {part!r}")

    def observation(self, agent: str) -> Any:
        return self._observations.get(agent)

    def info(self, agent: str) -> dict[str, Any]:
        return self._own_info(agent, self._infos)

    @property
    def has_infos(self) -> bool:
        return any(self._infos.values())
