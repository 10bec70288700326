"""`SpaceObserver`: encoder of agents' own observations by views.

Shape alphabet: B lanes, n agents of one group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from ...envs import EntityBatch, EntitySpace, Observation, ObservationError
from ...envs.multi_agent import kind_of
from ...ragged import RaggedArray, concatenate
from ..gymnasium.lane_errors import contains
from ..gymnasium.translation import without_mask
from ..gymnasium.views.auto import auto
from ..gymnasium.views.batches import stack
from ..gymnasium.views.scope import Scope, View, ViewError
from ..gymnasium.views.values import flat_values
from ..gymnasium.views.vector import Vector
from .agent_actions import AgentActions
from .agent_names import group_agents, same
from .agent_observer import AgentObservation, AgentObserver
from .game import PettingZooGame, has_mask

#: The same view for all agents, one by agent or kind, or a function of the agent; None for `auto`.
Views = View | Mapping[str, View] | Callable[[str], View] | None


class ObservationGroup:
    """Agents that share an observation space and a view of it.

    Attributes:
        agents: their names.
        entities: entity type, as the view names it -> features.
        single: True if each observation is exactly one entity.
        has_fixed_size: True if all observations of the space have the same size.

    Args:
        game: a game with these agents.
        agents: their names.
        view: their view; None for the one that suits.
        title: the name of the group.
        team: True if each observation is to be one entity.

    Raises:
        ViewError: a view that does not fit.
    """

    def __init__(
        self, game: PettingZooGame, agents: Sequence[str], view: View | None, title: str, team: bool
    ) -> None:
        self.agents, self._env = tuple(agents), game.name
        self._space: spaces.Space[Any] = game.observation_spaces[agents[0]]
        self._key: str | None = None  # of the part beside the action mask
        if has_mask(self._space):
            assert isinstance(self._space, spaces.Dict)
            self._space, self._key = without_mask(self._space)
        scope = Scope(game.name, auto).at(*(() if self._key is None else (self._key,)))
        self.has_fixed_size = flat_values(self._space, scope) is not None
        if team and view is None:
            self.check_fixed_size()
            view = Vector(name=title)
        encoder = (view or scope.view_of(self._space)).bind(self._space, scope)
        self.entities, self.single, self._encode = encoder.entities, encoder.single, encoder.encode

    def check_fixed_size(self) -> None:
        """Check that observations have a fixed size, as those of a team must: each becomes one entity.

        Raises:
            ViewError: they have not.
        """
        if not self.has_fixed_size:
            raise ViewError(
                f"{self._env}: observation_space of {self.agents[0]!r}: expected observations of a fixed size"
                f" (each becomes one entity of the team), got {self._space}. Use a GameView, or mode 'lanes'"
            )

    def visible(self, observation: Any, where: str) -> Any:
        """Return a game's observation without its action mask."""
        if self._key is None:
            return observation
        try:
            return observation[self._key]
        except (KeyError, TypeError, IndexError):
            raise self._misfit(observation, where, f"{self._key!r} is missing") from None

    def encode(self, observations: Sequence[AgentObservation]) -> dict[str, RaggedArray]:
        """Encode the observations of n agents as entities, by type.

        Raises:
            ObservationError: an observation that is not in the space.
        """
        try:
            return self._encode(stack(self._space, [one.value for one in observations]), len(observations))
        except Exception as error:
            for observation in observations:
                self._check(observation.value, observation.label)
            if not isinstance(error, ObservationError):
                labels = ", ".join(one.label for one in observations)
                error.add_note(f"raised by a view of {self._space}, at {labels}")
            raise

    def _check(self, seen: Any, where: str) -> None:
        """Raise if this is the observation that cannot be encoded."""
        try:
            self._encode(stack(self._space, [seen]), 1)
        except ObservationError as error:
            raise ObservationError(f"{where}: {str(error).removeprefix(f'{self._env}: ')}") from error
        except Exception as error:
            if not contains(self._space, seen):
                raise self._misfit(seen, where, str(error)) from error

    def _misfit(self, seen: Any, where: str, why: str) -> ObservationError:
        shape = f"an array of {seen.dtype} {seen.shape}" if isinstance(seen, np.ndarray) else f"{seen!r:.300}"
        return ObservationError(f"{where}: expected an observation of {self._space}, got {shape}: {why}")


class SpaceObserver(AgentObserver):
    """Encoder of the game's own observations, by Gymnasium's views.

    Agents with the same observation space have the same entity types. If spaces differ, the types of `auto`
    are named after the kinds of agents, and so are declared types with the same name and other features. The
    types of other agents stay empty.

    In a team each agent is one entity, whose features are its own observation, and the actor of its actions.
    There is one type for each observation space, named after the kinds of agents that have it.

    Args:
        game: a game with these agents.
        agents: their names.
        views: their views.
        team: True if the agents are a team.

    Raises:
        ViewError: a view that does not fit; of a team: observations without a fixed size, or a view that
            makes several entities of an observation.
    """

    def __init__(
        self, game: PettingZooGame, agents: Sequence[str], views: Views = None, team: bool = False
    ) -> None:
        chosen = views_by_agent(game, agents, views)
        groups = group_agents(
            agents,
            lambda one, other: (
                same(game.observation_spaces[one], game.observation_spaces[other])
                and same(chosen[one], chosen[other])
            ),
        )
        self._groups: list[ObservationGroup] = []
        for name, members in groups.items():
            view = chosen[members[0]]
            group = ObservationGroup(game, members, view, name, team)
            if team and not group.single:
                group.check_fixed_size()
                raise ViewError(
                    f"{game.name}: view of {members[0]!r}: expected one entity per agent of the team, got"
                    f" several entities from {view!r}. Use Vector or a GameView"
                )
            self._groups.append(group)
        declared = [team or chosen[members[0]] is not None for members in groups.values()]
        self._names, types = type_names(list(groups), self._groups, declared)
        self._group_of = {agent: group for group in self._groups for agent in group.agents}
        self.actions = AgentActions(game, agents, own=agents if team else ())
        self.observation_space = EntitySpace(types, self.actions.action_space)

    def _value(self, game: PettingZooGame, agent: str, label: str) -> Any:
        return self._group_of[agent].visible(game.observation(agent), label)

    def batch(self, observations: Sequence[AgentObservation | None]) -> EntityBatch:
        parts: dict[str, list[tuple[NDArray[np.int64], RaggedArray]]] = {}
        for group, names in zip(self._groups, self._names, strict=True):
            mine = [
                (lane, observation)
                for lane, observation in enumerate(observations)
                if observation is not None and self._group_of[observation.agent] is group
            ]
            if mine:
                lanes = np.array([lane for lane, _ in mine], np.int64)
                for name, rows in group.encode([observation for _, observation in mine]).items():
                    parts.setdefault(names[name], []).append((lanes, rows))
        entities = {
            name: _spread(parts.get(name, []), len(observations), len(features))
            for name, features in self.observation_space.entities.items()
        }
        globals_ = np.zeros((len(observations), 0), np.float32)
        return EntityBatch(entities, globals_, self._masks(observations))

    def team_observation(
        self, game: PettingZooGame, team: Sequence[str], cut_off: Mapping[str, AgentObservation]
    ) -> Observation:
        """Return the observation of a team, whose ids are the agents' names, without its actions.

        Args:
            game: the game.
            team: the agents of the team.
            cut_off: truncated agents that stay in the observation, with their last observations.
        """
        rows: dict[str, NDArray[np.float32]] = {}
        ids: dict[str, list[str]] = {}
        for group, names in zip(self._groups, self._names, strict=True):
            (name,) = names.values()
            there = [agent for agent in group.agents if agent in game.agents or agent in cut_off]
            if there:
                seen = [cut_off[a] if a in cut_off else self.observe(game, a, False) for a in there]
                (encoded,) = group.encode(seen).values()
                rows[name] = np.concatenate([rows[name], encoded.values]) if name in rows else encoded.values
                ids[name] = [*ids.get(name, ()), *there]
        return Observation(rows, ids=ids)


def views_by_agent(game: PettingZooGame, agents: Sequence[str], views: Views) -> dict[str, View | None]:
    """Return the view of each agent; None for `auto`.

    Raises:
        ViewError: an agent without a view, or an object that is not a view.
    """
    chosen: dict[str, View | None] = {}
    for agent in agents:
        view: Any = views
        if isinstance(views, Mapping):
            view = views.get(agent, views.get(kind_of(agent)))
            if view is None:
                raise ViewError(
                    f"{game.name}: expected a view for {agent!r}, got views for {', '.join(map(repr, views))}"
                )
        elif views is not None and not isinstance(views, View):
            view = views(agent) if callable(views) else views
        view = None if view is auto else view
        if not isinstance(view, View | None):
            raise ViewError(
                f"{game.name}: view of {agent!r}: expected one of ez.views, a GameView class, a dict of views"
                f" by agent or kind, or a function from agent to view, got {view!r}"
            )
        chosen[agent] = view
    return chosen


def type_names(
    titles: Sequence[str], kinds: Sequence[ObservationGroup], declared: Sequence[bool]
) -> tuple[list[dict[str, str]], dict[str, tuple[str, ...]]]:
    """Return for each group its types' names among the types of all groups, and all types' features.

    Args:
        titles: the names of the groups.
        kinds: the groups.
        declared: whether the user named the group's types.
    """
    features: dict[str, set[tuple[str, ...]]] = {}
    for kind in kinds:
        for name, its in kind.entities.items():
            features.setdefault(name, set()).add(its)
    names: list[dict[str, str]] = []
    types: dict[str, tuple[str, ...]] = {}
    for title, kind, has_names in zip(titles, kinds, declared, strict=True):
        called = {}
        for name, its in kind.entities.items():
            if len(kinds) > 1 and (not has_names or len(features[name]) > 1):
                called[name] = title if len(kind.entities) == 1 else f"{title}/{name}"
            else:
                called[name] = name
            types[called[name]] = its
        names.append(called)
    return names, types


def _spread(
    parts: Sequence[tuple[NDArray[np.int64], RaggedArray]], num_lanes: int, width: int
) -> RaggedArray:
    """Merge rows of some lanes each (in ascending order) into one array of all lanes."""
    if len(parts) == 1:
        lanes, rows = parts[0]
        if len(lanes) == num_lanes:
            return rows
        lengths = np.zeros(num_lanes, np.int64)
        lengths[lanes] = rows.lengths
        return RaggedArray.from_lengths(rows.values, lengths)
    index = np.full(num_lanes, sum(len(rows) for _, rows in parts))
    start = 0
    for lanes, _ in parts:
        index[lanes] = start + np.arange(len(lanes))
        start += len(lanes)
    nothing = RaggedArray.empty(1, (width,))
    return concatenate([*(rows for _, rows in parts), nothing]).gather(index)
