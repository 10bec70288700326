"""Opponents: who plays for agents that nobody here trains."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from gymnasium import spaces

from ...envs import EntityBatch, EntitySpace, sample_actions, validate_actions
from .entity_sight import EntitySight
from .match import Match
from .names import kind_of, resolve
from .sight import Blind, Look, Sight

#: From what the game shows an agent, its action mask (None where there is none) and its name to an action.
Player = Callable[[Any, Any, str], Any]


@runtime_checkable
class Actor(Protocol):
    """A policy, as `entitize.load_policy` returns it."""

    def act(self, batch: EntityBatch, rng: np.random.Generator, deterministic: bool = False) -> Any:
        """Choose an action for every actor of `batch`; the result has them as `actions`."""
        ...


Given = Literal["random"] | Player | Actor

#: A match and one of its agents, whose turn it is.
Turn = tuple[Match, str]


class Opponent(ABC):
    """Plays for some agents, in all games at once. Abstract: `SeeingOpponent` and `CallingOpponent`."""

    @abstractmethod
    def choose(self, turns: Sequence[Turn], rng: np.random.Generator) -> list[Any]:
        """A PettingZoo action for each turn."""


class SeeingOpponent(Opponent):
    """Sees entities: a policy, or one that plays at random.

    Args:
        sight: how it sees.
        policy: what decides; None: chance.
    """

    def __init__(self, sight: Sight, policy: Actor | None) -> None:
        self._sight, self._policy = sight, policy

    def choose(self, turns: Sequence[Turn], rng: np.random.Generator) -> list[Any]:
        space = self._sight.observation_space
        looks: list[Look | None] = [self._sight.look(match, agent, True) for match, agent in turns]
        batch = self._sight.batch(looks)
        if self._policy is None:
            orders = sample_actions(space.actions, batch, rng)
        else:
            orders = validate_actions(space, batch, self._policy.act(batch, rng).actions)
        return self._sight.raw(orders, batch, [agent for _, agent in turns])


class CallingOpponent(Opponent):
    """A function of what the game itself shows."""

    def __init__(self, player: Player) -> None:
        self._player = player

    def choose(self, turns: Sequence[Turn], rng: np.random.Generator) -> list[Any]:
        return [self._called(match, agent) for match, agent in turns]

    def _called(self, match: Match, agent: str) -> Any:
        action = self._player(match.observation(agent), match.mask(agent), agent)
        space = match.action_spaces[agent]
        # A Box takes what NumPy can turn into its numbers; how strictly is up to the game.
        if not isinstance(space, spaces.Box) and not space.contains(action):
            raise ValueError(f"the opponent's action for {agent!r} is {action!r}, which is not in {space}")
        return action


def seat_opponents(
    match: Match, given: Mapping[str, Given], sight_of: Callable[[Sequence[str]], Sight]
) -> dict[str, Opponent]:
    """Who plays for which agent; a name counts for more than a kind.

    Args:
        match: a game.
        given: by agent or kind.
        sight_of: how several agents see.

    Raises:
        ValueError: an unknown agent or kind, or a policy for other spaces.
        TypeError: something that can't play.
    """
    resolve(list(given), match.possible_agents, f"{match.name}: opponents")
    players: dict[str, Given] = {
        agent: given[agent] if agent in given else given[kind_of(agent)]
        for agent in match.possible_agents
        if agent in given or kind_of(agent) in given
    }
    seats: dict[str, Opponent] = {}
    for agent, player in players.items():
        if agent in seats:
            continue
        together = [other for other, its in players.items() if its is player]
        seats.update(dict.fromkeys(together, _opponent(match, together, player, sight_of)))
    return {agent: seats[agent] for agent in players}


def _opponent(
    match: Match, agents: Sequence[str], player: Any, sight_of: Callable[[Sequence[str]], Sight]
) -> Opponent:
    if isinstance(player, str):
        if player != "random":
            raise ValueError(f"{match.name}: {player!r} can't play {agents[0]!r}; 'random' can")
        entities = isinstance(match.observation_spaces[agents[0]], EntitySpace)
        return SeeingOpponent(EntitySight(match, agents) if entities else Blind(match, agents), None)
    if isinstance(player, Actor):
        return SeeingOpponent(_sight_for(match, agents, player, sight_of), player)
    if callable(player):
        return CallingOpponent(player)
    raise TypeError(
        f"{match.name}: the opponent of {agents[0]!r} is {player!r}; expected 'random', a function"
        " (observation, action_mask, agent) -> action, or a policy with act(batch, rng)"
    )


def _sight_for(
    match: Match, agents: Sequence[str], policy: Actor, sight_of: Callable[[Sequence[str]], Sight]
) -> Sight:
    """How a policy sees: as lanes of its own agents would, or as lanes of all agents."""
    space = getattr(policy, "observation_space", None)
    own = sight_of(agents)
    if not isinstance(space, EntitySpace) or space == own.observation_space:
        return own
    everyone = sight_of(match.possible_agents)
    if space == everyone.observation_space:
        return everyone
    raise ValueError(
        f"{match.name}: the policy that plays {', '.join(map(repr, agents))} was made for {space!r}, but they"
        f" see {own.observation_space!r}, or together with all agents {everyone.observation_space!r}"
    )
