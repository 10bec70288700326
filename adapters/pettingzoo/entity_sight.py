"""`EntitySight`: agents whose games show them entities already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import Any

import numpy as np

from ...envs import EntityActionSpace, EntityBatch, EntitySpace, ObservationError, batch_observations
from ..gymnasium.views.scope import ViewError
from .match import Match
from .moves import Orders
from .sight import Look, Sight, place, still_shown


class EntitySight(Sight):
    """Agents with observations of an `EntitySpace`, as in games made by `to_pettingzoo`.

    The types and actions of all agents together are one space; an agent has none of the others' alone.

    Raises:
        ViewError: agents' spaces that do not go together.
    """

    def __init__(self, match: Match, agents: Sequence[str]) -> None:
        self._spaces: dict[str, EntitySpace] = {}
        for agent in agents:
            space, actions = match.observation_spaces[agent], match.action_spaces[agent]
            if not isinstance(space, EntitySpace) or space.actions != actions:
                raise ViewError(
                    f"{match.name}: the action space of {agent!r} is {actions!r}, which its observation space"
                    f" {space!r} was not made for"
                )
            self._spaces[agent] = space
        self.observation_space = space = _union(match.name, self._spaces)
        self._nothing = {
            name: np.zeros((0, len(features)), np.float32) for name, features in space.entities.items()
        }
        self._nobody = {
            name: {key: np.zeros((0, *part.box.shape), part.box.dtype) for key, part in masks.items()}
            for name, masks in space["actions"].spaces.items()  # type: ignore[attr-defined]
        }
        self._global_columns = {
            agent: [space.global_features.index(name) for name in its.global_features]
            for agent, its in self._spaces.items()
        }

    def look(self, match: Match, agent: str, moves: bool) -> Look:
        return Look(agent, place(match, agent), match.observation(agent), None, moves)

    def last_look(self, match: Match, agent: str, terminated: bool) -> Look | None:
        return self.look(match, agent, False) if still_shown(match, agent, terminated) else None

    def batch(self, looks: Sequence[Look | None]) -> EntityBatch:
        """The spaces' own check of every observation would take longer than many games' steps: what would not
        show otherwise is looked at here, and all of it where something is wrong."""
        try:
            whole = all(look is None or self._is_whole(look) for look in looks)
            batch = batch_observations(self.observation_space, [self._completed(look) for look in looks])
            if whole and all(np.isfinite(rows.values).all() for rows in batch.entities.values()):
                return batch
        except Exception:
            self._check(looks)
            raise
        self._check(looks)
        return batch

    def _is_whole(self, look: Look) -> bool:
        """Whether an observation has all parts of its agent's space and no other."""
        space, seen = self._spaces[look.agent], look.seen
        return (
            seen.keys() == space.spaces.keys()
            and seen.get("entities", {}).keys() == space.entities.keys()
            and seen["actions"].keys() == space.actions.spaces.keys()
        )

    def _check(self, looks: Sequence[Look | None]) -> None:
        """Say which observation is not of its space."""
        for look in looks:
            problem = None if look is None else self._spaces[look.agent].problem(look.seen)
            if look is not None and problem:
                raise ObservationError(f"{look.place}: {problem}")

    def _completed(self, look: Look | None) -> dict[str, Any]:
        """An observation of the union of all agents' spaces.

        Entity indices stay what they are: the types come in the same order, and those added are empty.
        """
        seen: Mapping[str, Any] = {} if look is None else look.seen
        entities = {**self._nothing, **seen.get("entities", {})}
        moves = look is not None and look.moves
        globals_ = np.zeros(len(self.observation_space.global_features), np.float32)
        if look is not None and "globals" in seen:
            globals_[self._global_columns[look.agent]] = seen["globals"]
        return {
            "entities": entities,
            "globals": globals_,
            "visible": {n: np.ones(len(e), np.int8) for n, e in entities.items()} | seen.get("visible", {}),
            "actions": {**self._nobody, **(seen["actions"] if moves else {})},
        }

    def raw(self, orders: Orders, batch: EntityBatch, movers: Sequence[str | None]) -> list[Any]:
        """Where nothing is ordered, the game gets no orders."""
        rows = [(name, order.values, order.offsets.tolist()) for name, order in orders.items()]
        return [
            None
            if agent is None
            else {
                name: values[cuts[lane] : cuts[lane + 1]].copy()
                for name, values, cuts in rows
                if name in self._spaces[agent].actions.spaces
            }
            for lane, agent in enumerate(movers)
        ]


def _union(env: str, agents: Mapping[str, EntitySpace]) -> EntitySpace:
    """The types, global features and actions of all agents; each agent's types keep their order."""
    entities: dict[str, tuple[str, ...]] = {}
    actions: dict[str, Any] = {}
    order: TopologicalSorter[str] = TopologicalSorter()
    for agent, space in agents.items():
        for name, features in space.entities.items():
            order.add(name)
            if entities.setdefault(name, features) != features:
                raise ViewError(
                    f"{env}: agent {agent!r} sees entity type {name!r} with the features {list(features)},"
                    f" another agent with {list(entities[name])}"
                )
        for before, after in pairwise(space.entities):
            order.add(after, before)
        for name, action in space.actions.items():
            if actions.setdefault(name, action) != action:
                raise ViewError(
                    f"{env}: action {name!r} of agent {agent!r} is {action!r}, of another agent"
                    f" {actions[name]!r}"
                )
    try:
        types = {name: entities[name] for name in order.static_order()}
    except CycleError as error:
        raise ViewError(f"{env}: agents have the entity types {error.args[1]} in different orders") from None
    globals_ = dict.fromkeys(name for space in agents.values() for name in space.global_features)
    hidden = any(space.hidden for space in agents.values())
    return EntitySpace(types, EntityActionSpace(actions), list(globals_), hidden)
