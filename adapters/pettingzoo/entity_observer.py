"""`EntitySpaceObserver`: encoder for games whose observations are entities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import Any

import numpy as np

from ...envs import EntityActionSpace, EntityBatch, EntitySpace, ObservationError, batch_observations
from ..gymnasium.views.scope import ViewError
from .agent_actions import Actions
from .agent_observer import AgentObservation, AgentObserver
from .game import PettingZooGame


class EntitySpaceObserver(AgentObserver):
    """Encoder of agents with observations of an `EntitySpace`, as in games of `to_pettingzoo`.

    All agents' entity types and actions form one space; types and actions that an agent lacks stay empty.

    Raises:
        ViewError: agents' spaces that cannot be united.
    """

    def __init__(self, game: PettingZooGame, agents: Sequence[str]) -> None:
        self._spaces: dict[str, EntitySpace] = {}
        for agent in agents:
            space, actions = game.observation_spaces[agent], game.action_spaces[agent]
            if not isinstance(space, EntitySpace) or space.actions != actions:
                raise ViewError(
                    f"{game.name}: action space of {agent!r}: expected the actions of its observation space"
                    f" {space!r}, got {actions!r}"
                )
            self._spaces[agent] = space
        self.observation_space = space = _union(game.name, self._spaces)
        self._no_entities = {
            name: np.zeros((0, len(features)), np.float32) for name, features in space.entities.items()
        }
        self._no_actors = {
            name: {key: np.zeros((0, *part.box.shape), part.box.dtype) for key, part in masks.items()}
            for name, masks in space["actions"].spaces.items()  # type: ignore[attr-defined]
        }
        self._global_columns = {
            agent: [space.global_features.index(name) for name in its.global_features]
            for agent, its in self._spaces.items()
        }

    def _value(self, game: PettingZooGame, agent: str, label: str) -> Any:
        return game.observation(agent)

    def batch(self, observations: Sequence[AgentObservation | None]) -> EntityBatch:
        """Batch the observations.

        A full check of every observation would take longer than many games' steps. Only what batching does
        not notice is checked here, and everything once something is wrong.
        """
        try:
            whole = all(observation is None or self._is_whole(observation) for observation in observations)
            batch = batch_observations(
                self.observation_space, [self._completed(observation) for observation in observations]
            )
            if whole and self._is_sound(batch):
                return batch
        except Exception:
            self._check(observations)
            raise
        self._check(observations)
        return batch

    def _is_sound(self, batch: EntityBatch) -> bool:
        """Return True if all numbers are finite and every actor may do something."""
        return (
            all(np.isfinite(rows.values).all() for rows in batch.entities.values())
            and bool(np.isfinite(batch.globals).all())
            and all(
                action.actor_without_choice(batch.actions[name]) is None
                for name, action in self.observation_space.actions.items()
            )
        )

    def _is_whole(self, observation: AgentObservation) -> bool:
        """Return True if an observation has exactly the parts of its agent's space."""
        space, seen = self._spaces[observation.agent], observation.value
        return (
            seen.keys() == space.spaces.keys()
            and seen.get("entities", {}).keys() == space.entities.keys()
            and seen["actions"].keys() == space.actions.spaces.keys()
        )

    def _check(self, observations: Sequence[AgentObservation | None]) -> None:
        """Raise an ObservationError for the first observation that is not in its space."""
        for observation in observations:
            problem = (
                None if observation is None else self._spaces[observation.agent].problem(observation.value)
            )
            if observation is not None and problem:
                raise ObservationError(f"{observation.label}: {problem}")

    def _completed(self, observation: AgentObservation | None) -> dict[str, Any]:
        """Extend an observation to the united space of all agents.

        Entity indices do not change: the types keep their order, and added types are empty.
        """
        seen: Mapping[str, Any] = {} if observation is None else observation.value
        entities = {**self._no_entities, **seen.get("entities", {})}
        acts = observation is not None and observation.acts
        globals_ = np.zeros(len(self.observation_space.global_features), np.float32)
        if observation is not None and "globals" in seen:
            globals_[self._global_columns[observation.agent]] = seen["globals"]
        frame = self.observation_space.frame
        picture = {} if frame is None else {"frame": seen.get("frame", np.zeros(frame, np.uint8))}
        return {
            **picture,
            "entities": entities,
            "globals": globals_,
            "visible": {n: np.ones(len(e), np.int8) for n, e in entities.items()} | seen.get("visible", {}),
            "actions": {**self._no_actors, **(seen["actions"] if acts else {})},
        }

    def game_actions(self, actions: Actions, acting: Sequence[str | None]) -> list[Any]:
        """Return the PettingZoo action of each lane; an empty action stays empty."""
        rows = [(name, given.values, given.offsets.tolist()) for name, given in actions.items()]
        return [
            None
            if agent is None
            else {
                name: values[cuts[lane] : cuts[lane + 1]].copy()
                for name, values, cuts in rows
                if name in self._spaces[agent].actions.spaces
            }
            for lane, agent in enumerate(acting)
        ]


def _union(env: str, agents: Mapping[str, EntitySpace]) -> EntitySpace:
    """Return the space of all agents' types, global features and actions; types keep each agent's order."""
    entities: dict[str, tuple[str, ...]] = {}
    actions: dict[str, Any] = {}
    order: TopologicalSorter[str] = TopologicalSorter()
    for agent, space in agents.items():
        for name, features in space.entities.items():
            order.add(name)
            if entities.setdefault(name, features) != features:
                raise ViewError(
                    f"{env}: agent {agent!r}: entity type {name!r}: expected the features"
                    f" {list(entities[name])} as of another agent, got {list(features)}"
                )
        for before, after in pairwise(space.entities):
            order.add(after, before)
        for name, action in space.actions.items():
            if actions.setdefault(name, action) != action:
                raise ViewError(
                    f"{env}: action {name!r} of agent {agent!r}: expected {actions[name]!r} as of"
                    f" another agent, got {action!r}"
                )
    try:
        types = {name: entities[name] for name in order.static_order()}
    except CycleError as error:
        raise ViewError(
            f"{env}: expected entity types in the same order for all agents, got different orders of"
            f" the entity types {error.args[1]}"
        ) from None
    frames = {space.frame for space in agents.values() if space.frame is not None}
    if len(frames) > 1:
        raise ViewError(f"{env}: frame: expected pictures of one shape for all agents, got {sorted(frames)}")
    globals_ = dict.fromkeys(name for space in agents.values() for name in space.global_features)
    hidden = any(space.hidden for space in agents.values())
    optional = all(space.actions.optional for space in agents.values())
    return EntitySpace(
        types,
        EntityActionSpace(actions, optional=optional),
        list(globals_),
        hidden,
        frame=next(iter(frames), None),
    )
