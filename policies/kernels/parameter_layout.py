"""The place of every parameter of a network in one flat array."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


def escaped(name: str) -> str:
    """Return `name` without dots, which torch refuses in the names of modules.

    `names.module_key` puts a % behind those that torch refuses for other reasons; no other escaped name ends
    like that.
    """
    return name.replace("%", "%25").replace(".", "%2E")


class Entry(NamedTuple):
    """One parameter: `tensor` of the module at `place`, or of its part `name`."""

    place: str  # "policy_net.embedding.types", say
    name: str | None  # an entity type or an action, as the spaces name it
    tensor: str  # "linear.weight", say
    shape: tuple[int, ...]
    start: int

    @property
    def size(self) -> int:
        size = 1
        for length in self.shape:
            size *= length
        return size


class Layout:
    """The parameters in the flat array `w`, in the order in which they were added."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.size = 0
        self._widest = 4

    def add(self, place: str, name: str | None, **tensors: tuple[int, ...]) -> int:
        """Add parameters of these shapes, one behind the other; return where the first starts. In their names
        a double underscore stands for a dot."""
        start = self.size
        for tensor, shape in tensors.items():
            entry = Entry(place, name, tensor.replace("__", "."), shape, self.size)
            self.entries.append(entry)
            self.size += entry.size
            self._widest = max(self._widest, *shape)
        return start

    @property
    def room(self) -> int:
        """The numbers to allocate: kernels may add zeros behind the parameters."""
        return self.size + 4 * self._widest

    def pack(self, values: Callable[[Entry], NDArray[np.float32]]) -> NDArray[np.float32]:
        """Return the flat array (`room`,) of the parameters that `values` gives."""
        w = np.zeros(self.room, np.float32)
        for entry in self.entries:
            w[entry.start : entry.start + entry.size] = values(entry).reshape(-1)
        return w
