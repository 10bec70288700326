"""`EntityGame`: what an author subclasses to write a game of several agents."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from copy import deepcopy
from typing import Any, NoReturn

import gymnasium
import numpy as np

from ..suggestions import listed, nearest_or_known
from .actions import Action, EntityActionSpace
from .actions.array_checks import real_number
from .batch.resolve import Observation, ResolvedObservation, Resolver
from .errors import ActionError, ObsError, ObservationError, reset_needed
from .multi_agent import MultiAgentEnv, MultiAgentStep, kind_of
from .returned import LARGEST_REWARD
from .spaces import EntitySpace

#: The spaces of an agent, as `declare` returns them.
Spaces = tuple[EntitySpace, EntityActionSpace]
#: By agent: observations, rewards, terminated and truncated (or one bool for all), and infos.
GameTransition = tuple[
    Mapping[str, Observation],
    Mapping[str, float],
    Mapping[str, bool] | bool,
    Mapping[str, bool] | bool,
    Mapping[str, Mapping[str, Any]],
]
_FORM = "(observations, rewards, terminated, truncated, infos)"


class EntityGame(MultiAgentEnv):
    """A game of several agents that act at the same time or in turn, whose observations are entities.

    The author sets `possible_agents` and `spaces` in `__init__` and writes two methods, `_reset` and `_step`,
    that use `self.np_random` for all randomness. Observations and actions are those of `EntityEnv`, one of
    each agent:

        class Race(EntityGame):
            def __init__(self):
                self.possible_agents = ["runner_0", "runner_1"]
                actions = EntityActionSpace({"Move": Categorical(["rest", "run"])})
                self.spaces = EntitySpace({"Me": ["x"], "Other": ["x"]}, actions), actions

            def _reset(self, options):
                self.x = {agent: int(self.np_random.integers(3)) for agent in self.possible_agents}
                return self._look()

            def _step(self, actions):
                for agent, chosen in actions.items():
                    self.x[agent] += chosen["Move"].labels == ["run"]
                there = {agent: x >= 9 for agent, x in self.x.items()}
                return self._look(), {a: float(there[a]) for a in there}, any(there.values()), False, {}

            def _look(self):
                mask = {"Move": CategoricalMask(actor_types=["Me"])}
                all_x = set(self.x.items())
                return {
                    me: Observation({"Me": [[x]], "Other": [[y] for _, y in all_x - {(me, x)}]}, actions=mask)
                    for me, x in self.x.items()
                }

    `ez.make_vec(Race, num_envs=8)` makes a vector environment of eight games, in which every agent is a lane,
    and `ez.to_pettingzoo(Race())` a PettingZoo environment. An agent that waits for its turn has an
    observation without actors.

    Attributes:
        possible_agents: the names of all agents there can be, such as "runner_0".
        spaces: the spaces of all agents, as `ez.declare` returns them; or a dict of them by agent or by kind
            ("runner" of "runner_0").
        agents: those in play, in the order of `possible_agents`.

    Raises:
        ObservationError: `_reset` or `_step` returned what is not allowed; the message names the class, the
            method and the agent. The game must be reset.
        ActionError: an action that the agent's last observation does not allow, or an agent that is not in
            play; the game has not moved.
        gymnasium.error.ResetNeeded: `step` before the first `reset`, or when no agent is left.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - as Gymnasium's
    spaces: Spaces | Mapping[str, Spaces]
    agents: list[str] = []  # noqa: RUF012 - before the first reset; never changed in place

    # Of this class alone: authors have names of their own.
    __rng: np.random.Generator | None = None
    __resolvers: dict[str, Resolver] | None = None
    __action_spaces: dict[str, EntityActionSpace]  # of each agent, as each keeps its own last observation
    __resolved: dict[str, ResolvedObservation]  # the last observations of the agents in play

    @abstractmethod
    def _reset(
        self, options: dict[str, Any]
    ) -> Mapping[str, Observation] | tuple[Mapping[str, Observation], Mapping[str, Mapping[str, Any]]]:
        """Start a game; return the observations of the agents that play, or (observations, infos).

        `options` is what `reset` was given, or an empty dict.
        """

    @abstractmethod
    def _step(self, actions: dict[str, dict[str, Action]]) -> GameTransition:
        """Step with the actions of the agents in play; return what comes of it, by agent.

        Observations and rewards are of all agents that were in play; one that terminated may be without an
        observation. `terminated` and `truncated` hold True for those that ended, or are one bool for all.
        Infos may be left out.
        """

    @property
    def np_random(self) -> np.random.Generator:
        """The game's random numbers, which `reset(seed=…)` starts anew."""
        if self.__rng is None:
            self.__rng, _ = gymnasium.utils.seeding.np_random()
        return self.__rng

    @np_random.setter
    def np_random(self, value: np.random.Generator) -> None:
        self.__rng = value

    def observation_space(self, agent: str) -> EntitySpace:
        """The space of the agent's observations; the same object at every call."""
        return self.__resolver(agent).space

    def action_space(self, agent: str) -> EntityActionSpace:
        """The space of the agent's actions; `sample` draws legal ones for its last observation."""
        self.__resolver(agent)
        return self.__action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
        """Start a game; a seed restarts the game's random numbers."""
        self.__prepared()
        if seed is not None:
            self.__rng, _ = gymnasium.utils.seeding.np_random(seed)
        self.agents, self.__resolved = [], {}
        try:
            found = self._reset({} if options is None else options)
        except ObsError as error:
            raise error.of(type(self).__name__) from error
        observations, infos = found if isinstance(found, tuple) and len(found) == 2 else (found, {})
        self.__check_agents("_reset", "observations", observations, self.possible_agents)
        if not observations:
            self.__fail("_reset", "observations: expected those of one agent or more, got none")
        agents = [agent for agent in self.possible_agents if agent in observations]
        plain = self.__observe("_reset", agents, observations)
        all_infos = self.__infos("_reset", agents, infos)
        self.agents = agents
        return plain, all_infos

    def step(self, actions: Mapping[str, Mapping[str, Any]]) -> MultiAgentStep:
        """Let every agent in play act; an agent that is left out leaves out all its actions."""
        if not self.agents:
            raise reset_needed(f"{type(self).__name__}: no agent is in play", "step()")
        for agent in actions:
            if agent not in self.agents:
                raise ActionError(
                    f"{type(self).__name__}: expected actions of the agents in play"
                    f" ({listed(self.agents, str)}), got one of {agent!r}"
                )
        chosen = {
            agent: self.__resolver(agent).dispatch(self.__resolved[agent], actions.get(agent, {}))
            for agent in self.agents
        }
        acted, self.agents = self.agents, []  # a _step that raises leaves a game that needs a reset
        try:
            result = self._step(chosen)
        except ObsError as error:
            raise error.of(type(self).__name__) from error
        if not isinstance(result, tuple) or len(result) != 5:
            self.__fail("_step", f"expected {_FORM}, got {result!r:.100}")
        observations, rewards, terminated, truncated, infos = result
        terminations = self.__flags("terminated", terminated, acted)
        truncations = self.__flags("truncated", truncated, acted)
        self.__check_agents("_step", "observations", observations, acted)
        empty = {agent: Observation() for agent in acted if terminations[agent]}
        plain = self.__observe("_step", acted, {**empty, **observations})
        all_rewards = self.__rewards(acted, rewards)
        all_infos = self.__infos("_step", acted, infos)
        self.agents = [agent for agent in acted if not (terminations[agent] or truncations[agent])]
        return plain, all_rewards, terminations, truncations, all_infos

    # -- what the author returned ---------------------------------------------------------------------------

    def __observe(
        self, method: str, agents: list[str], observations: Mapping[str, Observation]
    ) -> dict[str, dict[str, Any]]:
        """Return the plain observations of `agents`."""
        plain = {}
        for agent in agents:
            if agent not in observations:
                self.__fail(method, f"agent {agent!r}: expected an observation, got none")
            if not isinstance(observations[agent], Observation):
                got = observations[agent]
                self.__fail(method, f"agent {agent!r}: expected an Observation, got {type(got).__name__}")
            resolver = self.__resolver(agent)
            resolved = self.__resolved[agent] = resolver.resolve(observations[agent])
            plain[agent] = resolved.plain(resolver.space)
            self.__action_spaces[agent].observe(plain[agent])
        return plain

    def __flags(self, name: str, flags: Any, agents: list[str]) -> dict[str, bool]:
        if isinstance(flags, bool | np.bool_):
            return dict.fromkeys(agents, bool(flags))
        self.__check_agents("_step", name, flags, agents)
        for agent, flag in flags.items():
            if not isinstance(flag, bool | np.bool_):
                self.__fail("_step", f"agent {agent!r}: {name}: expected a bool, got {flag!r:.80}")
        return {agent: bool(flags.get(agent, False)) for agent in agents}

    def __rewards(self, agents: list[str], rewards: Any) -> dict[str, float]:
        self.__check_agents("_step", "rewards", rewards, agents)
        read = {}
        for agent in agents:
            try:
                read[agent] = real_number(rewards[agent])
            except (KeyError, ValueError):
                got = repr(rewards[agent])[:80] if agent in rewards else "none"
                self.__fail("_step", f"agent {agent!r}: reward: expected a number, got {got}")
            if not -LARGEST_REWARD <= read[agent] <= LARGEST_REWARD:
                self.__fail("_step", f"agent {agent!r}: reward: expected a finite float32, got {read[agent]}")
        return read

    def __infos(self, method: str, agents: list[str], infos: Any) -> dict[str, dict[str, Any]]:
        self.__check_agents(method, "infos", infos, agents)
        for agent, info in infos.items():
            if not isinstance(info, Mapping):
                self.__fail(method, f"agent {agent!r}: info: expected a dict, got {info!r:.80}")
        return {agent: dict(infos.get(agent, {})) for agent in agents}

    def __check_agents(self, method: str, name: str, by_agent: Any, agents: list[str]) -> None:
        if not isinstance(by_agent, Mapping):
            self.__fail(method, f"{name}: expected a dict by agent, got {by_agent!r:.80}")
        for agent in by_agent:
            if agent in agents:
                continue
            known = nearest_or_known(agent, agents)
            if agent in self.possible_agents:
                known = (
                    ", which is out of play: agents can't join or come back during a game. Let it wait with"
                    " an observation without actors"
                )
            self.__fail(method, f"{name}: expected agents in play, got {agent!r}{known}")

    def __fail(self, method: str, sentence: str) -> NoReturn:
        raise ObservationError(f"{type(self).__name__}.{method}: {sentence}")

    # -- spaces ---------------------------------------------------------------------------------------------

    def __resolver(self, agent: str) -> Resolver:
        resolvers = self.__prepared()
        if agent not in resolvers:
            known = nearest_or_known(agent, list(resolvers))
            raise KeyError(f"{type(self).__name__}: there is no agent {agent!r}{known}")
        return resolvers[agent]

    def __prepared(self) -> dict[str, Resolver]:
        """Return the resolver of each agent, from the spaces, which an author may set until they are read."""
        if self.__resolvers is None:
            name = type(self).__name__
            for attribute in ("possible_agents", "spaces"):
                if not hasattr(self, attribute):
                    raise AttributeError(f"{name} has no {attribute}: set self.{attribute} in __init__")
            resolvers, actions = {}, {}
            for agent in self.possible_agents:
                space, actions[agent] = self.__spaces_of(agent)
                resolvers[agent] = Resolver(space, f"{name}: agent {agent!r}")
            self.__resolvers, self.__action_spaces = resolvers, actions
        return self.__resolvers

    def __spaces_of(self, agent: str) -> Spaces:
        name, spaces = type(self).__name__, self.spaces
        if isinstance(spaces, Mapping):
            spaces = spaces.get(agent) or spaces.get(kind_of(agent)) or ()  # type: ignore[assignment]
        match spaces:
            case (EntitySpace() as space, EntityActionSpace() as actions) if space.actions == actions:
                return space, deepcopy(actions)
        raise TypeError(
            f"{name}: spaces of agent {agent!r}: expected (EntitySpace, its EntityActionSpace), as ez.declare"
            f" returns them, got {spaces!r:.100}"
        )
