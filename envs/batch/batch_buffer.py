"""`EntityBatchBuffer`: where a rollout keeps its observations."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ...ragged import RaggedArray, RaggedBuffer
from ..spaces.entity_space import EntitySpace
from .entity_batch import EntityBatch
from .packed import PackedLayout


class EntityBatchBuffer:
    """Growable storage of `EntityBatch`es of one space.

    Memory is kept when the buffer is cleared and grows by doubling, so that a rollout as long as the last one
    allocates nothing for the data.

    Args:
        space: what the batches hold.
    """

    def __init__(self, space: EntitySpace) -> None:
        self.space = space
        self._layout = PackedLayout(space)
        formats = self._layout.formats.items()
        self._columns = {name: RaggedBuffer(shape, dtype) for name, (dtype, shape) in formats}
        self._globals = np.empty((0, len(space.global_features)), np.float32)
        self._steps = 0

    def __len__(self) -> int:
        """Return the number of stored steps."""
        return self._steps

    def append(self, batch: EntityBatch) -> None:
        """Copy the steps of `batch` in behind the others.

        Raises:
            ValueError: `batch` is not of this space; the buffer is as it was.
        """
        arrays = self._checked(batch)
        for name, column in self._columns.items():
            column.append(arrays[name])
        needed = self._steps + len(batch)
        if needed > len(self._globals):
            grown = np.empty((max(needed, 2 * len(self._globals)), self._globals.shape[1]), np.float32)
            grown[: self._steps] = self._globals[: self._steps]
            self._globals = grown
        self._globals[self._steps : needed] = batch.globals
        self._steps = needed

    def _checked(self, batch: EntityBatch) -> dict[str, RaggedArray]:
        """The ragged arrays of `batch`, all of which fit."""
        if batch.globals.shape != (len(batch), self._globals.shape[1]):
            raise ValueError(
                f"globals: expected shape {(len(batch), self._globals.shape[1])}, got {batch.globals.shape}"
            )
        arrays = self._layout.named_arrays(batch)
        if arrays.keys() != self._columns.keys():
            raise ValueError(f"the batch: expected the arrays {sorted(self._columns)}, got {sorted(arrays)}")
        for name, array in arrays.items():
            problem = self._layout.problem(name, array, len(batch))
            if problem:
                raise ValueError(problem)
        return arrays

    def clear(self) -> None:
        """Forget the steps and keep the memory."""
        for column in self._columns.values():
            column.clear()
        self._steps = 0

    def batch(self) -> EntityBatch:
        """All steps, as views that are valid until the next `append` or `clear`."""
        arrays = [column.array() for column in self._columns.values()]
        return self._layout.batch(self._globals[: self._steps], arrays)

    def gather(self, indices: ArrayLike) -> EntityBatch:
        """The steps at `indices` (K,), as copies: a minibatch."""
        return self.batch().gather(indices)
