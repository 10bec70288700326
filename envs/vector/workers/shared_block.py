"""Memory that processes share, and how actions travel in it."""

from __future__ import annotations

from collections.abc import Mapping
from multiprocessing.shared_memory import SharedMemory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....ragged import RaggedArray
from ....ragged.blocks import aligned, write_array
from ...actions import EntityActionSpace


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
        """Let go of the memory; no array over it may be in use any more."""
        del self.bytes
        self._memory.close()
        if self._owned:
            self._memory.unlink()


class GrowingBlock:
    """A shared block that its maker replaces by a larger one when something does not fit."""

    def __init__(self) -> None:
        self._block: SharedBlock | None = None

    @property
    def block(self) -> SharedBlock:
        """The present one, once anything has been fitted."""
        assert self._block is not None
        return self._block

    def fit(self, size: int) -> bool:
        """Make room for `size` bytes, and some more for the next time; whether that took another block."""
        if self._block is not None and size <= len(self._block.bytes):
            return False
        self.close()
        self._block = SharedBlock(2 * size)
        return True

    def close(self) -> None:
        """Free the memory."""
        if self._block is not None:
            self._block.close()
            self._block = None


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
