"""Padding layouts: ragged batches as fixed arrays, for learners and networks that need those.

Shape alphabet: B steps, M_t the most entities of type t, M all of them together, A the most actors and E the
most actees of an action, C choices, M (of an action) components of an action, F features, G global features.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from ...ragged import RaggedArray
from ...suggestions import expected_one_of, listed
from ..actions.action_mask import ActionMask
from ..errors import ObservationError, whole_number
from ..spaces.entity_space import EntitySpace
from .entity_batch import EntityBatch

_Array = TypeVar("_Array")
Padded = dict[str, NDArray[Any]]

_LIMIT = float(np.finfo(np.float32).max)


class PaddedSpace(spaces.Dict):
    """A Dict of fixed arrays, described by `PaddedLayout.observation_space`.

    To vector environments and learners it is a plain Dict. A network that needs the entities reads their
    places from `layout`. Two such spaces are equal if they contain the same arrays with the same features.

    Args:
        layout: where entities are.
        parts: the arrays by their names in the layout.
        names: other names for them, by those in the layout; None: the same.
    """

    names: Mapping[str, str] | None = None  # of the class: spaces that were pickled before have it as well

    def __init__(
        self,
        layout: PaddedLayout,
        parts: Mapping[str, spaces.Space[Any]],
        names: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__({key if names is None else names[key]: part for key, part in parts.items()})
        self.layout = layout
        self.names = names

    def by_layout(self, observations: Mapping[str, _Array]) -> Mapping[str, _Array]:
        """Return arrays of this space under their names in the layout; missing ones stay missing."""
        if self.names is None:
            return observations
        return {key: observations[name] for key, name in self.names.items() if name in observations}

    def without_empty_arrays(self) -> PaddedSpace:
        """Return the space without arrays of size zero, which some learners can't use."""
        return PaddedSpace(
            self.layout, {key: part for key, part in self.spaces.items() if math.prod(part.shape or ())}
        )

    def __eq__(self, other: object) -> bool:
        if not super().__eq__(other):
            return False
        # Names are no part of a Dict of arrays, but two features in another order are another observation.
        return not isinstance(other, PaddedSpace) or self.layout.space == other.layout.space

    __hash__ = None  # type: ignore[assignment]


class PaddedLayout:
    """Layout of fixed arrays. The *slots* of the types follow each other, M in all.

    `pad` gives a flat dict of arrays, zero in empty slots:

    - `"entities/<type>"` float32 (B, M_t, F) and `"presence/<type>"` bool (B, M_t);
    - `"globals"` float32 (B, G), where there are global features;
    - `"visible/<type>"` bool (B, M_t), where the space says `hidden=True`;
    - for each action `"actions/<name>/presence"` bool (B, A), `"actions/<name>/mask"` bool (B, A, C), and
      `"actions/<name>/actors"` int64 (B, A), the actors' slots. A global action has A = 1 and no actors, a
      continuous one no mask;
    - for a select-entity action the mask is (B, A, E), and there are `"actions/<name>/actees"` int64 (B, E)
      slots and `"actions/<name>/actee_presence"` bool (B, E).

    Args:
        space: what the batches hold.
        max_entities: per entity type, the most at a step.
        max_actors: per action, the most actors; left out: M.
        max_actees: per select-entity action, the most actees; left out: M.

    Raises:
        TypeError: a maximum is no whole number, or maxima are no mapping.
        ValueError: a type has no maximum, a name is unknown, a maximum is negative, or the space has frames.
    """

    def __init__(
        self,
        space: EntitySpace,
        max_entities: Mapping[str, int],
        max_actors: Mapping[str, int] | None = None,
        max_actees: Mapping[str, int] | None = None,
    ) -> None:
        if space.frame is not None:
            raise ValueError("PaddedLayout: expected a space without frames, got one with frames")
        self.space = space
        self.max_entities = _maxima("max_entities", max_entities, dict.fromkeys(space.entities))
        self.num_slots = sum(self.max_entities.values())
        actors = {name: 1 if action.is_global else self.num_slots for name, action in space.actions.items()}
        actees = {name: self.num_slots for name, action in space.actions.items() if action.selects_entities}
        self.max_actors = _maxima("max_actors", {} if max_actors is None else max_actors, actors)
        self.max_actees = _maxima("max_actees", {} if max_actees is None else max_actees, actees)
        starts = np.cumsum([0, *self.max_entities.values()])
        self.first_slots = dict(
            zip(space.entities, starts.tolist(), strict=False)
        )  # per type, its first slot

    @property
    def observation_space(self) -> PaddedSpace:
        """The space of one step's padded arrays, without the leading B."""
        parts: dict[str, spaces.Space[Any]] = {}
        for name, features in self.space.entities.items():
            count = self.max_entities[name]
            parts[f"entities/{name}"] = spaces.Box(-_LIMIT, _LIMIT, (count, len(features)), np.float32)
            parts[f"presence/{name}"] = _flags(count)
            if self.space.hidden:
                parts[f"visible/{name}"] = _flags(count)
        if self.space.global_features:
            parts["globals"] = spaces.Box(-_LIMIT, _LIMIT, (len(self.space.global_features),), np.float32)
        for name, action in self.space.actions.items():
            prefix, actors = f"actions/{name}", self.max_actors[name]
            parts[f"{prefix}/presence"] = _flags(actors)
            if not action.is_continuous:
                parts[f"{prefix}/mask"] = _flags(actors, self._width(name))
            if not action.is_global:
                parts[f"{prefix}/actors"] = self._slot_space(actors)
            if name in self.max_actees:
                parts[f"{prefix}/actees"] = self._slot_space(self.max_actees[name])
                parts[f"{prefix}/actee_presence"] = _flags(self.max_actees[name])
        return PaddedSpace(self, parts)

    def _slot_space(self, count: int) -> spaces.Box:
        return spaces.Box(0, max(self.num_slots - 1, 0), (count,), np.int64)

    def _width(self, action: str) -> int:
        """Columns of an action's mask: C or E."""
        space = self.space.actions[action]
        return self.max_actees[action] if space.selects_entities else space.mask_columns

    # -- observations ---------------------------------------------------------------------------------------

    def pad(self, batch: EntityBatch) -> Padded:
        """Return the padded arrays of `batch`.

        Raises:
            ObservationError: there are more entities or actors than slots; names env and type or action.
        """
        padded: Padded = {}
        for name, rows in batch.entities.items():
            what = f"entities of type {name!r}"
            padded[f"entities/{name}"] = _padded(rows, self.max_entities[name], what)
            padded[f"presence/{name}"] = _presence(rows, self.max_entities[name])
            if self.space.hidden:
                padded[f"visible/{name}"] = _padded(batch.visibility(name), self.max_entities[name], what)
        if self.space.global_features:
            padded["globals"] = batch.globals.copy()
        for name, part in batch.actions.items():
            prefix, count = f"actions/{name}", self.max_actors[name]
            if not self.space.actions[name].is_global:
                slots = self._slots(batch, part.actors)
                padded[f"{prefix}/actors"] = _padded(slots, count, f"actors of action {name!r}")
            padded[f"{prefix}/presence"] = _presence(part.actors, count)
            if self.space.actions[name].is_continuous:
                continue
            if part.actees is None:
                padded[f"{prefix}/mask"] = _padded(part.mask, count, f"actors of action {name!r}")
                continue
            width = self.max_actees[name]
            padded[f"{prefix}/actees"] = _padded(
                self._slots(batch, part.actees), width, f"actees of action {name!r}"
            )
            padded[f"{prefix}/actee_presence"] = _presence(part.actees, width)
            padded[f"{prefix}/mask"] = _padded_pairs(part, count, width)
        return padded

    # -- actions --------------------------------------------------------------------------------------------

    def pad_actions(self, batch: EntityBatch, actions: Mapping[str, RaggedArray]) -> Padded:
        """Return ragged actions for `batch` as int64 (B, A) per action, zero for empty slots.

        Multi-discrete actions are int64 (B, A, M), continuous ones float32 (B, A, K). A select-entity action
        is the place of the selected actee, 0 to E - 1.
        """
        padded = {}
        for name, order in actions.items():
            part = batch.actions[name]
            if part.actees is not None:
                order = order.with_values(_positions(part, order))
            padded[name] = _padded(order, self.max_actors[name], f"actors of action {name!r}")
        return padded

    # -- slots ----------------------------------------------------------------------------------------------

    def _slots(self, batch: EntityBatch, indices: RaggedArray) -> RaggedArray:
        """The slot of each entity index; a global action's -1 stays."""
        slots = indices.values.copy()
        first = np.zeros(len(batch), np.int64)  # of the type at hand, per step
        for name, rows in batch.entities.items():
            position = indices.values - indices.broadcast(first)
            mine = (position >= 0) & (position < indices.broadcast(rows.lengths))
            slots[mine] = position[mine] + self.first_slots[name]
            first += rows.lengths
        return indices.with_values(slots)


def _maxima(what: str, given: Mapping[str, int], defaults: Mapping[str, int | None]) -> dict[str, int]:
    """The given maxima over the defaults; a default of None has to be given."""
    if not isinstance(given, Mapping):
        raise TypeError(f"{what}: expected a mapping from {listed(defaults)}, got {given!r}")
    for name in given:
        if name not in defaults:
            raise ValueError(f"{what}: unknown name {name!r}: {expected_one_of(name, defaults)}")
    maxima = {}
    for name, default in defaults.items():
        maximum = given.get(name, default)
        if maximum is None:
            raise ValueError(f"{what}: {name!r}: expected a maximum of at least 0, got None")
        maxima[name] = whole_number(f"{what}: {name!r}", maximum, 0)
    return maxima


def _flags(*shape: int) -> spaces.Box:
    return spaces.Box(0, 1, shape, np.bool_)  # type: ignore[arg-type]


def _presence(array: RaggedArray, maximum: int) -> NDArray[np.bool_]:
    return np.arange(maximum) < array.lengths[:, None]


def _padded(array: RaggedArray, maximum: int, what: str) -> NDArray[Any]:
    """The items of each sequence (B, maximum, *inner), zeros behind them."""
    too_many = array.lengths > maximum
    if too_many.any():
        step = int(too_many.argmax())
        raise ObservationError(
            f"env {step}: {array.lengths[step]} {what}: expected at most {maximum} in the padded layout"
        )
    padded = np.zeros((len(array), maximum, *array.inner_shape), array.dtype)
    padded[array.sequence_indices(), array.item_indices()] = array.values
    return padded


def _padded_pairs(part: ActionMask, max_actors: int, max_actees: int) -> NDArray[np.bool_]:
    """The mask of a select-entity action as (B, A, E)."""
    assert part.actees is not None
    padded = np.zeros((len(part.mask), max_actors, max_actees), bool)
    position = part.mask.item_indices()
    width = part.mask.broadcast(part.actees.lengths)
    padded[part.mask.sequence_indices(), position // width, position % width] = part.mask.values
    return padded


def _positions(part: ActionMask, order: RaggedArray) -> NDArray[np.int64]:
    """For each selected entity its place among the actees of its step."""
    assert part.actees is not None
    stride = int(max(part.actees.values.max(initial=0), order.values.max(initial=0))) + 1
    keys = part.actees.values + part.actees.sequence_indices() * stride
    by_key = np.argsort(keys)
    wanted = order.values + order.sequence_indices() * stride
    places = np.searchsorted(keys, wanted, sorter=by_key)
    return part.actees.item_indices()[by_key[places]]
