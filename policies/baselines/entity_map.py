"""Conversion of entities on the cells of a map to the input of the published networks.

Shape alphabet: B steps, N entities, A actors, T entity types, P planes, H and W height and width of the map.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...envs import EntityBatch, EntitySpace
from ..inputs.rows import RowLayout
from ..rogue_net.tensors import as_tensor

#: How the features of every type begin; what follows are its planes.
POSITION = ("x", "y")


@dataclass(frozen=True, eq=False)
class MapEntities:
    """The entities of B steps, step after step, within a step type after type."""

    rows: RowLayout
    cells: NDArray[np.int64]  # (N,): y · W + x
    planes: NDArray[np.float32]  # (N, P)
    types: NDArray[np.int64]  # (N,): the type of each entity, counted in the order of the space
    counts: NDArray[np.int64]  # (B, T): entities of each type

    @property
    def steps(self) -> NDArray[np.int64]:
        """The step of each entity (N,)."""
        return np.repeat(np.arange(len(self.rows)), self.rows.lengths)


class EntityMap:
    """Reads batches of a space whose types all have the features x, y and then the same planes.

    Positions are whole numbers, 0 ≤ x < width and 0 ≤ y < height. Global features are not read: the
    published networks know of none.

    Args:
        space: entity types in the order own, enemy, neutral.
        height, width: of the map, in cells.

    Raises:
        ValueError: the types have other features, or entities can be hidden from the policy.
    """

    def __init__(self, space: EntitySpace, height: int, width: int) -> None:
        if space.hidden:
            raise ValueError(
                "the space has hidden=True: map networks can't hide entities: expected hidden=False"
            )
        if not space.entities:
            raise ValueError("the space: expected at least one of the entity types of a map, got none")
        planes = next(iter(space.entities.values()))[2:]
        for name, features in space.entities.items():
            if not planes or features != (*POSITION, *planes):
                raise ValueError(
                    f"entity type {name!r}: expected the features x, y and then planes, the same for every"
                    f" type, got {', '.join(features) or 'none'}"
                )
        self.space = space
        self.height, self.width = height, width
        self.plane_names = planes
        self.empty_planes: tuple[int, ...] = ()

    def set_empty_planes(self, empty_planes: tuple[int, ...]) -> None:
        """Say which planes are 1 in a cell without entity.

        Raises:
            ValueError: there is no such plane.
        """
        for plane in empty_planes:
            if not 0 <= plane < self.num_planes:
                raise ValueError(f"empty_planes: expected planes below {self.num_planes}, got {plane}")
        self.empty_planes = empty_planes

    @property
    def num_planes(self) -> int:
        return len(self.plane_names)

    @property
    def num_cells(self) -> int:
        return self.height * self.width

    def read(self, batch: EntityBatch) -> MapEntities:
        """
        Raises:
            ValueError: the batch is of another space, or an entity is not on the map.
        """
        if list(batch.entities) != list(self.space.entities):
            raise ValueError(
                f"the batch: expected the entity types {', '.join(self.space.entities)}, got"
                f" {', '.join(batch.entities)}"
            )
        by_type, offsets = batch.entity_rows()
        count = int(offsets[-1])
        cells, types = np.empty(count, np.int64), np.empty(count, np.int64)
        planes = np.empty((count, self.num_planes), np.float32)
        for place, (name, rows) in enumerate(batch.entities.items()):
            if rows.inner_shape != (2 + self.num_planes,) or rows.dtype != np.float32:
                raise ValueError(
                    f"entity type {name!r}: expected items of shape ({2 + self.num_planes},) and float32, got"
                    f" {rows.inner_shape} and {rows.dtype}"
                )
            mine = by_type[name]
            self._check_positions(batch, name)
            x, y = rows.values[:, 0].astype(np.int64), rows.values[:, 1].astype(np.int64)
            cells[mine], types[mine], planes[mine] = y * self.width + x, place, rows.values[:, 2:]
        counts = np.stack([rows.lengths for rows in batch.entities.values()], 1)
        return MapEntities(RowLayout(offsets, offsets), cells, planes, types, counts)

    def _check_positions(self, batch: EntityBatch, name: str) -> None:
        rows = batch.entities[name]
        position = rows.values[:, :2]
        on_map = (position >= 0) & (position < (self.width, self.height)) & (position == np.floor(position))
        if not on_map.all():
            item = int(np.argmin(on_map.all(1)))
            x, y = position[item].tolist()
            raise ValueError(
                f"entity type {name!r}: step {rows.sequence_indices()[item]}: expected a cell of the map of"
                f" width {self.width} and height {self.height}, got x {x:g}, y {y:g}"
            )

    def grid(self, seen: MapEntities, like: Tensor) -> Tensor:
        """All cells of all steps (B, H · W, P), row-major, on the device and in the dtype of `like`.

        Raises:
            ValueError: two entities stand on one cell.
        """
        places = seen.steps * self.num_cells + seen.cells
        taken = np.zeros(len(seen.rows) * self.num_cells, bool)
        taken[places] = True
        if int(taken.sum()) < len(places):
            self._blame_shared_cell(places)
        grid = like.new_zeros(len(seen.rows) * self.num_cells, self.num_planes)
        if self.empty_planes:
            grid[:, list(self.empty_planes)] = 1.0
        grid.index_copy_(0, as_tensor(places, like), as_tensor(seen.planes, like, like.dtype))
        return grid.view(len(seen.rows), self.num_cells, self.num_planes)

    def _blame_shared_cell(self, places: NDArray[np.int64]) -> None:
        unique, counts = np.unique(places, return_counts=True)
        step, cell = divmod(int(unique[counts > 1][0]), self.num_cells)
        y, x = divmod(cell, self.width)
        raise ValueError(f"step {step}: cell x {x}, y {y}: expected at most one entity, got several")

    def images(self, grid: Tensor, multiple: int = 1) -> Tensor:
        """Cells (B, H · W, P) as images (B, P, H', W'), channels last in memory.

        H' and W' are the next multiples of `multiple`; what lies beyond the map is 0 in all planes, as what
        convolutions see beyond any image.
        """
        images = grid.view(len(grid), self.height, self.width, self.num_planes)
        below, beside = -self.height % multiple, -self.width % multiple
        if below or beside:
            images = torch.nn.functional.pad(images, (0, 0, 0, beside, 0, below))
        return images.permute(0, 3, 1, 2)
