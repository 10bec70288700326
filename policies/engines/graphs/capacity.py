"""Capacities: sizes of arrays, rounded up so that the shapes of different batches are the same.

A capacity is a tuple of (name, size) pairs. Two batches with the same one run the same kernels on arrays of
the same shapes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

_T = TypeVar("_T")

Sizes = Mapping[str, int]
Capacity = tuple[tuple[str, int], ...]

#: Names of sizes that count tiles start with this. A tile can be large: they are not rounded to eights.
TILES = "tiles/"

#: A capacity is not used for a batch that fills less than this part of one of its sizes.
_FILL = 0.5
#: How many capacities are remembered; the least recently used one is forgotten first.
_KNOWN = 16


def rounded_up(size: int, unit: int = 8) -> int:
    """Round up `size` plus a sixteenth to a multiple of `unit` and of an eighth of its power of two.

    The result is at most 1.2 times as large, plus less than a unit. 0 stays 0.
    """
    unit = max(unit, 1 << max(size.bit_length() - 4, 0))
    return -(-(size + size // 16) // unit) * unit


class Capacities:
    """Finds a known capacity for a batch, or makes a new one."""

    def __init__(self) -> None:
        self._known: list[Capacity] = []  # least recently used first

    def fit(self, sizes: Sizes) -> Capacity:
        """Return a capacity that holds `sizes`; sizes of 0 are 0 in it, others are not.

        So what does not occur in a batch has no arrays and, in training, no gradients.
        """
        fitting = [known for known in self._known if _fits(sizes, known)]
        if fitting:
            capacity = min(fitting, key=lambda known: sum(size for _, size in known))
            self._known.remove(capacity)
        else:
            capacity = tuple((name, rounded_up(size, _unit(name))) for name, size in sizes.items())
        self._known = [*self._known, capacity][-_KNOWN:]
        return capacity


class Recent(dict[Capacity, _T]):
    """Values by capacity, but only of those used last, of which there are more than graphs are kept."""

    def __getitem__(self, capacity: Capacity) -> _T:
        value = self.pop(capacity)
        super().__setitem__(capacity, value)  # used last
        return value

    def __setitem__(self, capacity: Capacity, value: _T) -> None:
        self.pop(capacity, None)
        super().__setitem__(capacity, value)
        while len(self) > 4 * _KNOWN:
            del self[next(iter(self))]


def _fits(sizes: Sizes, capacity: Capacity) -> bool:
    if [name for name, _ in capacity] != list(sizes):
        return False
    return all(
        size <= room and (size > 0) == (room > 0) and room <= max(size / _FILL, 2 * _unit(name))
        for size, (name, room) in zip(sizes.values(), capacity, strict=True)
    )


def _unit(name: str) -> int:
    return 1 if name.startswith(TILES) else 8
