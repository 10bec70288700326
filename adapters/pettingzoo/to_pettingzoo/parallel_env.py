"""`EntityParallelEnv`: a `MultiAgentEnv` as a PettingZoo `ParallelEnv`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn

from gymnasium import spaces

from ....envs import ActionError, MultiAgentEnv, ObservationError
from ....envs.actions.array_checks import real_number
from ....envs.errors import reset_needed
from ....envs.returned import tuple_words
from ..agent_names import repeated
from .agent_interface import AgentInterface, AgentPlaceholderEnv

try:
    from pettingzoo import ParallelEnv
    from pettingzoo.utils.conversions import parallel_to_aec_wrapper as parallel_to_aec_wrapper
except ModuleNotFoundError as missing:
    raise ImportError(
        "to_pettingzoo: PettingZoo is not installed: pip install 'entitize[pettingzoo]'"
    ) from missing

#: The result of a PettingZoo step: observations, rewards, terminations, truncations, infos by agent.
Step = tuple[dict[str, Any], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]

_PARTS = ("observation", "reward", "termination", "truncation", "info")


class EntityParallelEnv(ParallelEnv[str, Any, Any]):
    """A `MultiAgentEnv` behind PettingZoo's parallel interface; made by `to_pettingzoo`.

    Every agent in play needs an action if its observation has actors. One that `step`'s actions leave out, or
    whose action is None, leaves out all its actions: an `ActionError` that names the agent and the action,
    unless its action space declares a no-op (see `EntityActionSpace`).

    Attributes:
        game: the `MultiAgentEnv`.
        max_cycles: number of steps after which all agents are truncated; None: no limit.
    """

    def __init__(
        self, game: MultiAgentEnv, interfaces: dict[str, AgentInterface], max_cycles: int | None = None
    ) -> None:
        self.game = game
        self.max_cycles = max_cycles
        self.metadata = {"name": type(game).__name__, "render_modes": [], **game.metadata}
        self.metadata["is_parallelizable"] = True
        self.render_mode = game.render_mode
        self.possible_agents: list[str] = list(game.possible_agents)
        self.agents: list[str] = []
        self._interfaces = interfaces
        self._cycle = 0
        self._is_over = False  # the episode has ended and was not broken off

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """Return the observation space of `agent`; the same object at every call."""
        return self._interface(agent).observation_space

    def action_space(self, agent: str) -> spaces.Space[Any]:
        """Return the action space of `agent`; the same object at every call."""
        return self._interface(agent).action_space

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """Start an episode.

        Raises:
            ObservationError: the game breaks a rule of `MultiAgentEnv`; the message names rule and agent.
        """
        self.agents, self._cycle, self._is_over = [], 0, False
        result = self.game.reset(seed=seed, options=options)
        agents = self._living(self.possible_agents)
        seen, infos = self._parts("reset", agents, result, ("observation", "info"))
        observations, all_infos = {}, {}
        for agent in agents:
            with self._named(agent):
                observations[agent], more = self._interfaces[agent].start(seen[agent], seed)
            all_infos[agent] = {**infos[agent], **more}
        self.agents = agents
        return observations, all_infos

    def step(self, actions: Mapping[str, Any]) -> Step:
        """Step with the agents' actions.

        Without actions a finished game returns empty dicts, as PettingZoo's own games do: SuperSuit steps
        once more when the last agent has ended.

        Raises:
            ActionError: an unknown or ended agent, or an invalid or masked action; the game has not moved.
            ObservationError: the game breaks a rule of `MultiAgentEnv`; reset before the next step.
            gymnasium.error.ResetNeeded: before the first reset, or when no agent is left.
        """
        if self._is_over and isinstance(actions, Mapping) and not actions:
            return {}, {}, {}, {}, {}
        entity_actions, action_infos = self._entity_actions(actions)
        acted, self.agents = self.agents, []  # a game that raises is left in need of a reset
        try:
            result = self.game.step(entity_actions)
        except ActionError:
            self.agents = acted
            raise
        except Exception as error:
            error.add_note(f"raised by {self} in step, behind to_pettingzoo")
            raise
        seen, rewards, terminations, truncations, infos = self._parts("step", acted, result, _PARTS)
        self._cycle += 1
        living = self._living(acted)
        rewards = {agent: self._reward(agent, rewards[agent]) for agent in acted}
        self._check_ends(living, terminations, truncations)
        over = self.max_cycles is not None and self._cycle >= self.max_cycles
        observations, all_infos = {}, {}
        for agent in acted:
            with self._named(agent):
                observations[agent], more = self._interfaces[agent].convert(seen[agent])
            all_infos[agent] = {**infos[agent], **more, **action_infos.get(agent, {})}
        self.agents = [] if over else living
        self._is_over = not self.agents
        return (
            observations,
            rewards,
            {agent: bool(terminations[agent]) for agent in acted},
            {agent: bool(truncations[agent]) or (over and agent in living) for agent in acted},
            all_infos,
        )

    def check(self, agent: str, action: Any) -> None:
        """Raise an `ActionError` if `action` is invalid or masked for `agent` now, or None but needed."""
        with self._named(agent):
            self._interfaces[agent].check(action)

    def set_progress(self, fraction: float) -> None:
        """Pass the progress of training on to the game."""
        self.game.set_progress(fraction)

    def render(self) -> Any:
        """Return the game's frame."""
        return self.game.render()

    def close(self) -> None:
        """Close the game."""
        self.game.close()

    def _entity_actions(self, actions: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """Return the agents' entity actions, and infos about them, by agent."""
        if not self.agents:
            raise reset_needed(f"{self}: no agent is alive", "step()")
        if not isinstance(actions, Mapping):
            raise ActionError(f"{self}: actions: expected a dict by agent, got {type(actions).__name__}")
        converted: dict[str, Any] = {}
        infos: dict[str, dict[str, Any]] = {}
        for agent, action in actions.items():
            if agent not in self.agents:
                self._interface(agent)
                raise ActionError(
                    f"{self}: agent {agent!r} has ended: expected actions of the agents in play"
                    f" ({', '.join(self.agents)}), got one of {agent!r}"
                )
            if action is not None:
                with self._named(agent):
                    converted[agent], infos[agent] = self._interfaces[agent].entity_actions(action)
        for agent in self.agents:
            if agent not in converted:
                self.check(agent, None)
        return converted, infos

    def _interface(self, agent: str) -> AgentInterface:
        try:
            return self._interfaces[agent]
        except (KeyError, TypeError):
            raise ActionError(
                f"{self}: unknown agent {agent!r}: expected one of {', '.join(self.possible_agents)}"
            ) from None

    @contextmanager
    def _named(self, agent: str) -> Iterator[None]:
        """Name the agent in errors about its observation or action."""
        try:
            yield
        except (ActionError, ObservationError) as error:
            sentence = str(error).removeprefix(f"{AgentPlaceholderEnv.__name__}: ")
            raise type(error)(f"{self}: agent {agent!r}: {sentence}") from None

    def _living(self, before: list[str]) -> list[str]:
        """Return the game's agents; each must occur once and have been in play before."""
        agents = list(self.game.agents)
        twice = repeated(agents)
        if twice is not None:
            self._break(f"agent {twice!r} appears twice in agents: expected distinct agents, got {agents}")
        for agent in agents:
            if agent not in before:
                self._break(f"agents: expected a subset of {', '.join(before)}, got agent {agent!r}")
        return agents

    def _check_ends(
        self, living: list[str], terminations: Mapping[str, Any], truncations: Mapping[str, Any]
    ) -> None:
        """Refuse agents that end without leaving or leave without an end."""
        for agent in terminations:
            ended = terminations[agent] or truncations[agent]
            if ended and agent in living:
                self._break(f"agent {agent!r} is in agents after its end: expected it absent")
            if not ended and agent not in living:
                self._break(
                    f"agent {agent!r} left agents without an end: expected it terminated or truncated"
                )

    def _reward(self, agent: str, given: Any) -> float:
        try:
            reward = real_number(given)
        except ValueError:
            self._break(f"agent {agent!r}: reward: expected a number, got {given!r}")
        if not math.isfinite(reward):
            self._break(f"agent {agent!r}: reward: expected a finite number, got {reward}")
        return float(reward)

    def _parts(self, call: str, agents: list[str], result: Any, names: tuple[str, ...]) -> tuple[Any, ...]:
        """Return what `call` of the game returned: dicts with an entry for each of `agents`."""
        if not isinstance(result, tuple | list) or len(result) != len(names):
            self._break(f"{call}: expected {len(names)} dicts by agent, got {tuple_words(result)}")
        for part, name in zip(result, names, strict=True):
            if type(part) is not dict and not isinstance(part, Mapping):
                self._break(f"{call}: {name}: expected a dict by agent, got {part!r}")
            if part.keys() != set(agents):
                missing = [agent for agent in agents if agent not in part]
                if missing:
                    self._break(f"agent {missing[0]!r}: expected {name}, got none")
                extra = next(agent for agent in part if agent not in agents)
                self._break(f"agent {extra!r} is not in play: expected no {name}, got one")
        for agent, info in result[-1].items():
            if type(info) is not dict and not isinstance(info, Mapping):
                self._break(f"agent {agent!r}: info: expected a dict, got {info!r}")
        return tuple(result)

    def _break(self, sentence: str) -> NoReturn:
        raise ObservationError(f"{self}: {sentence}")
