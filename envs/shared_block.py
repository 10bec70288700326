"""Batches in shared memory: how worker processes hand them over without pickling.

A block holds arrays one after the other, each on a multiple of eight bytes; a ragged array is its offsets and
then its values. Writer and reader go through the same sequence of arrays, so lengths that the offsets or the
space don't tell are all that has to be known beforehand.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from multiprocessing.shared_memory import SharedMemory
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..ragged import RaggedArray
from .batch import ActionMask, EntityBatch, batch_observations
from .lanes import LaneStep
from .spaces import EntityActionSpace, EntitySpace

_ALIGNMENT = 8


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


class SharedBlock:
    """A piece of memory that two processes see.

    Whoever makes it (by `size`) also removes it in `close`; the other side attaches to it by `name`.
    """

    def __init__(self, size: int = 0, name: str | None = None) -> None:
        self._owned = name is None
        self._memory = SharedMemory(name, create=self._owned, size=max(size, 1) if self._owned else 0)
        self.bytes: NDArray[np.uint8] = np.ndarray(self._memory.size, np.uint8, self._memory.buf)

    @property
    def name(self) -> str:
        return self._memory.name

    def close(self) -> None:
        """Let go of the memory; no array over it may be in use any more."""
        del self.bytes
        self._memory.close()
        if self._owned:
            self._memory.unlink()


class Writer:
    """Writes arrays into a block, one after the other."""

    def __init__(self, block: SharedBlock) -> None:
        self._bytes = block.bytes
        self._position = 0

    def array(self, values: NDArray[Any]) -> None:
        flat = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        self._bytes[self._position : self._position + len(flat)] = flat
        self._position += _aligned(len(flat))

    def ragged(self, array: RaggedArray) -> None:
        self.array(array.offsets)
        self.array(array.values)


class Reader:
    """Reads the arrays of a block back in the order in which they were written, as views."""

    def __init__(self, block: SharedBlock) -> None:
        self._bytes = block.bytes
        self._position = 0

    def array(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        values = self._bytes[self._position : self._position + size].view(dtype).reshape(shape)
        self._position += _aligned(size)
        return values

    def ragged(self, num_sequences: int, inner_shape: tuple[int, ...], dtype: DTypeLike) -> RaggedArray:
        offsets = self.array((num_sequences + 1,), np.int64)
        return RaggedArray(self.array((int(offsets[-1]), *inner_shape), dtype), offsets)


def packed_size(arrays: Iterable[RaggedArray | NDArray[Any]]) -> int:
    """Bytes that `arrays` take in a block."""
    size = 0
    for array in arrays:
        if isinstance(array, RaggedArray):
            size += _aligned(array.offsets.nbytes) + _aligned(array.values.nbytes)
        else:
            size += _aligned(array.nbytes)
    return size


def write_all(block: SharedBlock, arrays: Iterable[RaggedArray | NDArray[Any]]) -> None:
    """Write `arrays` from the start of the block; `packed_size` says whether they fit."""
    writer = Writer(block)
    for array in arrays:
        if isinstance(array, RaggedArray):
            writer.ragged(array)
        else:
            writer.array(array)


class BatchReader:
    """Reads what worker processes of one observation space write.

    What comes back are views of the block: copy them before the block is written again.
    """

    def __init__(self, space: EntitySpace) -> None:
        self._template = batch_observations(space, [])

    def _batch(self, reader: Reader, num_steps: int) -> EntityBatch:
        def again(like: RaggedArray) -> RaggedArray:
            return reader.ragged(num_steps, like.inner_shape, like.dtype)

        def mask(like: ActionMask) -> ActionMask:  # in the order of EntityBatch.arrays
            actors, mask = again(like.actors), again(like.mask)
            return ActionMask(actors, mask, None if like.actees is None else again(like.actees))

        template = self._template
        return EntityBatch(
            {name: again(rows) for name, rows in template.entities.items()},
            reader.array((num_steps, template.globals.shape[1]), np.float32),
            {name: mask(part) for name, part in template.actions.items()},
            {name: again(flags) for name, flags in template.visible.items()},
            None if template.frames is None else again(template.frames),
        )

    def batch(self, block: SharedBlock, num_steps: int) -> EntityBatch:
        """A batch written as `batch.arrays()`."""
        return self._batch(Reader(block), num_steps)

    def step(self, block: SharedBlock, num_lanes: int, num_final: int) -> LaneStep:
        """A step written as `step_arrays`, without its infos; `num_final` lanes have last observations."""
        reader = Reader(block)
        rewards = reader.array((num_lanes,), np.float32)
        terminated = reader.array((num_lanes,), np.bool_)
        truncated = reader.array((num_lanes,), np.bool_)
        batch = self._batch(reader, num_lanes)
        final = self._batch(reader, num_final) if num_final else None
        return LaneStep(batch, rewards, terminated, truncated, final)


def step_arrays(step: LaneStep) -> list[RaggedArray | NDArray[Any]]:
    """The arrays of `step` in the order in which they are written."""
    arrays: list[RaggedArray | NDArray[Any]] = [step.rewards, step.terminated, step.truncated]
    arrays.extend(step.batch.arrays().values())
    if step.final is not None:
        arrays.extend(step.final.arrays().values())
    return arrays


def action_arrays(
    space: EntityActionSpace, actions: Mapping[str, RaggedArray]
) -> list[RaggedArray | NDArray[Any]]:
    """`actions` in the order in which they are written."""
    return [actions[name] for name in space.spaces]


def read_actions(block: SharedBlock, space: EntityActionSpace, num_lanes: int) -> dict[str, RaggedArray]:
    """Actions for `num_lanes` lanes, as copies."""
    reader = Reader(block)
    orders = {
        name: reader.ragged(num_lanes, action.item_shape, action.dtype) for name, action in space.items()
    }
    return {name: RaggedArray(order.values.copy(), order.offsets.copy()) for name, order in orders.items()}
