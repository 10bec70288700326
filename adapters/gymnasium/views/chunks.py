"""`Chunks`: dense maps in square pieces, each piece an entity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from ....envs import ObservationError
from ....ragged import RaggedArray
from .grids import grid_reader, in_range
from .scope import EntityEncoder, Scope, View, ViewError


@dataclass(frozen=True, repr=False)
class Chunks(View):
    """A map, image or height field in k × k chunks; each is an entity at x, y with its cells as features.

    Chunks at the right and lower edge that reach over it are filled up with zeros.

    Args:
        size: the edge k of a chunk, in cells.
        one_hot: cells hold ids in [0, one_hot), which become one-hot; by default their numbers are kept.
        name: the type of the chunks.
        layout: the order of the axes, as for `Channels`.
    """

    size: int = 8
    one_hot: int | None = None
    name: str | None = None
    layout: str | None = None

    def bind(self, space: spaces.Space[Any], scope: Scope) -> EntityEncoder:
        (height, width, channels), read = grid_reader(self, space, scope, self.layout)
        k, name, ids = self.size, scope.type_name(self.name, "Chunk"), self.one_hot
        if k < 1 or (ids is not None and ids < 1):
            raise ViewError(f"{scope.place}: expected size and one_hot of at least 1, got {self!r}")
        depth = channels * (ids or 1)
        rows, columns = -(-height // k), -(-width // k)
        positions = np.stack(np.meshgrid(np.arange(columns) * k, np.arange(rows) * k), -1)  # (R, C, 2)
        cells = [f"cell_{y}_{x}" for y in range(k) for x in range(k)]
        depths = [f"_{c}" for c in range(channels)] if channels > 1 else [""]
        labels = [d + (f"={i}" if ids else "") for d in depths for i in range(ids or 1)]
        features = ("x", "y", *(cell + label for cell in cells for label in labels))

        def encode(observation: Any, batch_size: int) -> dict[str, RaggedArray]:
            grid = read(observation, batch_size)
            if ids is not None:
                grid = _one_hot(grid, ids, scope)
            if (rows * k, columns * k) != (height, width):
                edges = [(0, 0), (0, rows * k - height), (0, columns * k - width), (0, 0)]
                grid = np.pad(grid, edges)
            out = np.empty((batch_size, rows, columns, 2 + k * k * depth), np.float32)
            out[..., :2] = positions
            pieces = grid.reshape(batch_size, rows, k, columns, k, depth).transpose(0, 1, 3, 2, 4, 5)
            out[..., 2:].reshape(batch_size, rows, columns, k, k, depth)[...] = (
                pieces  # a view: splits one axis
            )
            values = out.reshape(batch_size * rows * columns, -1)
            return {name: RaggedArray(values, np.arange(batch_size + 1) * (rows * columns))}

        return EntityEncoder({name: features}, encode)


def _one_hot(grid: NDArray[Any], ids: int, scope: Scope) -> NDArray[np.bool_]:
    """(B, h, w, c) ids as (B, h, w, c * ids)."""
    outside = ~in_range(grid, ids)
    if outside.any():
        raise ObservationError(
            f"{scope.place}: expected cell ids from 0 to {ids - 1}, got cell {grid[outside][0]}"
        )
    return (grid[..., None] == np.arange(ids)).reshape(*grid.shape[:3], -1)
