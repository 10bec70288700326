"""`EntityBatch`: the observations of many steps, without padding.

Shape alphabet: B steps, N entities, A actors, E actees, C choices, F features, G global features.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..ragged import RaggedArray, concatenate, join_rows
from .spaces import EntitySpace, GlobalCategorical, SelectEntity


@dataclass(frozen=True, eq=False)
class ActionMask:
    """Who may do what, for one action at many steps.

    A global action has no entity behind it: its `actors` hold a single -1 at each step where it can be taken.
    """

    actors: RaggedArray  # (A,) int64: entity indices within the step
    mask: (
        RaggedArray  # bool, true = allowed; categorical: (A, C); select-entity: (sum A_b * E_b,), actor-major
    )
    actees: RaggedArray | None = None  # (E,) int64: entity indices within the step; select-entity only

    def map(self, function: Callable[[RaggedArray], RaggedArray]) -> ActionMask:
        """The same function on each of the arrays."""
        return ActionMask(
            function(self.actors), function(self.mask), None if self.actees is None else function(self.actees)
        )


@dataclass(frozen=True, eq=False)
class EntityBatch:
    """B observations: what a vector environment returns and a policy reads.

    Every ragged array has B sequences. A type that is absent at a step has an empty sequence there.
    """

    entities: dict[str, RaggedArray]  # per type (N_t, F_t) float32, in the order of the space
    globals: NDArray[np.float32]  # (B, G)
    actions: dict[str, ActionMask]  # per action, in the order of the space
    visible: dict[str, RaggedArray] = field(
        default_factory=dict
    )  # per type (N_t,) bool; no entry: all visible

    def __len__(self) -> int:
        return len(self.globals)

    @property
    def num_entities(self) -> int:
        return sum(rows.num_items for rows in self.entities.values())

    @property
    def entity_offsets(self) -> NDArray[np.int64]:
        """Where each step starts in the flat list of all entities (B + 1,).

        Entity index + the step's offset is the entity's row in that list (its sequential index).
        """
        if not self.entities:
            return np.zeros(len(self) + 1, np.int64)
        return np.sum([rows.offsets for rows in self.entities.values()], axis=0, dtype=np.int64)

    def entity_rows(self) -> tuple[dict[str, NDArray[np.int64]], NDArray[np.int64]]:
        """For each type the flat row of each of its entities (N_t,), and `entity_offsets`."""
        if not self.entities:
            return {}, self.entity_offsets
        rows, offsets = join_rows([r.offsets for r in self.entities.values()])
        return dict(zip(self.entities, rows, strict=True)), offsets

    def actor_rows(self, action: str) -> NDArray[np.int64]:
        """The flat entity row of each actor of `action` (A,); of no meaning for a global action."""
        actors = self.actions[action].actors
        return actors.values + actors.broadcast(self.entity_offsets[:-1])

    def _map(self, function: Callable[[RaggedArray], RaggedArray], rows: Any) -> EntityBatch:
        return EntityBatch(
            {name: function(r) for name, r in self.entities.items()},
            self.globals[rows],
            {name: m.map(function) for name, m in self.actions.items()},
            {name: function(v) for name, v in self.visible.items()},
        )

    def gather(self, indices: ArrayLike) -> EntityBatch:
        """The steps at `indices` (K,), in that order."""
        indices = np.asarray(indices, np.int64)
        return self._map(lambda array: array.gather(indices), indices)

    def __getitem__(self, key: slice) -> EntityBatch:
        """A slice of the steps; a view where the step of the slice is 1."""
        return self._map(lambda array: array[key], key)


def concatenate_batches(batches: Sequence[EntityBatch]) -> EntityBatch:
    """The steps of all `batches`, one batch after the other."""
    first = batches[0]

    def actions(name: str) -> ActionMask:
        masks = [b.actions[name] for b in batches]
        return ActionMask(
            concatenate([m.actors for m in masks]),
            concatenate([m.mask for m in masks]),
            None
            if masks[0].actees is None
            else concatenate([m.actees for m in masks if m.actees is not None]),
        )

    return EntityBatch(
        {name: concatenate([b.entities[name] for b in batches]) for name in first.entities},
        np.concatenate([b.globals for b in batches]),
        {name: actions(name) for name in first.actions},
        {name: concatenate([b.visible[name] for b in batches]) for name in first.visible},
    )


def batch_observations(space: EntitySpace, observations: Sequence[Mapping[str, Any]]) -> EntityBatch:
    """Observation dicts of `space` (see `EntitySpace`) as one batch."""

    def ragged(parts: list[Any], dtype: Any, inner_shape: tuple[int, ...] = ()) -> RaggedArray:
        return RaggedArray.from_arrays(parts, dtype=dtype, inner_shape=inner_shape)

    actions = {}
    for name, action in space.actions.spaces.items():
        parts = [o["actions"][name] for o in observations]
        if isinstance(action, SelectEntity):
            actions[name] = ActionMask(
                ragged([p["actors"] for p in parts], np.int64),
                ragged([p["mask"] for p in parts], bool),
                ragged([p["actees"] for p in parts], np.int64),
            )
        else:
            mask = ragged([p["mask"] for p in parts], bool, (action.num_choices,))  # type: ignore[attr-defined]
            actors = (
                mask.with_values(np.full(mask.num_items, -1))
                if isinstance(action, GlobalCategorical)
                else ragged([p["actors"] for p in parts], np.int64)
            )
            actions[name] = ActionMask(actors, mask)
    num_globals = len(space.global_features)
    return EntityBatch(
        {
            name: ragged([o["entities"][name] for o in observations], np.float32, (len(features),))
            for name, features in space.entities.items()
        },
        np.array([o["globals"] for o in observations], np.float32)
        if num_globals
        else np.zeros((len(observations), 0), np.float32),
        actions,
        {name: ragged([o["visible"][name] for o in observations], bool) for name in space.entities}
        if space.hidden
        else {},
    )


def unbatch_observation(space: EntitySpace, batch: EntityBatch, step: int) -> dict[str, Any]:
    """Step `step` of `batch` as an observation dict of `space`, in fresh arrays."""
    if not -len(batch) <= step < len(batch):
        raise IndexError(f"step {step} is out of range for a batch of {len(batch)}")

    actions = {}
    for name, action in space.actions.spaces.items():
        arrays = batch.actions[name]
        part = {"mask": arrays.mask[step].astype(np.int8)}
        if not isinstance(action, GlobalCategorical):
            part["actors"] = arrays.actors[step].copy()
        if arrays.actees is not None:
            part["actees"] = arrays.actees[step].copy()
        actions[name] = part
    observation: dict[str, Any] = {
        "entities": {name: rows[step].copy() for name, rows in batch.entities.items()},
        "actions": actions,
    }
    if space.global_features:
        observation["globals"] = batch.globals[step].copy()
    if space.hidden:
        observation["visible"] = {name: v[step].astype(np.int8) for name, v in batch.visible.items()}
    return observation
