"""`SpaceObserver`: encoder of agents' own observations by views.

Shape alphabet: B lanes, n agents of one group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from ...envs import EntityBatch, EntitySpace, ObservationError
from ...ragged import RaggedArray, concatenate
from ..gymnasium.translation import without_mask
from ..gymnasium.views.auto import auto
from ..gymnasium.views.batches import stack
from ..gymnasium.views.scope import Scope, View, ViewError
from .agent_actions import AgentActions, Orders
from .agent_names import group_agents, kind_of, same
from .agent_observer import AgentObservation, AgentObserver, action_masks, agent_label, has_final_observation
from .game import PettingZooGame, has_mask

#: The same view for all agents, one by agent or kind, or a function of the agent; None for `auto`.
Views = View | Mapping[str, View] | Callable[[str], View] | None


class ObservationGroup:
    """Agents that share an observation space and a view of it.

    Attributes:
        agents: their names.
        entities: entity type, as the view names it -> features.
        single: True if each observation is exactly one entity.
    """

    def __init__(self, game: PettingZooGame, agents: Sequence[str], view: View | None) -> None:
        self.agents, self._env = tuple(agents), game.name
        self._space, self._key = without_action_mask(game.observation_spaces[agents[0]])
        scope = Scope(game.name, auto).at(*(() if self._key is None else (self._key,)))
        encoder = (view or auto(self._space)).bind(self._space, scope)
        self.entities, self.single, self._encode = encoder.entities, encoder.single, encoder.encode

    def visible(self, observation: Any, where: str) -> Any:
        """Return a game's observation without its action mask."""
        if self._key is None:
            return observation
        try:
            return observation[self._key]
        except (KeyError, TypeError, IndexError):
            raise self._misfit(observation, where, f"{self._key!r} is missing") from None

    def encode(self, seen: Sequence[Any], labels: Sequence[str]) -> dict[str, RaggedArray]:
        """Encode the observations of n agents as entities, by type.

        Raises:
            ObservationError: an observation that is not in the space.
        """
        try:
            return self._encode(stack(self._space, seen), len(seen))
        except Exception as error:
            for one, where in zip(seen, labels, strict=True):
                self._check(one, where)
            if not isinstance(error, ObservationError):
                error.add_note(f"raised by a view of {self._space}, at {', '.join(labels)}")
            raise

    def _check(self, seen: Any, where: str) -> None:
        """Raise if this is the observation that cannot be encoded."""
        try:
            self._encode(stack(self._space, [seen]), 1)
        except ObservationError as error:
            raise ObservationError(f"{where}: {str(error).removeprefix(f'{self._env}: ')}") from error
        except Exception as error:
            if not self._space.contains(seen):
                raise self._misfit(seen, where, str(error)) from error

    def _misfit(self, seen: Any, where: str, why: str) -> ObservationError:
        shape = f"an array of {seen.dtype} {seen.shape}" if isinstance(seen, np.ndarray) else repr(seen)
        return ObservationError(f"{where}: expected an observation of {self._space}, got {shape}: {why}")


class SpaceObserver(AgentObserver):
    """EntityEncoder of the game's own observations, by Gymnasium's views.

    Agents with the same observation space have the same entity types. If spaces differ, the types of `auto`
    are named after the kinds of agents, and so are declared types with the same name and other features. The
    types of other agents stay empty.

    Args:
        game: a game with these agents.
        agents: their names.
        views: their views.

    Raises:
        ViewError: a view that does not fit.
    """

    def __init__(self, game: PettingZooGame, agents: Sequence[str], views: Views = None) -> None:
        chosen = views_by_agent(game, agents, views)
        groups = group_agents(
            agents,
            lambda one, other: (
                same(game.observation_spaces[one], game.observation_spaces[other])
                and same(chosen[one], chosen[other])
            ),
        )
        self._kinds = [ObservationGroup(game, members, chosen[members[0]]) for members in groups.values()]
        declared = [chosen[members[0]] is not None for members in groups.values()]
        self._names, types = type_names(list(groups), self._kinds, declared)
        self._kind_of = {agent: kind for kind in self._kinds for agent in kind.agents}
        self._actions = AgentActions(game, agents)
        self.observation_space = EntitySpace(types, self._actions.action_space)

    def observe(self, game: PettingZooGame, agent: str, acts: bool) -> AgentObservation:
        where = agent_label(game, agent)
        seen = self._kind_of[agent].visible(game.observation(agent), where)
        return AgentObservation(agent, where, seen, game.mask(agent) if acts else None, acts)

    def observe_final(self, game: PettingZooGame, agent: str, terminated: bool) -> AgentObservation | None:
        return self.observe(game, agent, False) if has_final_observation(game, agent, terminated) else None

    def batch(self, observations: Sequence[AgentObservation | None]) -> EntityBatch:
        parts: dict[str, list[tuple[NDArray[np.int64], RaggedArray]]] = {}
        for kind, names in zip(self._kinds, self._names, strict=True):
            mine = [
                (lane, observation)
                for lane, observation in enumerate(observations)
                if observation is not None and self._kind_of[observation.agent] is kind
            ]
            if mine:
                lanes = np.array([lane for lane, _ in mine], np.int64)
                encoded = kind.encode(
                    [observation.value for _, observation in mine],
                    [observation.label for _, observation in mine],
                )
                for name, rows in encoded.items():
                    parts.setdefault(names[name], []).append((lanes, rows))
        entities = {
            name: _spread(parts.get(name, []), len(observations), len(features))
            for name, features in self.observation_space.entities.items()
        }
        masks = action_masks(self._actions, observations, np.full(len(observations), -1))
        return EntityBatch(entities, np.zeros((len(observations), 0), np.float32), masks)

    def game_actions(self, orders: Orders, acting: Sequence[str | None]) -> list[Any]:
        return self._actions.game_actions(orders, acting)


def without_action_mask(space: spaces.Space[Any]) -> tuple[spaces.Space[Any], str | None]:
    """Return the space without its action mask, and the key of the rest if that is a single part."""
    if has_mask(space):
        assert isinstance(space, spaces.Dict)
        return without_mask(space)
    return space, None


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
