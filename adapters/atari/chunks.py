"""Objects that stand on a grid (bricks, pills), a chunk of places per entity instead of an entity each."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from .game import FURTHER, HEIGHT, LEFT, TOP, WIDTH, AtariGame, Grid, ObjectType


def in_chunks(game: AtariGame) -> AtariGame:
    """Return a table that has the type "<name>Chunk" for each type on a grid.

    A chunk is an entity while an object is in it. `x, y` is its middle, and `cell_<row>_<column>` is 1 where
    its object is. Features of the objects themselves are left out.
    """
    types = tuple(_chunk_type(kind) for kind in game.types)
    return replace(game, types=types, read=_ChunkReader(game, types))


def _chunk_type(kind: ObjectType) -> ObjectType:
    if kind.grid is None:
        return kind
    rows, columns = kind.grid.chunk
    cells = tuple(f"cell_{row}_{column}" for row in range(rows) for column in range(columns))
    return ObjectType(f"{kind.name}Chunk", kind.most // len(cells), cells, moves=False)


@dataclass(frozen=True)
class _ChunkReader:
    """The `read` of a table with chunks: reads the objects, and puts those on a grid into their chunks."""

    game: AtariGame
    types: tuple[ObjectType, ...]

    def __call__(
        self, ram: NDArray[np.int64], slots: NDArray[np.float32], status: NDArray[np.float32]
    ) -> None:
        objects = self.game.empty_slots(len(ram))
        self.game.read(ram, objects, status)
        start = 0
        for kind, chunks, first in zip(self.game.types, self.types, self.game.firsts.tolist(), strict=False):
            source = objects[:, first : first + kind.most]
            target = slots[:, start : start + chunks.most]
            if kind.grid is None:
                target[..., : source.shape[2]] = source
            else:
                _fill_chunks(target, source[..., WIDTH] > 0, kind.grid)
            start += chunks.most


def _fill_chunks(slots: NDArray[np.float32], is_there: NDArray[np.bool_], grid: Grid) -> None:
    """Fill the slots of chunks (E, S, C) from which of a grid's objects are there (E, rows * columns)."""
    (rows, columns), (height, width) = grid.shape, grid.chunk
    down, across = rows // height, columns // width
    cells = is_there.reshape(-1, down, height, across, width).transpose(0, 1, 3, 2, 4)
    cells = cells.reshape(len(slots), down * across, height * width)
    slots[..., FURTHER : FURTHER + height * width] = cells
    left, top, wide, high = grid.area
    index = np.arange(down * across)
    slots[..., LEFT] = left + index % across * (wide / across)
    slots[..., TOP] = top + index // across * (high / down)
    slots[..., WIDTH] = cells.any(-1) * (wide / across)
    slots[..., HEIGHT] = high / down
