"""`TeamSight`: what a team sees of its game, and what its agents are told, as PettingZoo actions.

Shape alphabet: n agents of one kind, F features, C choices, K real numbers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...envs import Categorical, EntitySpace
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
from ...envs.batch.observation import Observation
from ..gymnasium.views.scope import ViewError
from ..gymnasium.views.vector import Vector
from .match import Match, TurnMatch
from .moves import MoveKind, Moves
from .names import group, same
from .sight import place, still_shown
from .space_sight import EyeKind, Views, type_names, views_by_agent
from .view_sight import GameViews, check_names

Flags = dict[str, NDArray[np.bool_]]  # per categorical action (n, C)


class TeamSight(ABC):
    """Sees and orders for a whole team. Abstract: `TeamOfSpaces` and `TeamOfViews`.

    Attributes:
        team: the agents' names.
        observation_space: its actions are performed by the agents' entities, whose ids are the names.
    """

    team: tuple[str, ...]
    observation_space: EntitySpace
    _moves: Moves

    @abstractmethod
    def last_look(self, match: Match, agent: str, terminated: bool) -> Any:
        """What must be kept of an agent that has just ended, for `entities`."""

    @abstractmethod
    def entities(self, match: Match, cut_off: Mapping[str, Any]) -> Observation:
        """What the team sees, without its actions.

        Args:
            cut_off: those who count although they are no longer in play, with their `last_look`.
        """

    def orders(self, match: Match) -> tuple[dict[str, Mask], dict[MoveKind, tuple[list[str], Flags]]]:
        """Who may do what now: the masks of an `Observation`, and for each kind of agents its movers and what
        is legal for them."""
        masks: dict[str, Mask] = {}
        moving: dict[MoveKind, tuple[list[str], Flags]] = {}
        for kind in self._moves.kinds:
            movers = [agent for agent in match.movers if self._moves.kind_of.get(agent) is kind]
            if movers:
                flags = kind.flags([match.mask(a) for a in movers], [place(match, a) for a in movers])
                moving[kind] = movers, flags
                for name, action in kind.actions.items():
                    mask = _mask(kind, movers, flags[name] if isinstance(action, Categorical) else None)
                    if mask is not None:
                        masks[name] = mask
        return masks, moving


class TeamOfSpaces(TeamSight):
    """Every agent is one entity, whose features are all that its game shows it.

    There is one type for each observation space, named after the kinds of agents that have it.

    Raises:
        ViewError: observations of no fixed size, or a view that makes several entities of one observation.
    """

    def __init__(self, match: Match, team: Sequence[str], views: Views) -> None:
        self.team = tuple(team)
        chosen = views_by_agent(match, team, views)
        groups = group(
            team,
            lambda one, other: (
                same(match.observation_spaces[one], match.observation_spaces[other])
                and same(chosen[one], chosen[other])
            ),
        )
        self._kinds = [
            EyeKind(match, members, chosen[members[0]] or Vector(name=name))
            for name, members in groups.items()
        ]
        for kind in self._kinds:
            if not kind.single:
                agent = kind.agents[0]
                raise ViewError(
                    f"{match.name}: in a team every agent is one entity; {chosen[agent]!r} makes several of"
                    f" what {agent!r} sees; a Vector makes one, and a GameView reads the game itself"
                )
        names, features = type_names(list(groups), self._kinds, [True] * len(groups))
        self._types = [name for called in names for name in called.values()]  # of each kind its only one
        self._moves = Moves(match, team, own=team)
        self.observation_space = EntitySpace(features, self._moves.action_space)

    def last_look(self, match: Match, agent: str, terminated: bool) -> Any:
        return match.observation(agent) if still_shown(match, agent, terminated) else None

    def entities(self, match: Match, cut_off: Mapping[str, Any]) -> Observation:
        left = {*match.living, *cut_off}
        rows: dict[str, NDArray[np.float32]] = {}
        ids: dict[str, list[str]] = {}
        for name, kind in zip(self._types, self._kinds, strict=True):
            there = [agent for agent in kind.agents if agent in left]
            if there:
                places = [place(match, agent) for agent in there]
                shown = [cut_off[a] if a in cut_off else match.observation(a) for a in there]
                seen = [kind.visible(one, where) for one, where in zip(shown, places, strict=True)]
                (encoded,) = kind.encode(seen, places).values()
                rows[name] = np.concatenate([rows[name], encoded.values]) if name in rows else encoded.values
                ids[name] = [*ids.get(name, ()), *there]
        return Observation(rows, ids=ids)


class TeamOfViews(TeamSight):
    """The team sees the field as its `GameView` shows it to a central commander.

    Raises:
        ViewError: the view doesn't read the game, or shows agents that move at once no entities of their own.
    """

    def __init__(self, match: Match, team: Sequence[str], views: GameViews) -> None:
        self.team, self._views = tuple(team), views
        choices = {agent: views.first.choices(agent) for agent in team}
        ids = views.first.observe_team(self.team).ids
        living = [agent for agent in team if agent in match.living]
        acting = [agent for agent in living if any(agent in names for names in ids.values())]
        # Who comes later acts as those who are there.
        own = set(acting if len(acting) < len(living) else team)
        self._moves = Moves(match, team, choices, own)
        for kind in self._moves.kinds:
            if not kind.own and len(kind.agents) > 1 and not isinstance(match, TurnMatch):
                raise ViewError(
                    f"{match.name}: {views.kind.__name__} shows no entities of their own for"
                    f" {', '.join(map(repr, kind.agents))}, which move at once"
                )
        self.observation_space = views.space(self._moves)

    def last_look(self, match: Match, agent: str, terminated: bool) -> Any:
        return None

    def entities(self, match: Match, cut_off: Mapping[str, Any]) -> Observation:
        match.doing = f"{self._views.kind.__name__}.observe_team({self.team})"
        seen = self._views.of(match).observe_team(self.team)
        check_names(seen, self.observation_space, match.place)
        return Observation(seen.entities, seen.globals, ids=seen.ids)


def _mask(kind: MoveKind, movers: list[str], flags: NDArray[np.bool_] | None) -> Mask | None:
    """One action's mask; None where nobody has a choice. `flags` (n, C) are None for a continuous action."""
    if flags is None:
        return ContinuousMask(actor_ids=movers) if kind.own else GlobalContinuousMask()
    possible = flags.any(1)
    if not possible.any():
        return None
    if not kind.own:
        return GlobalCategoricalMask(flags[0])
    actors = [agent for agent, can in zip(movers, possible, strict=True) if can]
    return CategoricalMask(actor_ids=actors, mask=flags[possible])


def raw_actions(
    moving: Mapping[MoveKind, tuple[list[str], Flags]], actions: Mapping[str, Action]
) -> dict[str, Any]:
    """The PettingZoo action of each agent that must move; what is not ordered, is as `MoveKind.first` says.

    Args:
        moving: as `TeamSight.orders` returned it.
        actions: what the team's agents are told.
    """
    raw: dict[str, Any] = {}
    for kind, (movers, flags) in moving.items():
        chosen = kind.first(flags, len(movers))
        row = {agent: i for i, agent in enumerate(movers)}
        for name in kind.actions:
            match actions.get(name):
                case (
                    CategoricalAction(actors=actors, choices=values)
                    | ContinuousAction(actors=actors, values=values)
                ) if actors:
                    chosen[name][[row[agent] for agent in actors]] = values
                case GlobalCategoricalAction(choice=value) | GlobalContinuousAction(values=value):
                    chosen[name][:] = value
        raw.update(zip(movers, kind.raw(chosen, len(movers)), strict=True))
    return raw
