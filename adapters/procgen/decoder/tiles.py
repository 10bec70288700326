"""Cutting a map into chunks: square blocks of cells, each an entity with a one-hot per cell.

The map is y * w + x with y upwards. Two ways to lay the chunks:

- *centred*: the player's cell is the middle cell of the middle chunk, so that the same feature of the same
  chunk is always the same place as seen from the player;
- otherwise the window is pushed back into the map where it would stick out, as in the reference.

Along an axis on which the window is as long as the map, or with `whole_map`, all of the map is covered. A
cell outside of the map, or out of view, is in no column. A chunk without any cell in view is left out; so is
one that is nothing but space, where the plan says so.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import plan
from .memory import kernel, load_int
from .plan import TilePlan

View = tuple[float, float, float, float]  # left, right, bottom, top, in cells

#: `plan.id_entry`, for kernels.
id_entry = kernel(plan.id_entry)


@kernel
def chunk_axis(position: float, size: int, tiles: TilePlan) -> tuple[Any, Any]:
    """Along one axis of a map of `size` cells: (first cell of the first chunk, number of chunks)."""
    chunk = tiles.chunk
    cell = np.int64(math.floor(position))
    needed = (size + chunk - 1) // chunk
    whole = tiles.whole_map or needed <= tiles.window
    if tiles.centred:
        middle = cell - chunk // 2
        if whole:
            first = middle % chunk
            if first > 0:
                first -= chunk
            return first, (size - first + chunk - 1) // chunk
        return middle - tiles.window // 2 * chunk, tiles.window
    if whole:
        return np.int64(0), needed
    first = cell - tiles.window * chunk // 2
    return max(np.int64(0), min(first, size - tiles.window * chunk)), tiles.window


@kernel
def cells_in_view(first: int, chunk: int, size: int, low: float, high: float) -> tuple[Any, Any]:
    """The cells [from, to) of a chunk that are in the map and in the view (low, high), along one axis."""
    begin: Any = max(first, 0)
    stop: Any = min(first + chunk, size)
    if low > -np.inf:
        begin = max(begin, np.int64(math.floor(max(low, -1.0))))
        stop = min(stop, np.int64(math.ceil(min(high, size + 1.0))))
    return begin, stop


@kernel
def _is_kept(
    buffer: NDArray[np.uint8], cells: int, width: int, x0: int, x1: int, y0: int, y1: int, tiles: TilePlan
) -> bool:
    """Return true if the chunk of the cells [x0, x1) x [y0, y1) is kept."""
    if x0 >= x1 or y0 >= y1:
        return False
    if tiles.space < 0:
        return True
    for y in range(y0, y1):
        for x in range(x0, x1):
            if tiles.column_of[id_entry(load_int(buffer, cells + 4 * (y * width + x)))] != tiles.space:
                return True
    return False


@kernel
def count_chunks(
    buffer: NDArray[np.uint8],
    cells: int,
    width: int,
    height: int,
    player_x: float,
    player_y: float,
    view: View,
    tiles: TilePlan,
) -> int:
    """Return the number of chunks that `fill_chunks` writes for a map whose cells start at byte `cells`."""
    first_x, columns = chunk_axis(player_x, width, tiles)
    first_y, rows = chunk_axis(player_y, height, tiles)
    count = 0
    for row in range(rows):
        y0, y1 = cells_in_view(first_y + row * tiles.chunk, tiles.chunk, height, view[2], view[3])
        for column in range(columns):
            x0, x1 = cells_in_view(first_x + column * tiles.chunk, tiles.chunk, width, view[0], view[1])
            if _is_kept(buffer, cells, width, x0, x1, y0, y1, tiles):
                count += 1
    return count


@kernel
def fill_chunks(
    buffer: NDArray[np.uint8],
    cells: int,
    width: int,
    height: int,
    player_x: float,
    player_y: float,
    origin_x: float,
    origin_y: float,
    view: View,
    tiles: TilePlan,
    out: NDArray[np.float32],
) -> None:
    """Write one row of features per chunk to `out` (chunks, positions + chunk * chunk * columns).

    A row is the chunk's centre (counted from the origin, then from the player), times the scale, and then for
    each cell, x fastest, its one-hot.
    """
    chunk, kinds = tiles.chunk, tiles.columns
    first_x, columns = chunk_axis(player_x, width, tiles)
    first_y, rows = chunk_axis(player_y, height, tiles)
    out[:] = 0
    index = 0
    for row in range(rows):
        bottom = first_y + row * chunk
        y0, y1 = cells_in_view(bottom, chunk, height, view[2], view[3])
        for column in range(columns):
            left = first_x + column * chunk
            x0, x1 = cells_in_view(left, chunk, width, view[0], view[1])
            if not _is_kept(buffer, cells, width, x0, x1, y0, y1, tiles):
                continue
            features = out[index]
            index += 1
            x, y = left + chunk / 2, bottom + chunk / 2
            features[0], features[1] = (x - origin_x) * tiles.scale, (y - origin_y) * tiles.scale
            if tiles.positions == 4:
                features[2], features[3] = (x - player_x) * tiles.scale, (y - player_y) * tiles.scale
            for cell_y in range(y0, y1):
                start = tiles.positions + ((cell_y - bottom) * chunk - left) * kinds
                for cell_x in range(x0, x1):
                    kind = tiles.column_of[id_entry(load_int(buffer, cells + 4 * (cell_y * width + cell_x)))]
                    if kind >= 0:
                        features[start + cell_x * kinds + kind] = 1.0
