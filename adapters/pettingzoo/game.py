"""`PettingZooGame`: one running game, parallel or in turns, behind one interface that checks the rules.

Parallel games are in `parallel_game.py`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from gymnasium import spaces

from ...envs import EntitySpace, ObservationError
from ...envs.actions.array_checks import real_number
from ...envs.returned import LARGEST_REWARD
from ...envs.vector.infos import copied
from ...suggestions import nearest_or_known
from ..gymnasium.translation import MASK
from .agent_names import repeated

#: (game, agent, terminated) -> the agent's last observation, or None.
FinalObserver = Callable[["PettingZooGame", str, bool], Any]


@dataclass(frozen=True)
class FinalStep:
    """The last step of one agent."""

    terminated: bool
    truncated: bool
    observation: Any  # its last observation, from the `FinalObserver`
    info: dict[str, Any]


@dataclass
class GameStep:
    """Rewards and ended agents of one or several steps of a game, by agent."""

    rewards: dict[str, float] = field(default_factory=dict)
    ended: dict[str, FinalStep] = field(default_factory=dict)

    def add_reward(self, agent: str, reward: float) -> None:
        self.rewards[agent] = self.rewards.get(agent, 0.0) + reward

    def add(self, later: GameStep) -> None:
        """Add the rewards and ended agents of a later step, which is used up."""
        if self.rewards:
            for agent, reward in later.rewards.items():
                self.add_reward(agent, reward)
        else:
            self.rewards = later.rewards
        self.ended.update(later.ended)


class PettingZooGame(ABC):
    """A running game. Abstract: see `ParallelGame` and `AECGame`.

    Attributes:
        env: the PettingZoo environment, wrapped or not.
        index: the game's number among several.
        label: the game in error messages.
        possible_agents: all agents that can take part.
        observation_spaces, action_spaces: by agent.
        agents: the agents in play, in the game's order.
        acting: those of them that must act next.
        doing: the last call to the game, for error messages.
        is_simultaneous: True if all agents in play act at once.

    Raises:
        ObservationError: the game breaks PettingZoo's rules; the message names game and agent.
    """

    is_simultaneous = False

    def __init__(self, env: Any, index: int = 0) -> None:
        self.env = env
        self.index = index
        self.name = game_name(env)
        self.label = f"game {index} ({self.name})"  # its name in error messages
        self.doing = "being made"
        self.possible_agents = self._possible_agents()
        self.observation_spaces: dict[str, spaces.Space[Any]] = {}
        self.action_spaces: dict[str, spaces.Space[Any]] = {}
        for agent in self.possible_agents:
            self.observation_spaces[agent] = env.observation_space(agent)
            self.action_spaces[agent] = env.action_space(agent)
        self._masked = {agent for agent, space in self.observation_spaces.items() if has_mask(space)}
        self.agents: list[str] = []
        self.acting: tuple[str, ...] = ()
        self._ended: set[str] = set()

    # -- play -----------------------------------------------------------------------------------------------

    def reset(self, seed: int | None, options: dict[str, Any] | None) -> None:
        """Start a new episode. Without a seed the game's random numbers continue."""
        self.doing = "reset"
        self.agents, self.acting, self._ended = [], (), set()
        self._begin(seed, options)

    def set_progress(self, fraction: float) -> None:
        """Call the method `set_progress` of the environment, or of what it wraps, if there is one."""
        self.doing = "set_progress"
        for layer in (self.env, self.env.unwrapped):
            if hasattr(layer, "set_progress"):
                layer.set_progress(fraction)
                return

    @abstractmethod
    def _begin(self, seed: int | None, options: dict[str, Any] | None) -> None: ...

    @abstractmethod
    def step(self, actions: dict[str, Any], observe_final: FinalObserver) -> GameStep:
        """Step with the actions of `acting`, which the game may change; call `observe_final` for each agent
        that ends."""

    @abstractmethod
    def observation(self, agent: str) -> Any:
        """Return the observation of an agent in play, or of one that has just ended; None without one."""

    @abstractmethod
    def info(self, agent: str) -> dict[str, Any]:
        """Return a copy of the info of an agent in play, or of one that has just ended."""

    def mask(self, agent: str) -> Any:
        """Return the game's action mask for an agent in play; None without one."""
        if agent not in self._masked:
            return self.info(agent).get(MASK)
        observation = self.observation(agent)
        try:
            return observation[MASK]
        except (KeyError, IndexError, TypeError):
            got = list(observation) if isinstance(observation, Mapping) else repr(observation)
            self.fail(f"agent {agent!r}: expected {MASK!r} in its observation, got {got}")

    @property
    def observes_masks(self) -> bool:
        """True if agents' observations contain action masks."""
        return bool(self._masked)

    def masks(self, agents: Sequence[str]) -> list[Any]:
        """Return `mask` of each of `agents` that is in play; None for the others."""
        if not self.has_masks:
            return [None] * len(agents)
        playing = set(self.agents)
        return [self.mask(agent) if agent in playing else None for agent in agents]

    @property
    def has_masks(self) -> bool:
        """False if no agent in play has an action mask."""
        return bool(self._masked) or self.has_infos

    @property
    @abstractmethod
    def has_infos(self) -> bool:
        """False if the infos of all agents are empty."""

    def agent_label(self, agent: str) -> str:
        """Return the agent's name in error messages."""
        return f"{self.label}: {agent!r}"

    def has_final_observation(self, agent: str, terminated: bool) -> bool:
        """Return True if the game has a last observation of an agent that has just ended.

        Raises:
            ObservationError: the agent was truncated and the game has no last observation to compute its
                value.
        """
        if self.observation(agent) is not None:
            return True
        if not terminated:
            self.fail(f"agent {agent!r} was truncated: expected its last observation, got none")
        return False

    def has_ended(self, agents: Collection[str]) -> bool:
        """Return True if all `agents` have ended."""
        return self._ended.issuperset(agents)

    # -- the rules ------------------------------------------------------------------------------------------

    def fail(self, sentence: str) -> NoReturn:
        raise ObservationError(f"{self.label}: {sentence}")

    def _possible_agents(self) -> tuple[str, ...]:
        try:
            agents = tuple(self.env.possible_agents)
        except (AttributeError, TypeError):  # it may be None
            self.fail(
                "possible_agents is missing: expected the names of all agents, also of those that join later,"
                " got none"
            )
        if not agents:
            self.fail("possible_agents is empty: expected one agent or more, got none")
        self._check_once(agents, "possible_agents")
        return agents

    def _check_once(self, agents: Sequence[str], where: str) -> None:
        twice = repeated(agents)
        if twice is not None:
            self.fail(
                f"agent {twice!r} appears twice in {where}: expected distinct agents, got {list(agents)}"
            )

    def _check_agents(self, agents: Sequence[str]) -> None:
        """Check the agents in play: each once, known, and not ended before."""
        if len(set(agents)) < len(agents):
            self._check_once(agents, "agents")
        for agent in agents:
            if agent not in self.observation_spaces:
                self.fail(
                    "agents: expected agents of possible_agents, got unknown agent"
                    f" {agent!r}{nearest_or_known(agent, self.possible_agents)}"
                )
            if agent in self._ended:
                self.fail(
                    f"agent {agent!r} has ended and is in agents again: expected it absent until the"
                    " next reset"
                )

    def _own_info(self, agent: str, infos: Mapping[str, Any]) -> dict[str, Any]:
        """Return a copy of the agent's info."""
        info = infos.get(agent)
        if type(info) is not dict and not isinstance(info, Mapping):
            if agent not in infos:
                return {}
            self.fail(f"info of agent {agent!r}: expected a dict, got {info!r}")
        return dict(info)

    def _reward(self, agent: str, rewards: Mapping[str, Any]) -> float:
        if agent not in rewards:
            self.fail(f"no reward for agent {agent!r}: expected a reward for every agent in play")
        try:
            reward = real_number(rewards[agent])
        except ValueError:
            self.fail(f"reward of agent {agent!r}: expected a number, got {rewards[agent]!r}")
        if not -LARGEST_REWARD <= reward <= LARGEST_REWARD:
            self.fail(f"reward of agent {agent!r}: expected a finite float32, got {reward}")
        return reward

    def _rewards(self, agents: Sequence[str], rewards: Mapping[str, Any]) -> dict[str, float]:
        """Return the rewards of `agents`, which are floats nearly always."""
        try:
            given = {agent: rewards[agent] for agent in agents}
            total = sum(map(abs, given.values()))
        except (KeyError, TypeError, ValueError):
            total = math.nan
        if type(total) is float and total <= LARGEST_REWARD:
            return given
        return {agent: self._reward(agent, rewards) for agent in agents}

    def _end(
        self, agent: str, terminated: bool, truncated: bool, outcome: GameStep, observe_final: FinalObserver
    ) -> None:
        last = observe_final(self, agent, terminated)
        outcome.ended[agent] = FinalStep(terminated, truncated, last, copied(self.info(agent)))
        self._ended.add(agent)


class AECGame(PettingZooGame):
    """A game of PettingZoo's `AECEnv`: one agent acts at a time.

    Rewards are those of `env.rewards` after each step, which sum to the reward of `env.last()` at an agent's
    next turn. Agents that have ended get no more rewards, and are stepped with None when the game selects
    them.
    """

    _seen: dict[str, Any]  # observations since the last step

    def __init__(self, env: Any, index: int = 0) -> None:
        super().__init__(env, index)
        self._state = _without_wrappers(env)

    def _begin(self, seed: int | None, options: dict[str, Any] | None) -> None:
        self._seen = {}
        self.env.reset(seed=seed, options=options)
        self._go_on(GameStep(), lambda game, agent, terminated: None)

    def step(self, actions: dict[str, Any], observe_final: FinalObserver) -> GameStep:
        (agent,) = self.acting
        self.doing = f"step for agent {agent!r}"
        self._seen = {}
        self.env.step(actions[agent])
        outcome, rewards = GameStep(), self._state.rewards
        joined = [agent for agent in self._state.agents if agent not in (*self.agents, *self._ended)]
        for agent in (*self.agents, *joined):
            outcome.add_reward(agent, self._reward(agent, rewards) if agent in rewards else 0.0)
        self._go_on(outcome, observe_final)
        return outcome

    def _go_on(self, outcome: GameStep, observe_final: FinalObserver) -> None:
        """Update the agents in play, and step ended agents with None until an agent in play is selected."""
        self._notice(outcome, observe_final)
        while self._state.agents and self._state.agent_selection in self._ended:
            agent = self._state.agent_selection
            self.doing = f"step(None) for the ended agent {agent!r}"
            self.env.step(None)
            if agent in self._state.agents:
                self.fail(
                    f"agent {agent!r} has ended: expected it to leave agents after step(None), got it"
                    " still in agents"
                )
            self._notice(outcome, observe_final)
        self.acting = ()
        if self.agents:
            mover = self._state.agent_selection
            if mover not in self.agents:
                self.fail(f"agent_selection: expected an agent in play, one of {self.agents}, got {mover!r}")
            self.acting = (mover,)

    def _notice(self, outcome: GameStep, observe_final: FinalObserver) -> None:
        present = list(self._state.agents)
        self._check_once(present, "agents")
        terminations, truncations = self._state.terminations, self._state.truncations
        gone = [agent for agent in self.agents if agent not in present]
        if gone:
            self.fail(f"agent {gone[0]!r} left without having been terminated or truncated")
        agents = []
        for agent in present:
            terminated, truncated = bool(terminations.get(agent)), bool(truncations.get(agent))
            if not (terminated or truncated):
                agents.append(agent)
            elif agent not in self._ended:
                self._end(agent, terminated, truncated, outcome, observe_final)
        self._check_agents(agents)
        self.agents = agents

    def observation(self, agent: str) -> Any:
        if agent not in self._seen:
            self.doing = f"observe({agent!r})"
            self._seen[agent] = copied(self.env.observe(agent))  # games may reuse an array
        return self._seen[agent]

    def info(self, agent: str) -> dict[str, Any]:
        return self._own_info(agent, self._state.infos)

    @property
    def has_infos(self) -> bool:
        return any(self._state.infos.values())


def _without_wrappers(env: Any) -> Any:
    """Return the environment inside PettingZoo's own wrappers, which pass on its agents, rewards and flags.

    Reading them through four wrappers would take longer than many games' steps.
    """
    while type(env).__module__.startswith("pettingzoo.utils.wrappers."):
        env = env.env
    return env


def game_name(env: Any) -> str:
    """Return a PettingZoo environment's name in error messages."""
    name = getattr(env, "metadata", {}).get("name")
    return name if isinstance(name, str) else type(env.unwrapped).__name__


def has_mask(space: spaces.Space[Any]) -> bool:
    """Return True if observations of `space` contain an action mask in PettingZoo's form."""
    return isinstance(space, spaces.Dict) and not isinstance(space, EntitySpace) and MASK in space.spaces
