"""Opponents: controllers of agents that are not trained."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from gymnasium import spaces

from ...envs import EntityActionSpace, EntityBatch, EntitySpace, sample_actions, validate_actions
from ...envs.multi_agent import kind_of
from .agent_names import resolve
from .agent_observer import AgentObservation, AgentObserver, MaskObserver
from .entity_observer import EntitySpaceObserver
from .game import PettingZooGame

#: (observation, action mask or None, agent) -> action; all as the game has them.
OpponentFunction = Callable[[Any, Any, str], Any]


@runtime_checkable
class OpponentPolicy(Protocol):
    """Interface of the policies that play opponents, such as `entitize.load_policy` returns."""

    def act(self, batch: EntityBatch, rng: np.random.Generator, deterministic: bool = False) -> Any:
        """Choose an action for every actor of `batch`; the result has them as `actions`."""
        ...


OpponentSpec = Literal["random"] | OpponentFunction | OpponentPolicy

#: A game and an agent that must act in it.
Turn = tuple[PettingZooGame, str]


class GameOpponent(ABC):
    """Controller of some agents, in all games at once. Abstract: see `PolicyOpponent`, `FunctionOpponent`."""

    @abstractmethod
    def choose(self, turns: Sequence[Turn], rng: np.random.Generator) -> list[Any]:
        """Return a PettingZoo action for each turn."""


class PolicyOpponent(GameOpponent):
    """Opponent that gets entity observations: a policy, or random actions.

    Args:
        observer: encodes its observations.
        policy: chooses the actions; None: at random.
        deterministic: let it take the most probable actions instead of sampling.
    """

    def __init__(
        self, observer: AgentObserver, policy: OpponentPolicy | None, deterministic: bool = False
    ) -> None:
        self._observer, self._policy, self._deterministic = observer, policy, deterministic

    def choose(self, turns: Sequence[Turn], rng: np.random.Generator) -> list[Any]:
        space = self._observer.observation_space
        observations: list[AgentObservation | None] = [
            self._observer.observe(game, agent, True) for game, agent in turns
        ]
        batch = self._observer.batch(observations)
        if self._policy is None:
            actions = sample_actions(space.actions, batch, rng)
        else:
            more = (True,) if self._deterministic else ()  # else a policy with two parameters will do
            actions = validate_actions(space, batch, self._policy.act(batch, rng, *more).actions)
        return self._observer.game_actions(actions, [agent for _, agent in turns])


class FunctionOpponent(GameOpponent):
    """Opponent that is a function of the game's own observation."""

    def __init__(self, function: OpponentFunction) -> None:
        self._function = function

    def choose(self, turns: Sequence[Turn], rng: np.random.Generator) -> list[Any]:
        return [self._called(game, agent) for game, agent in turns]

    def _called(self, game: PettingZooGame, agent: str) -> Any:
        mask, observation = game.mask(agent), game.observation(agent)
        game.doing = f"the action of the opponent {agent!r}"
        action = self._function(observation, mask, agent)
        space = game.action_spaces[agent]
        # A Box takes what NumPy can turn into its numbers; how strictly is up to the game.
        if not isinstance(space, spaces.Box) and not space.contains(action):
            raise ValueError(
                f"the opponent's action for {agent!r}: expected an action of {space}, got {action!r}"
            )
        if (
            isinstance(space, spaces.Discrete)
            and mask is not None
            and not np.asarray(mask)[action - space.start]
        ):
            allowed = (np.flatnonzero(mask) + space.start).tolist()
            raise ValueError(
                f"the opponent's action for {agent!r}: expected one that its mask allows, one of {allowed},"
                f" got {action!r}"
            )
        return action


def make_opponents(
    game: PettingZooGame,
    given: Mapping[str, OpponentSpec],
    observer_of: Callable[[Sequence[str]], AgentObserver],
) -> dict[str, GameOpponent]:
    """Return the opponent of each agent; a name takes precedence over a kind.

    Args:
        game: a game.
        given: by agent or kind.
        observer_of: returns the observer of several agents.

    Raises:
        ValueError: an unknown agent or kind, or a policy with other spaces.
        TypeError: an object that cannot act as an opponent.
    """
    resolve(list(given), game.possible_agents, f"{game.name}: opponents")
    controllers: dict[str, OpponentSpec] = {
        agent: given[agent] if agent in given else given[kind_of(agent)]
        for agent in game.possible_agents
        if agent in given or kind_of(agent) in given
    }
    opponents_by_agent: dict[str, GameOpponent] = {}
    for agent, controller in controllers.items():
        if agent in opponents_by_agent:
            continue
        together = [other for other, its in controllers.items() if its is controller]
        opponents_by_agent.update(dict.fromkeys(together, _opponent(game, together, controller, observer_of)))
    return {agent: opponents_by_agent[agent] for agent in controllers}


def _opponent(
    game: PettingZooGame,
    agents: Sequence[str],
    controller: Any,
    observer_of: Callable[[Sequence[str]], AgentObserver],
) -> GameOpponent:
    if isinstance(controller, str):
        if controller != "random":
            raise ValueError(
                f"{game.name}: opponent of {agents[0]!r}: expected 'random', a function or a policy,"
                f" got {controller!r}"
            )
        entities = isinstance(game.observation_spaces[agents[0]], EntitySpace)
        return PolicyOpponent(
            EntitySpaceObserver(game, agents) if entities else MaskObserver(game, agents), None
        )
    if isinstance(controller, OpponentPolicy):
        return PolicyOpponent(observer_for(game, agents, controller, observer_of), controller)
    if callable(controller):
        return FunctionOpponent(controller)
    raise TypeError(
        f"{game.name}: opponent of {agents[0]!r}: expected 'random', a function"
        f" (observation, action_mask, agent) -> action, or a policy with act(batch, rng), got {controller!r}"
    )


def observer_for(
    game: PettingZooGame,
    agents: Sequence[str],
    policy: OpponentPolicy,
    observer_of: Callable[[Sequence[str]], AgentObserver],
) -> AgentObserver:
    """Return the observer for a policy that was trained on its own agents' lanes or on all agents' lanes."""
    space: Any = getattr(policy, "observation_space", None)
    if not isinstance(space, EntitySpace):
        space = getattr(policy, "action_space", None)
    own = observer_of(agents)
    if not isinstance(space, EntitySpace | EntityActionSpace):
        return own
    read = "observation" if isinstance(space, EntitySpace) else "action"
    known = []
    for observer in (own, observer_of(game.possible_agents)):
        its = observer.observation_space
        known.append(its if read == "observation" else its.actions)
        if space == known[-1]:
            return observer
    raise ValueError(
        f"{game.name}: policy of {', '.join(map(repr, agents))}: expected the {read} space of these agents,"
        f" {known[0]!r}, or of all agents, {known[1]!r}, got {space!r}. Is the view that of the training?"
    )
