"""`ActionPart`: an action space, or a part of one, as named entity actions and back.

`EntityActions` are those that belong to entities: `PerEntity`, applied to a space.
Shape alphabet: B observations in a batch, n numbers of the action, N entities in all observations, C choices,
K real numbers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from ...envs import (
    ActionMask,
    ActionSpace,
    Continuous,
    EntityBatch,
    ObservationError,
    SelectEntity,
)
from ...envs.actions.array_checks import as_float32
from ...ragged import RaggedArray, join_rows
from .views.per_entity import PerEntity
from .views.scope import EntityEncoder, ViewError

#: The feature by which `Rows` and `Columns` number their entities.
_ROW = "row"
#: The type of the entity that selects, where none is declared.
ACTOR = "Actor"

#: Per named action what was chosen in each lane: int64 (B,), or float32 (B, K) where it is continuous.
Choices = Mapping[str, NDArray[Any]]


class ActionPart(ABC):
    """A Gymnasium action space, taken apart into named actions: global ones, or (`owned`) of entities."""

    names: dict[str, ActionSpace]
    #: Those of the actions that belong to entities.
    owned: Mapping[str, EntityActions] = {}

    @abstractmethod
    def decode(self, choices: Choices) -> Any:
        """The batched Gymnasium action."""

    @abstractmethod
    def masks(self, mask: Any, batch_size: int, place: str) -> dict[str, NDArray[np.bool_]]:
        """For each categorical action bool (B, C), from a batched mask as `space.sample(mask=…)` takes it.

        Raises:
            ObservationError: a mask of the wrong length.
        """


def entity_actions(
    declared: PerEntity, space: spaces.Space[Any], whole: ActionPart, name: str, env: str
) -> EntityActions:
    """Return the actions of entities for one of Gymnasium's, whose global actions are `whole`.

    Raises:
        ViewError: a space that has no number for each entity.
    """
    place = f"{env}: action {name!r}: PerEntity({declared.entity!r})"
    actions = list(whole.names.values())
    if isinstance(space, spaces.Discrete) and space.n > len(declared.others):
        return _Selecting(declared, SelectEntity(), whole, name, place, int(space.n) - len(declared.others))
    if declared.others:
        raise ViewError(
            f"{place}: others: expected a Discrete with more choices than the {len(declared.others)} in"
            f" {list(declared.others)}, got {space}"
        )
    if isinstance(space, spaces.MultiDiscrete | spaces.MultiBinary) and len(set(actions)) == 1:
        return _Choosing(declared, actions[0].per_actor(), whole, name, place, len(actions))
    if isinstance(space, spaces.Box) and space.shape:
        low, high = (as_float32(bound).reshape(space.shape[0], -1) for bound in (space.low, space.high))
        if (low == low[0]).all() and (high == high[0]).all():
            return _Continuous(declared, Continuous(low[0], high[0]), whole, name, place, len(low))
    raise ViewError(
        f"{place}: expected Discrete, MultiDiscrete or MultiBinary with the same choices everywhere, or a Box"
        f" with the same bounds at every index, got {space}"
    )


class EntityActions(ActionPart):
    """An action of which number i belongs to entity i of a type. Abstract.

    Args:
        action: the entities' action.
        whole: the same action as global ones.
        place: what error messages call it.
        count: n, without the choices that are no entities.
    """

    def __init__(
        self,
        declared: PerEntity,
        action: ActionSpace,
        whole: ActionPart,
        name: str,
        place: str,
        count: int,
    ) -> None:
        self.declared, self.whole, self.name, self.place, self.count = declared, whole, name, place, count
        self.names = {name: action}
        self.owned = {name: self}
        self.index: int | None = None

    @abstractmethod
    def mask(
        self, entities: Mapping[str, RaggedArray], flags: NDArray[np.bool_] | None, batch_size: int
    ) -> ActionMask:
        """Return who may choose what, from flags (B, …) as `ActionPart.masks` returns them; None: all."""

    def check_mask(
        self,
        mask: ActionMask,
        flags: NDArray[np.bool_],
        entities: Mapping[str, RaggedArray],
        continuing: NDArray[np.bool_],
    ) -> None:
        """Check what `mask` returned for `flags` in the lanes (B,) that are `continuing`.

        Raises:
            ObservationError: the flags allow a choice, but no entity can be selected.
        """

    @abstractmethod
    def choices(self, given: RaggedArray, batch: EntityBatch) -> NDArray[Any]:
        """Return what was chosen in each lane, as a global action would have it (see `Choices`)."""

    def bind(self, encoder: EntityEncoder) -> EntityEncoder:
        """Fit the action to the entities of a view, and return them with those that the action adds.

        Raises:
            ViewError: an unknown type or feature.
        """
        declared, entities = self.declared, encoder.entities
        if declared.entity not in entities:
            raise ViewError(
                f"{self.place}: expected one of the entity types {list(entities)}, got {declared.entity!r}"
            )
        features = entities[declared.entity]
        index = _ROW if declared.index is None and _ROW in features else declared.index
        if index is not None and index not in features:
            raise ViewError(
                f"{self.place}: index: expected one of the features {list(features)}, got {index!r}"
            )
        self.index = None if index is None else features.index(index)
        if index in (None, _ROW) and encoder.counts.get(declared.entity, self.count) != self.count:
            raise self._misfit(encoder.counts[declared.entity])
        return encoder

    def _misfit(self, entities: int) -> ViewError:
        """Return the error for another number of entities than the action has numbers."""
        others = self.declared.others
        named = f" and {len(others)} in others" if others else ""
        way_out = "If only some entities have a number, give it as a feature: index="
        if self.count > entities:
            names = [*others, *(f"choice_{i}" for i in range(entities, self.count))]
            way_out = f"Name the choices that are no entities: others={names}"
            if not isinstance(self, _Selecting):
                way_out = "Let a gymnasium.wrappers.TransformAction take one number per entity"
        return ViewError(
            f"{self.place}: expected {entities + len(others)} numbers, for {entities} entities{named}, got"
            f" {self.count + len(others)}. {way_out}"
        )

    def _numbers(self, rows: RaggedArray) -> NDArray[np.int64]:
        """Return the number of each entity (N,).

        Raises:
            ObservationError: numbers that the action doesn't have, or two entities with the same one.
        """
        if self.index is None:
            missing = np.flatnonzero(rows.lengths != self.count)
            if missing.size:
                raise ObservationError(
                    f"{self.place}: lane {missing[0]}: expected {self.count} entities, one for each number of"
                    f" the action, got {rows.lengths[missing[0]]}. Give their numbers as a feature: index="
                )
            return rows.item_indices()
        given = rows.values[:, self.index]
        numbers = given.astype(np.int64)
        wrong = (numbers != given) | (numbers < 0) | (numbers >= self.count)
        if wrong.any():
            raise ObservationError(
                f"{self.place}: expected entities with numbers from 0 to {self.count - 1}, got"
                f" {given[wrong][0]:g}"
            )
        keys = rows.sequence_indices() * self.count + numbers
        if len(np.unique(keys)) < len(keys):
            raise ObservationError(
                f"{self.place}: expected a number of its own for each entity, got one twice"
            )
        return numbers

    def masks(self, mask: Any, batch_size: int, place: str) -> dict[str, NDArray[np.bool_]]:
        flags = list(self.whole.masks(mask, batch_size, place).values())
        if not flags:
            return {}
        return {self.name: flags[0] if self.name in self.whole.names else np.stack(flags, 1)}


class _Choosing(EntityActions):
    """Entity i chooses number i of a MultiDiscrete or MultiBinary."""

    def mask(
        self, entities: Mapping[str, RaggedArray], flags: NDArray[np.bool_] | None, batch_size: int
    ) -> ActionMask:
        rows, start = entities[self.declared.entity], first_index(entities, self.declared.entity)
        numbers, lanes = self._numbers(rows), rows.sequence_indices()
        columns = self.names[self.name].mask_columns
        allowed = np.ones((len(numbers), columns), bool) if flags is None else flags[lanes, numbers]
        actors = rows.item_indices() + start[lanes]
        if not columns or allowed.any(1).all():
            part = rows.with_values(actors)
            return ActionMask(part, part.with_values(allowed))
        acting = allowed.any(1)
        part = RaggedArray.from_lengths(actors[acting], np.bincount(lanes[acting], minlength=batch_size))
        return ActionMask(part, part.with_values(allowed[acting]))

    def choices(self, given: RaggedArray, batch: EntityBatch) -> NDArray[Any]:
        rows, start = batch.entities[self.declared.entity], first_index(batch.entities, self.declared.entity)
        actors = batch.actions[self.name].actors
        lanes = actors.sequence_indices()
        numbers = self._numbers(rows)[rows.offsets[lanes] + actors.values - start[lanes]]
        action = self.names[self.name]
        chosen: NDArray[Any] = np.zeros((len(batch), self.count, *action.item_shape), action.dtype)
        chosen[lanes, numbers] = given.values
        return chosen

    def decode(self, choices: Choices) -> Any:
        return self.whole.decode(dict(zip(self.whole.names, choices[self.name].T, strict=True)))


class _Continuous(_Choosing):
    """Entity i chooses the numbers at index i of a Box."""

    def decode(self, choices: Choices) -> Any:
        chosen = choices[self.name]
        return self.whole.decode({self.name: chosen.reshape(len(chosen), -1)})


class _Selecting(EntityActions):
    """Choice i of a Discrete selects entity i, its last choices `others`; the actor is of another type."""

    actor: str

    def bind(self, encoder: EntityEncoder) -> EntityEncoder:
        encoder = super().bind(encoder)
        declared = self.declared
        if declared.actor is not None and declared.actor not in encoder.entities:
            raise ViewError(
                f"{self.place}: actor: expected one of the entity types {list(encoder.entities)}, got"
                f" {declared.actor!r}"
            )
        self.actor = declared.actor or ACTOR
        types = list(dict.fromkeys([*encoder.entities, self.actor]))
        taken = [name for name in declared.others if name in types]
        if taken:
            raise ViewError(
                f"{self.place}: others: expected names that no entity type has, got {taken[0]!r}, which is"
                f" one of {types}"
            )
        # An actor may be there: that of another action, or of the view.
        added = [] if self.actor in encoder.entities else [ACTOR]
        return _with_featureless(encoder, [*declared.others, *added])

    def mask(
        self, entities: Mapping[str, RaggedArray], flags: NDArray[np.bool_] | None, batch_size: int
    ) -> ActionMask:
        actor = entities[self.actor]
        several = np.flatnonzero(actor.lengths > 1)
        if several.size:
            raise ObservationError(
                f"{self.place}: lane {several[0]}: expected at most one entity of type {self.actor!r}, which"
                f" selects, got {actor.lengths[several[0]]}"
            )
        actees, numbers = self._actees(entities)
        lanes = actees.sequence_indices()
        allowed = np.ones(len(numbers), bool) if flags is None else flags[lanes, numbers]
        possible = np.bincount(lanes[allowed], minlength=batch_size) > 0
        acting = possible & (actor.lengths == 1)
        kept = acting[lanes]
        actees = RaggedArray.from_lengths(actees.values[kept], np.where(acting, actees.lengths, 0))
        actors = RaggedArray.from_lengths(first_index(entities, self.actor)[acting], acting.astype(np.int64))
        return ActionMask(actors, actees.with_values(allowed[kept]), actees)

    def _actees(self, entities: Mapping[str, RaggedArray]) -> tuple[RaggedArray, NDArray[np.int64]]:
        """Return the entities that can be selected, by their index in the step, and their numbers (N,)."""
        rows = entities[self.declared.entity]
        start = first_index(entities, self.declared.entity)
        parts = [rows.with_values(rows.item_indices() + start[rows.sequence_indices()])]
        numbers = [self._numbers(rows)]
        for i, name in enumerate(self.declared.others):
            parts.append(entities[name].with_values(first_index(entities, name)))
            numbers.append(np.full(len(rows), self.count + i))
        if len(parts) == 1:
            return parts[0], numbers[0]
        places, offsets = join_rows([part.offsets for part in parts])
        indices, own = np.empty(offsets[-1], np.int64), np.empty(offsets[-1], np.int64)
        for place, part, number in zip(places, parts, numbers, strict=True):
            indices[place], own[place] = part.values, number
        return RaggedArray(indices, offsets), own

    def check_mask(
        self,
        mask: ActionMask,
        flags: NDArray[np.bool_],
        entities: Mapping[str, RaggedArray],
        continuing: NDArray[np.bool_],
    ) -> None:
        if mask.actors.num_items == len(mask.actors):
            return
        left = (entities[self.actor].lengths == 1) & (mask.actors.lengths == 0)
        lanes = np.flatnonzero(left & continuing & flags.any(1))
        if lanes.size:
            numbers = np.flatnonzero(flags[lanes[0]]).tolist()
            raise ObservationError(
                f"{self.place}: lane {lanes[0]}: expected an entity for one of the choices {numbers}, which"
                " the mask allows, got none. Name choices that are no entities (others=), and mask those of"
                " absent entities"
            )

    def choices(self, given: RaggedArray, batch: EntityBatch) -> NDArray[Any]:
        rows, start = batch.entities[self.declared.entity], first_index(batch.entities, self.declared.entity)
        lanes, values = given.sequence_indices(), given.values
        chosen = np.zeros(len(batch), np.int64)
        if self.declared.others:  # which come behind all entities of the view
            others = values - first_index(batch.entities, self.declared.others[0])[lanes]
            chosen[lanes] = self.count + others
            lanes, values = lanes[others < 0], values[others < 0]
        chosen[lanes] = self._numbers(rows)[rows.offsets[lanes] + values - start[lanes]]
        return chosen

    def decode(self, choices: Choices) -> Any:
        return self.whole.decode(choices)


def _with_featureless(encoder: EntityEncoder, names: Sequence[str]) -> EntityEncoder:
    """Return the encoder with one entity of each of these types, without features, in every observation."""
    if not names:
        return encoder
    encode = encoder.encode

    def with_more(observation: Any, batch_size: int) -> dict[str, RaggedArray]:
        one = RaggedArray(np.zeros((batch_size, 0), np.float32), np.arange(batch_size + 1))
        return {**encode(observation, batch_size), **dict.fromkeys(names, one)}

    entities = {**encoder.entities, **dict.fromkeys(names, ())}
    return EntityEncoder(entities, with_more, counts=encoder.counts)


def first_index(entities: Mapping[str, RaggedArray], name: str) -> NDArray[np.int64]:
    """Return the index of each step's first entity of a type (B,): entities are counted through the types."""
    start = np.zeros(len(entities[name]), np.int64)
    for other, rows in entities.items():
        if other == name:
            break
        start += rows.lengths
    return start
