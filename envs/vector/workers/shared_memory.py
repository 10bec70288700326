"""Actions and steps in memory that processes share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from multiprocessing.shared_memory import SharedMemory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....ragged import BlockLayout, RaggedArray
from ....ragged.blocks import aligned, write_array
from ...actions import EntityActionSpace
from ...batch.entity_batch import EntityBatch
from ...batch.packed import PackedLayout
from ...spaces import EntitySpace
from ..vector_env import StepResult

_FLOAT, _BOOL = np.dtype(np.float32), np.dtype(np.bool_)


class SharedBlock:
    """A piece of memory that several processes share.

    The process that makes it (by `size`) also removes it in `close`; the others attach to it by `name`.
    """

    def __init__(self, size: int = 0, name: str | None = None) -> None:
        self._owned = name is None
        self._memory = SharedMemory(name, create=self._owned, size=max(size, 1) if self._owned else 0)
        self.bytes: NDArray[np.uint8] = np.ndarray(self._memory.size, np.uint8, self._memory.buf)
        self.address: int = self.bytes.ctypes.data

    @property
    def name(self) -> str:
        return self._memory.name

    def close(self) -> None:
        """Release the memory; no array over it may be in use any more."""
        del self.bytes
        self._memory.close()
        if self._owned:
            self._memory.unlink()


class GrowingBlock:
    """A shared block that is replaced when something does not fit."""

    def __init__(self) -> None:
        self._block: SharedBlock | None = None

    @property
    def block(self) -> SharedBlock:
        """The present block."""
        assert self._block is not None
        return self._block

    @property
    def bytes(self) -> NDArray[np.uint8]:
        """The memory of the present block; empty where there is none."""
        return np.empty(0, np.uint8) if self._block is None else self._block.bytes

    def fit(self, size: int) -> bool:
        """Make room for `size` bytes, and some more for the next time; whether that took another block."""
        if self._block is not None and size <= len(self._block.bytes):
            return False
        self._replace(SharedBlock(2 * size))
        return True

    def attach(self, name: str) -> None:
        """Use the block that another process has made."""
        self._replace(SharedBlock(name=name))

    def _replace(self, block: SharedBlock | None) -> None:
        self._block, old = block, self._block
        if old is not None:
            old.close()

    def close(self) -> None:
        """Free the memory."""
        self._replace(None)


def actions_size(actions: Mapping[str, RaggedArray]) -> int:
    """Bytes that `write_actions` needs."""
    return sum(order.offsets.nbytes + aligned(order.values.nbytes) for order in actions.values())


def write_actions(
    memory: NDArray[np.uint8], space: EntityActionSpace, actions: Mapping[str, RaggedArray]
) -> None:
    """Write the actions of all lanes, in the order of the space: of each the offsets, and then the values."""
    start = 0
    for name in space.spaces:
        start = write_array(memory, start, actions[name].offsets)
        start = write_array(memory, start, actions[name].values)


def read_actions(
    memory: NDArray[np.uint8], space: EntityActionSpace, num_envs: int, lanes: range
) -> dict[str, RaggedArray]:
    """The actions of `lanes` out of those of `num_envs` lanes, as copies."""
    actions, start = {}, 0
    for name, action in space.items():
        offsets: NDArray[np.int64] = np.ndarray(num_envs + 1, np.int64, memory, start)
        start += offsets.nbytes
        shape = offsets.item(-1), *action.item_shape
        values: NDArray[Any] = np.ndarray(shape, action.dtype, memory, start)
        start = aligned(start + values.nbytes)
        mine = offsets[lanes.start : lanes.stop + 1]
        actions[name] = RaggedArray.unchecked(values[mine[0] : mine[-1]].copy(), mine - mine[0])
    return actions


class StepLayout:
    """Layout in memory of the steps of lanes with one observation space, without infos.

    First a block with results and batch, then where lanes have ended one with their last observations.
    """

    def __init__(self, space: EntitySpace) -> None:
        self._packed = PackedLayout(space)
        globals_ = _FLOAT, (len(space.global_features),)
        ragged = list(self._packed.formats.values())
        self._steps = BlockLayout([(_FLOAT, ()), (_BOOL, ()), (_BOOL, ()), globals_], ragged)
        self._finals = BlockLayout([globals_], ragged)

    def write(self, step: StepResult, final: EntityBatch | None, memory: NDArray[np.uint8]) -> int:
        """Write `step`, and the last observations of its ended lanes, into `memory` if there is room.

        Returns:
            the bytes needed; where these are more than `memory` has, nothing has been written.
        """
        batch, *results, _ = step
        dense, ragged = [*results, batch.globals], self._packed.ragged_arrays(batch)
        last = None if final is None else ([final.globals], self._packed.ragged_arrays(final))
        size = self._steps.size(dense, ragged) + (0 if last is None else self._finals.size(*last))
        if size <= len(memory):
            end = self._steps.write(memory, dense, ragged)
            if last is not None:
                self._finals.write(memory, *last, end)
        return size

    def join(
        self, addresses: Sequence[int], lanes: Sequence[int], num_final: Sequence[int]
    ) -> tuple[StepResult, EntityBatch | None]:
        """The steps written at some memory addresses as one, in new memory, with an empty info.

        Args:
            addresses: where in memory they are.
            lanes: how many lanes each of them has.
            num_final: how many last observations each of them has.
        """
        (rewards, terminated, truncated, globals_), ragged, ends = self._steps.join(addresses, lanes)
        final = None
        if any(num_final):
            (final_globals,), last, _ = self._finals.join(ends, num_final)
            final = self._packed.batch(final_globals, last)
        return (self._packed.batch(globals_, ragged), rewards, terminated, truncated, {}), final
