"""`EntityBatch`: the observations of many steps, without padding.

Shape alphabet: B steps, N entities, A actors, E actees, C choices, F features, G global features.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...ragged import RaggedArray, concatenate, gather_all, join_rows
from ..actions.action_mask import ActionMask, stack_ragged
from ..errors import ObservationError
from ..spaces.entity_space import EntitySpace


@dataclass(frozen=True, eq=False, init=False)
class EntityBatch:
    """B observations: what a vector environment returns and a policy reads.

    Every ragged array has B sequences. A type that is absent at a step has an empty sequence there.
    """

    entities: dict[str, RaggedArray]  # per type (N_t, F_t) float32, in the order of the space
    globals: NDArray[np.float32]  # (B, G)
    #: per action, in the order of the space: the masks that say which entities act and what they may do (the
    #: actions that a policy takes are ragged arrays of their own)
    actions: dict[str, ActionMask]
    visible: dict[str, RaggedArray]  # per type (N_t,) bool; no entry: all visible
    frames: RaggedArray | None = None  # uint8 (B, H, W, channels), one at each step; None: the space has none

    def __init__(
        self,
        entities: dict[str, RaggedArray],
        globals: NDArray[np.float32],
        actions: dict[str, ActionMask],
        visible: dict[str, RaggedArray] | None = None,
        frames: RaggedArray | None = None,
    ) -> None:
        visible = {} if visible is None else visible
        self.__dict__.update(
            entities=entities, globals=globals, actions=actions, visible=visible, frames=frames
        )

    def __len__(self) -> int:
        return len(self.globals)

    @property
    def num_entities(self) -> int:
        """Number of entities over all types and steps."""
        return sum(rows.num_items for rows in self.entities.values())

    @property
    def entity_offsets(self) -> NDArray[np.int64]:
        """The start of each step in the flat list of all entities (B + 1,).

        Entity index + the step's offset is the entity's row in that list (its sequential index).
        """
        total = np.zeros(len(self) + 1, np.int64)
        for rows in self.entities.values():  # one by one: np.sum takes twice as long for a single step
            total += rows.offsets
        return total

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

    def _map(
        self, function: Callable[[RaggedArray], RaggedArray], globals: NDArray[np.float32]
    ) -> EntityBatch:
        """Return this batch with `function` of each ragged array, in the order of `_ragged_arrays`."""
        return EntityBatch(
            {name: function(r) for name, r in self.entities.items()},
            globals,
            {name: m.map(function) for name, m in self.actions.items()},
            {name: function(v) for name, v in self.visible.items()},
            None if self.frames is None else function(self.frames),
        )

    def _ragged_arrays(self) -> list[RaggedArray]:
        return [array for array in self.arrays().values() if isinstance(array, RaggedArray)]

    def without_actors(self, steps: NDArray[np.bool_], action: str | None = None) -> EntityBatch:
        """Return the batch without the actors of `action` (None: of all) in these `steps` (B,).

        Their entities stay.
        """

        def emptied(array: RaggedArray) -> RaggedArray:
            kept = ~array.broadcast(steps)
            return RaggedArray.from_lengths(array.values[kept], np.where(steps, 0, array.lengths))

        actions = {
            name: part.map(emptied) if action in (None, name) else part for name, part in self.actions.items()
        }
        return replace(self, actions=actions)

    def gather(self, indices: ArrayLike) -> EntityBatch:
        """The steps at `indices` (K,) int, in that order; repeats and an empty index are fine.

        Raises:
            TypeError: the indices are no integers (a boolean mask, say).
            IndexError: an index outside [-B, B).
        """
        rows = np.asarray(indices)
        if rows.dtype.kind not in "iu" and rows.size:
            raise TypeError(f"gather: indices: expected integers, got {rows.dtype}")
        rows = rows.astype(np.int64, copy=False)
        if rows.size and not -len(self) <= rows.min() <= rows.max() < len(self):
            raise IndexError(
                f"gather: indices: expected {-len(self)} to {len(self) - 1} for a batch of {len(self)},"
                f" got {rows.min()} to {rows.max()}"
            )
        gathered = iter(gather_all(self._ragged_arrays(), rows))
        return self._map(lambda _: next(gathered), self.globals[rows])

    def __getitem__(self, key: slice) -> EntityBatch:
        """A slice of the steps; a view where the step of the slice is 1."""
        if not isinstance(key, slice):
            raise TypeError(
                f"EntityBatch: index: expected a slice, got {key!r}. Use gather or unbatch_observation"
            )
        return self._map(lambda array: array[key], self.globals[key])

    def entity_counts(self, step: int) -> list[int]:
        """Return the number of entities of each type at `step` (T,)."""
        return [int(rows.offsets[step + 1] - rows.offsets[step]) for rows in self.entities.values()]

    def visibility(self, name: str) -> RaggedArray:
        """Mark the entities of type `name` that the policy may see (N_t,) bool; by default all."""
        rows = self.entities[name]
        return self.visible[name] if name in self.visible else rows.with_values(np.ones(rows.num_items, bool))

    def arrays(self) -> dict[str, RaggedArray | NDArray[np.float32]]:
        """All arrays by name: "entities/Mine", "globals", "actions/Move/actors", "visible/Mine" and so on."""
        arrays: dict[str, RaggedArray | NDArray[np.float32]] = {
            f"entities/{name}": rows for name, rows in self.entities.items()
        }
        arrays["globals"] = self.globals
        for name, part in self.actions.items():
            arrays[f"actions/{name}/actors"] = part.actors
            arrays[f"actions/{name}/mask"] = part.mask
            if part.actees is not None:
                arrays[f"actions/{name}/actees"] = part.actees
        arrays.update({f"visible/{name}": flags for name, flags in self.visible.items()})
        if self.frames is not None:
            arrays["frames"] = self.frames
        return arrays

    def differences(self, other: EntityBatch) -> list[str]:
        """Return the names of the `arrays` that are not the same, bit for bit, or that one of both lacks."""
        mine, others = self.arrays(), other.arrays()
        shared = mine.keys() & others.keys()
        return [n for n in {**mine, **others} if n not in shared or not _are_same(mine[n], others[n])]

    def equals(self, other: EntityBatch) -> bool:
        """Return True if both hold the same steps, bit for bit."""
        return list(self.arrays()) == list(other.arrays()) and not self.differences(other)


def _are_same(one: Any, other: Any) -> bool:
    return np.array_equal(one, other) if isinstance(one, np.ndarray) else one == other


def concatenate_batches(batches: Sequence[EntityBatch]) -> EntityBatch:
    """The steps of all `batches`, one batch after the other, in new arrays."""
    if not batches:
        raise ValueError("concatenate_batches: expected one batch or more, got none")
    hidden = [name for name in batches[0].entities if any(name in b.visible for b in batches)]
    alike = [
        EntityBatch(b.entities, b.globals, b.actions, {name: b.visibility(name) for name in hidden}, b.frames)
        for b in batches
    ]
    arrays = zip(*(b._ragged_arrays() for b in alike), strict=True)
    joined = iter([concatenate(list(parts)) for parts in arrays])
    return alike[0]._map(lambda _: next(joined), np.concatenate([b.globals for b in batches]))


def batch_observations(space: EntitySpace, observations: Sequence[Mapping[str, Any]]) -> EntityBatch:
    """Observation dicts of `space` as one batch.

    They are not checked, but for `space.problem` where they can't be batched.

    Raises:
        ObservationError: an observation lacks a part.
    """
    try:
        return _batched(space, observations)
    except (KeyError, TypeError, ValueError) as error:
        for place, observation in enumerate(observations):
            if problem := space.problem(observation):
                raise ObservationError(f"observation {place} of {len(observations)}: {problem}") from error
        raise


def _batched(space: EntitySpace, observations: Sequence[Mapping[str, Any]]) -> EntityBatch:
    globals_ = np.zeros((len(observations), len(space.global_features)), np.float32)
    if space.global_features:
        for row, observation in zip(globals_, observations, strict=True):
            row[:] = observation["globals"]
    return EntityBatch(
        {
            name: stack_ragged([o["entities"][name] for o in observations], np.float32, (len(features),))
            for name, features in space.entities.items()
        },
        globals_,
        {
            name: action.batch([o["actions"][name] for o in observations])
            for name, action in space.actions.items()
        },
        {name: stack_ragged([o["visible"][name] for o in observations], bool) for name in space.entities}
        if space.hidden
        else {},
        None
        if space.frame is None
        else stack_ragged([o["frame"][None] for o in observations], np.uint8, space.frame),
    )


def unbatch_observation(space: EntitySpace, batch: EntityBatch, step: int) -> dict[str, Any]:
    """Step `step` of `batch` as an observation dict of `space`, in fresh arrays."""
    if not -len(batch) <= step < len(batch):
        raise IndexError(
            f"unbatch_observation: expected a step from {-len(batch)} to {len(batch) - 1} for a batch of"
            f" {len(batch)}, got step {step}"
        )

    actions = {name: action.unbatch(batch.actions[name], step) for name, action in space.actions.items()}
    observation: dict[str, Any] = {"actions": actions}
    if space.entities:
        observation["entities"] = {name: rows[step].copy() for name, rows in batch.entities.items()}
    if space.global_features:
        observation["globals"] = batch.globals[step].copy()
    if space.hidden:
        observation["visible"] = {
            name: batch.visibility(name)[step].astype(np.int8) for name in space.entities
        }
    if batch.frames is not None:
        observation["frame"] = batch.frames[step][0].copy()
    return observation
