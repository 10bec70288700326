"""Until envs/batch_buffer.py is here."""

from __future__ import annotations

from ..envs import EntityBatch, EntitySpace, concatenate_batches


class EntityBatchBuffer:
    def __init__(self, space: EntitySpace) -> None:
        self._batches: list[EntityBatch] = []

    def append(self, batch: EntityBatch) -> None:
        self._batches.append(batch)

    def clear(self) -> None:
        self._batches.clear()

    def batch(self) -> EntityBatch:
        return concatenate_batches(self._batches)
