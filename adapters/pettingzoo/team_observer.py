"""`TeamObserver`: encoder of a team's observations, and decoder of its actions.

Shape alphabet: n agents of one group, F features, C choices, K real numbers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...envs import EntitySpace
from ...envs.actions import (
    Action,
    CategoricalAction,
    CategoricalMask,
    ContinuousAction,
    ContinuousMask,
    GlobalCategoricalAction,
    GlobalCategoricalMask,
    GlobalContinuousAction,
    GlobalContinuousMask,
    Mask,
)
from ...envs.batch.resolve import Observation
from ..gymnasium.views.scope import ViewError
from ..gymnasium.views.vector import Vector
from .agent_actions import ActionGroup, AgentActions
from .agent_names import group_agents, same
from .agent_observer import agent_label, has_final_observation
from .game import AECGame, PettingZooGame
from .game_view_observer import GameViews, check_names
from .space_observer import ObservationGroup, Views, type_names, views_by_agent

#: By group the agents that act now.
Moving = dict[ActionGroup, list[str]]


class TeamObserver(ABC):
    """EntityEncoder for a whole team. Abstract: see `TeamSpaceObserver` and `TeamGameViewObserver`.

    Attributes:
        team: the agents' names.
        observation_space: its actors are the agents' entities, whose ids are the names.
    """

    team: tuple[str, ...]
    observation_space: EntitySpace
    _actions: AgentActions

    @abstractmethod
    def observe_final(self, game: PettingZooGame, agent: str, terminated: bool) -> Any:
        """Return what `entities` needs of an agent that has just ended."""

    @abstractmethod
    def entities(self, game: PettingZooGame, cut_off: Mapping[str, Any]) -> Observation:
        """Return the team's observation, without its actions.

        Args:
            cut_off: truncated agents that stay in the observation, with the result of `observe_final`.
        """

    def orders(self, game: PettingZooGame) -> tuple[dict[str, Mask], Moving]:
        """Return an `Observation`'s action masks, and by group the acting agents."""
        masks: dict[str, Mask] = {}
        moving: Moving = {}
        for kind in self._actions.kinds:
            acting = [agent for agent in game.acting if self._actions.kind_of.get(agent) is kind]
            if acting:
                flags = kind.flags([game.mask(a) for a in acting], [agent_label(game, a) for a in acting])
                moving[kind] = acting
                for name, action in kind.actions.items():
                    mask = _mask(kind, acting, None if action.is_continuous else flags[name])
                    if mask is not None:
                        masks[name] = mask
        return masks, moving


class TeamSpaceObserver(TeamObserver):
    """EntityEncoder that makes each agent one entity, whose features are its own observation.

    There is one type for each observation space, named after the kinds of agents that have it.

    Raises:
        ViewError: observations without a fixed size, or a view that makes several entities of an observation.
    """

    def __init__(self, game: PettingZooGame, team: Sequence[str], views: Views) -> None:
        self.team = tuple(team)
        chosen = views_by_agent(game, team, views)
        groups = group_agents(
            team,
            lambda one, other: (
                same(game.observation_spaces[one], game.observation_spaces[other])
                and same(chosen[one], chosen[other])
            ),
        )
        self._kinds = [
            ObservationGroup(game, members, chosen[members[0]] or Vector(name=name))
            for name, members in groups.items()
        ]
        for kind in self._kinds:
            if not kind.single:
                agent = kind.agents[0]
                raise ViewError(
                    f"{game.name}: view of {agent!r}: expected one entity per agent of the team, got"
                    " several entities"
                    f" from {chosen[agent]!r}. Use Vector or a GameView"
                )
        names, features = type_names(list(groups), self._kinds, [True] * len(groups))
        self._types = [name for called in names for name in called.values()]  # of each kind its only one
        self._actions = AgentActions(game, team, own=team)
        self.observation_space = EntitySpace(features, self._actions.action_space)

    def observe_final(self, game: PettingZooGame, agent: str, terminated: bool) -> Any:
        return game.observation(agent) if has_final_observation(game, agent, terminated) else None

    def entities(self, game: PettingZooGame, cut_off: Mapping[str, Any]) -> Observation:
        left = {*game.agents, *cut_off}
        rows: dict[str, NDArray[np.float32]] = {}
        ids: dict[str, list[str]] = {}
        for name, kind in zip(self._types, self._kinds, strict=True):
            there = [agent for agent in kind.agents if agent in left]
            if there:
                labels = [agent_label(game, agent) for agent in there]
                shown = [cut_off[a] if a in cut_off else game.observation(a) for a in there]
                seen = [kind.visible(one, where) for one, where in zip(shown, labels, strict=True)]
                (encoded,) = kind.encode(seen, labels).values()
                rows[name] = np.concatenate([rows[name], encoded.values]) if name in rows else encoded.values
                ids[name] = [*ids.get(name, ()), *there]
        return Observation(rows, ids=ids)


class TeamGameViewObserver(TeamObserver):
    """EntityEncoder of the whole state, as the `GameView` gives it to a central controller.

    Raises:
        ViewError: the view does not read the game, or agents that act at once have no entities of their own.
    """

    def __init__(self, game: PettingZooGame, team: Sequence[str], views: GameViews) -> None:
        self.team, self._views = tuple(team), views
        choices = {agent: views.first.choices(agent) for agent in team}
        ids = views.first.observe_team(self.team).ids
        agents = [agent for agent in team if agent in game.agents]
        acting = [agent for agent in agents if any(agent in names for names in ids.values())]
        # Agents that join later act as those that are there.
        own = set(acting if len(acting) < len(agents) else team)
        self._actions = AgentActions(game, team, choices, own)
        for kind in self._actions.kinds:
            if not kind.own and len(kind.agents) > 1 and not isinstance(game, AECGame):
                raise ViewError(
                    f"{game.name}: {views.kind.__name__}: expected an entity for each of the agents"
                    f" {', '.join(map(repr, kind.agents))}, which act simultaneously, got none"
                )
        self.observation_space = views.space(self._actions)

    def observe_final(self, game: PettingZooGame, agent: str, terminated: bool) -> Any:
        return None

    def entities(self, game: PettingZooGame, cut_off: Mapping[str, Any]) -> Observation:
        game.doing = f"{self._views.kind.__name__}.observe_team({self.team})"
        seen = self._views.of(game).observe_team(self.team)
        check_names(seen, self.observation_space, game.label)
        return Observation(seen.entities, seen.globals, ids=seen.ids)


def _mask(kind: ActionGroup, acting: list[str], flags: NDArray[np.bool_] | None) -> Mask | None:
    """Return one action's mask; None if it has no actor. `flags` (n, C) are None for a continuous action."""
    if flags is None:
        return ContinuousMask(actor_ids=acting) if kind.own else GlobalContinuousMask()
    possible = flags.any(1)
    if not possible.any():
        return None
    if not kind.own:
        return GlobalCategoricalMask(flags[0])
    actors = [agent for agent, can in zip(acting, possible, strict=True) if can]
    return CategoricalMask(actor_ids=actors, mask=flags[possible])


def game_actions(moving: Moving, actions: Mapping[str, Action]) -> dict[str, Any]:
    """Return the PettingZoo action of each agent that must act; 0 where the mask leaves it no choice.

    Args:
        moving: the second result of `TeamObserver.orders`.
        actions: the team's actions.
    """
    raw: dict[str, Any] = {}
    for kind, acting in moving.items():
        chosen = kind.zeros(len(acting))
        row = {agent: i for i, agent in enumerate(acting)}
        for name in kind.actions:
            match actions.get(name):
                case (
                    CategoricalAction(actors=actors, choices=values)
                    | ContinuousAction(actors=actors, values=values)
                ) if actors:
                    chosen[name][[row[agent] for agent in actors]] = values
                case GlobalCategoricalAction(choice=value) | GlobalContinuousAction(values=value):
                    chosen[name][:] = value
        raw.update(zip(acting, kind.game_actions(chosen, len(acting)), strict=True))
    return raw
