"""`AtariGame`, the table of a game, and the functions that tables are written with.

A table is one file in `games/`: the entity types, and a kernel that reads where their objects are. An object
has a *slot*, its fixed place among those of its type (the third car is always the third slot), by which it is
found again in the next step: that gives velocities.

Shape alphabet: E lanes, S slots of all types, C columns of a slot, G global features.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...ragged.compiled import compiled

#: Columns of a slot: the box in pixels of the screen, 160 wide and 210 high; further features follow. A slot
#: whose width is 0 is empty: the object is not on the screen.
LEFT, TOP, WIDTH, HEIGHT, FURTHER = 0, 1, 2, 3, 4
SCREEN_WIDTH, SCREEN_HEIGHT = 160, 210
#: Frames of a step up to which `ObjectType.farthest` holds; in longer ones objects move as much farther.
FRAMES = 8

#: `read(ram, slots, status)`: fill the slots, which are all empty, and the global features from the memory,
#: but for "lives", which the emulator counts.
#: ram int64 (E, 128), slots float32 (E, S, C), status float32 (E, G).
Read = Callable[[NDArray[np.int64], NDArray[np.float32], NDArray[np.float32]], None]


@dataclass(frozen=True)
class Grid:
    """The places on which the objects of a type stand, row by row, and the chunks in which they can be read.

    Attributes:
        shape: rows and columns, of which there are `most` together.
        chunk: rows and columns of a chunk; they divide those of the grid.
        area: the box around all places, in pixels.
    """

    shape: tuple[int, int]
    chunk: tuple[int, int]
    area: tuple[int, int, int, int]


@dataclass(frozen=True)
class ObjectType:
    """An entity type of a game: the largest number of its objects, and their features.

    Every type has `x` and `y`, the middle of the object.
    """

    name: str
    most: int = 1
    #: Names of the further columns that `read` fills, e.g. the direction.
    features: tuple[str, ...] = ()
    #: Has `width` and `height`, because they vary.
    sized: bool = False
    #: Has `velocity_x` and `velocity_y`.
    moves: bool = True
    #: Pixels that an object moves at most in a step of up to `FRAMES` frames. One that is farther from the
    #: last place of its slot has come back elsewhere, or is another one: its velocity is 0.
    farthest: float = 48.0
    #: Objects stand on a grid, and the option `chunks` has an entity per chunk of it.
    grid: Grid | None = None


@dataclass(frozen=True)
class AtariGame:
    """The table of one game.

    Attributes:
        rom: the name of the cartridge's file in `ale_py.roms`.
        types: the entity types; their slots follow each other in this order.
        status: global feature -> the number that counts as 1.
        read: the kernel that reads the memory.
    """

    rom: str
    types: tuple[ObjectType, ...]
    status: dict[str, float]
    read: Read

    @cached_property
    def firsts(self) -> NDArray[np.int64]:
        """The first slot of each type, and the number of all slots."""
        return np.cumsum([0, *(kind.most for kind in self.types)])

    def read_slots(self, ram: NDArray[np.uint8]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return the slots (E, S, C) and the global features (E, G), unscaled, of memories (E, 128)."""
        slots = self.empty_slots(len(ram))
        status = np.zeros((len(ram), len(self.status)), np.float32)
        self.read(ram.astype(np.int64), slots, status)  # kernels need no care for bytes that overflow
        return slots, status

    def empty_slots(self, lanes: int) -> NDArray[np.float32]:
        """Return slots (E, S, C) without objects."""
        columns = FURTHER + max(len(kind.features) for kind in self.types)
        return np.zeros((lanes, self.firsts[-1], columns), np.float32)


@compiled
def place(slot: Any, left: int, top: int, width: int, height: int) -> None:
    """Fill a slot with the box of an object, cut off at the edges of the screen."""
    right, bottom = min(left + width, SCREEN_WIDTH), min(top + height, SCREEN_HEIGHT)
    left, top = max(left, 0), max(top, 0)
    if right > left and bottom > top:
        slot[LEFT], slot[TOP], slot[WIDTH], slot[HEIGHT] = left, top, right - left, bottom - top


@compiled
def cut(slot: Any, left: int, top: int, right: int, bottom: int) -> None:
    """Cut the box of a slot off at the edges of an area, outside of which nothing is shown."""
    end, foot = min(slot[LEFT] + slot[WIDTH], right), min(slot[TOP] + slot[HEIGHT], bottom)
    slot[LEFT], slot[TOP] = max(slot[LEFT], left), max(slot[TOP], top)
    slot[WIDTH], slot[HEIGHT] = end - slot[LEFT], foot - slot[TOP]
    if end <= slot[LEFT] or foot <= slot[TOP]:
        slot[:] = 0


@compiled
def decimal(byte: int) -> int:
    """Return the number that a byte holds as two decimal digits."""
    return (byte >> 4) * 10 + (byte & 15)
