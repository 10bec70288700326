"""Batches as dicts of plain arrays, actions as one array: for libraries that pass on arrays and nothing else.

Shape alphabet: B steps, N items of a ragged array, A actors of one action, M numbers of all actions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...ragged import RaggedArray
from ..actions.action_mask import ActionMask
from ..errors import ActionError, ObservationError
from ..spaces.entity_space import EntitySpace
from .batch_actions import no_actions
from .entity_batch import EntityBatch, batch_observations

#: An `EntityBatch` without its classes: see `PackedLayout`.
PackedBatch = dict[str, NDArray[Any]]

_VALUES, _OFFSETS, _GLOBALS = "values/", "offsets/", "globals"


class PackedLayout:
    """Layout of the packed batches and actions of one space.

    A batch is a dict of arrays: "globals" (B, G), and for each ragged array of `EntityBatch.arrays()` its
    "values/<name>" (N, …) and "offsets/<name>" (B + 1,) int64. Nothing is copied in either direction.

    Actions are one array (M,): action after action in the order of the space, in each all its actors, step
    after step, in each all numbers of the actor. It is int64, or float64 (which holds float32 and any index
    exactly) where an action is continuous. Whose numbers they are follows from the batch that they answer.
    Behind them may stand, once more for all continuous actions, the numbers that a policy drew and made them
    of by clipping or squashing (`ActResult.raw`).
    """

    def __init__(self, space: EntitySpace) -> None:
        self.space = space
        arrays = self.named_arrays(batch_observations(space, []))
        #: dtype and item shape of each ragged array, by name; `ragged_arrays` and `batch` keep to this order.
        self.formats: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {
            name: (array.dtype, array.inner_shape) for name, array in arrays.items()
        }
        self.keys: tuple[str, ...] = (
            _GLOBALS,
            *(f"{part}{name}" for name in self.formats for part in (_VALUES, _OFFSETS)),
        )
        self._selecting = {n for n, action in space.actions.items() if action.selects_entities}
        self._real = tuple(n for n, action in space.actions.items() if action.is_continuous)
        self.action_dtype: np.dtype[Any] = np.dtype(np.float64 if self._real else np.int64)

    # -- batches --------------------------------------------------------------------------------------------

    def pack(self, batch: EntityBatch) -> PackedBatch:
        """`batch` as a dict of arrays that share its memory."""
        packed: PackedBatch = {_GLOBALS: _writeable(batch.globals)}
        for name, array in zip(self.formats, self.ragged_arrays(batch), strict=True):
            packed[_VALUES + name] = _writeable(array.values)
            packed[_OFFSETS + name] = _writeable(array.offsets)
        return packed

    def ragged_arrays(self, batch: EntityBatch) -> list[RaggedArray]:
        """The ragged arrays of `batch` in the order of `formats`."""
        arrays = [batch.entities[name] for name in self.space.entities]
        for name in self.space.actions.spaces:
            part = batch.actions[name]
            arrays += (part.actors, part.mask)
            if part.actees is not None:
                arrays.append(part.actees)
        if self.space.hidden:
            arrays += [batch.visibility(name) for name in self.space.entities]
        if batch.frames is not None:
            arrays.append(batch.frames)
        return arrays

    def unpack(self, packed: Mapping[str, NDArray[Any]]) -> EntityBatch:
        """The batch that `pack` was given, unchecked: for what came from `pack` and nowhere else."""
        arrays = [
            RaggedArray.unchecked(packed[_VALUES + name], packed[_OFFSETS + name]) for name in self.formats
        ]
        return self.batch(packed[_GLOBALS], arrays)

    def unpack_checked(self, packed: Mapping[str, Any]) -> EntityBatch:
        """The same for arrays from anywhere.

        Raises:
            ObservationError: an array is missing, or has another dtype or shape, or offsets don't fit.
        """
        missing = [key for key in self.keys if key not in packed]
        if missing:
            of_entities = f"{_VALUES}entities/"
            types = [key.removeprefix(of_entities) for key in packed if str(key).startswith(of_entities)]
            raise ObservationError(
                f"the packed batch: {missing[0]!r} is missing: expected one with the entity types"
                f" {list(self.space.entities)}, got types {types}"
            )
        globals_ = np.asarray(packed[_GLOBALS])
        width = len(self.space.global_features)
        if globals_.dtype != np.float32 or globals_.ndim != 2 or globals_.shape[1] != width:
            raise ObservationError(
                f"globals: expected float32 (B, {width}), got {globals_.dtype} {globals_.shape}"
            )
        return self.batch(globals_, [self._checked(name, packed, len(globals_)) for name in self.formats])

    def _checked(self, name: str, packed: Mapping[str, Any], steps: int) -> RaggedArray:
        try:
            array = RaggedArray(packed[_VALUES + name], packed[_OFFSETS + name])
        except ValueError as error:
            raise ObservationError(f"{name}: {error}") from error
        problem = self.problem(name, array, steps)
        if problem:
            raise ObservationError(problem)
        return array

    def named_arrays(self, batch: EntityBatch) -> dict[str, RaggedArray]:
        """Return the ragged arrays of `batch`, which may be of another space, by name."""
        arrays = {name: array for name, array in batch.arrays().items() if isinstance(array, RaggedArray)}
        if self.space.hidden:
            arrays.update({f"visible/{name}": batch.visibility(name) for name in batch.entities})
        return arrays

    def problem(self, name: str, array: RaggedArray, steps: int) -> str | None:
        """Return why `array` can't be the ragged array `name` of so many steps, or None."""
        dtype, shape = self.formats[name]
        if (array.dtype, array.inner_shape, len(array)) == (dtype, shape, steps):
            return None
        return (
            f"{name}: expected {steps} sequences of {dtype} {shape},"
            f" got {len(array)} sequences of {array.dtype} {array.inner_shape}"
        )

    def batch(self, globals_: NDArray[Any], arrays: Iterable[RaggedArray]) -> EntityBatch:
        """The batch with these `globals_` and, in the order of `formats`, these ragged arrays, unchecked."""
        space, following = self.space, iter(arrays)
        entities = {name: next(following) for name in space.entities}
        actions = {
            name: ActionMask(
                next(following), next(following), next(following) if name in self._selecting else None
            )
            for name in space.actions.spaces
        }
        visible = {name: next(following) for name in space.entities} if space.hidden else None
        return EntityBatch(entities, globals_, actions, visible, next(following, None))

    # -- actions --------------------------------------------------------------------------------------------

    def pack_actions(
        self, actions: Mapping[str, RaggedArray], raw: Mapping[str, RaggedArray] | None = None
    ) -> NDArray[Any]:
        """One item for each actor of each action, as one array (M,), and behind it the raw actions."""
        parts = [actions[name].values.reshape(-1) for name in self.space.actions]
        if raw is not None:
            parts += [raw[name].values.reshape(-1) for name in self._real]
        return np.concatenate([np.zeros(0, self.action_dtype), *parts]).astype(self.action_dtype, copy=False)

    def unpack_actions(
        self, batch: EntityBatch, packed: NDArray[Any], as_raw: bool = False
    ) -> dict[str, RaggedArray]:
        """The actions that answer `batch`, or raw ones; an empty array leaves all actions out.

        Raises:
            ActionError: not as many numbers as the actors of `batch` take, or no numbers.
        """
        flat = np.asarray(packed)
        kinds = "iuf" if self.action_dtype.kind == "f" else "iu"
        if flat.ndim != 1 or (len(flat) and flat.dtype.kind not in kinds):
            raise ActionError(
                f"actions: expected one array (M,) of {self.action_dtype}, got {flat.dtype} {flat.shape}"
            )
        if not len(flat):
            return no_actions(self.space.actions, len(batch))
        sizes = {
            name: batch.actions[name].actors.num_items * int(np.prod(action.item_shape))
            for name, action in self.space.actions.items()
        }
        total, num_drawn = sum(sizes.values()), sum(sizes[name] for name in self._real)
        if len(flat) not in (total, total + num_drawn):
            wanted = ", ".join(f"{size} of {name!r}" for name, size in sizes.items())
            raise ActionError(f"actions: expected {total} numbers ({wanted}), got {len(flat)}")
        actions = self._cut(batch, flat, sizes, tuple(sizes))
        if as_raw and len(flat) > total:
            actions.update(self._cut(batch, flat[total:], sizes, self._real))
        return actions

    def _cut(
        self, batch: EntityBatch, flat: NDArray[Any], sizes: Mapping[str, int], names: tuple[str, ...]
    ) -> dict[str, RaggedArray]:
        """The actions `names`, which stand in `flat` one after the other."""
        actions, start = {}, 0
        for name in names:
            action = self.space.actions[name]
            numbers = flat[start : start + sizes[name]]
            start += sizes[name]
            if numbers.dtype.kind == "f" and name not in self._real and (numbers % 1 != 0).any():
                raise ActionError(f"action {name!r}: expected integers, got {numbers[numbers % 1 != 0][0]}")
            items = numbers.astype(action.dtype).reshape(-1, *action.item_shape)
            actions[name] = batch.actions[name].actors.with_values(items)
        return actions


def _writeable(array: NDArray[Any]) -> NDArray[Any]:
    """`array`, or a copy where it is read-only: torch warns of tensors over read-only memory."""
    return array if array.flags.writeable else array.copy()
