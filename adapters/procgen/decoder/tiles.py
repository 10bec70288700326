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

from ....ragged.compiled import compiled
from .memory import X, Y, kernel, load_float, load_int
from .plan import ID_TABLE_SIZE, DecodePlan


@kernel
def id_entry(number: Any) -> Any:
    """The entry of an id of the engine (int32) in the tables of ids."""
    return number if 0 <= number < ID_TABLE_SIZE - 1 else ID_TABLE_SIZE - 1


@kernel
def _in_view(size: int, low: float, high: float) -> tuple[Any, Any]:
    """Return the cells [from, to) of a map of `size` cells that are in view from `low` to `high`."""
    begin = 0 if low <= 0 else np.int64(math.floor(low))
    stop = size if high >= size else np.int64(math.ceil(high))
    return begin, stop


@compiled(separate=True)
def _axis(position: float, size: int, low: float, high: float, options: Any) -> tuple[Any, Any, Any, Any]:
    """Lay chunks along one axis of a map of `size` cells, which is in view from `low` to `high`.

    Returns:
        first cell of the first chunk, number of chunks, and what `_in_view` returns.
    """
    chunk, window = options.chunk, options.window
    begin, stop = _in_view(size, low, high)
    cell = np.int64(math.floor(position))
    count = (size + chunk - 1) // chunk
    whole = options.whole_map or count <= window
    first = cell - (chunk // 2 if options.centred else window * chunk // 2)
    if not whole:
        count = window
        if options.centred:
            first -= window // 2 * chunk
        else:
            last = size - window * chunk
            first = 0 if first < 0 else (last if first > last else first)
    elif options.centred:
        first %= chunk
        if first > 0:
            first -= chunk
        count = (size - first + chunk - 1) // chunk
    else:
        first = 0
    return first, count, begin, stop


@kernel
def _is_kept(
    buffer: NDArray[np.uint8],
    cells: int,
    width: int,
    x0: int,
    x1: int,
    y0: int,
    y1: int,
    space: int,
    ids: Any,
) -> bool:
    """Return true if the chunk of the cells [x0, x1) x [y0, y1) is kept."""
    if x0 >= x1 or y0 >= y1:
        return False
    if space < 0:
        return True
    for y in range(y0, y1):
        for x in range(x0, x1):
            if ids[id_entry(load_int(buffer, cells + 4 * (y * width + x)))].column != space:
                return True
    return False


@compiled(separate=True)
def cut_chunks(
    buffer: NDArray[np.uint8],
    numbers: NDArray[np.float64],
    place: Any,
    plan: DecodePlan,
    writes: bool,
    rows: NDArray[np.float32],
    start: int,
) -> int:
    """Cut a state's map into chunks; where it `writes`, each is a row of `rows` (flat), from `start` on.

    A row is the chunk's centre (counted from the origin, then from the player), times the scale, and then for
    each cell, x fastest, its one-hot.

    Returns:
        how many chunks are kept.
    """
    options, ids = plan.options[0], plan.ids
    chunk, kinds, scale = options.chunk, options.columns, options.scale
    cells, row_size = place.cells, plan.types[-1].width
    width, height = np.int64(numbers[options.grid_width]), np.int64(numbers[options.grid_height])
    player_x, player_y = load_float(buffer, place.player + X), load_float(buffer, place.player + Y)
    origin_x = numbers[options.center_x] if options.screen else 0.0
    origin_y = numbers[options.center_y] if options.screen else 0.0
    first_x, num_columns, begin_x, stop_x = _axis(player_x, width, place.left, place.right, options)
    first_y, num_rows, begin_y, stop_y = _axis(player_y, height, place.bottom, place.top, options)
    count = 0
    for row in range(num_rows):
        bottom = first_y + row * chunk
        y0 = bottom if bottom > begin_y else begin_y
        y1 = bottom + chunk if bottom + chunk < stop_y else stop_y
        for column in range(num_columns):
            left = first_x + column * chunk
            x0 = left if left > begin_x else begin_x
            x1 = left + chunk if left + chunk < stop_x else stop_x
            if not _is_kept(buffer, cells, width, x0, x1, y0, y1, options.space, ids):
                continue
            at = start + count * row_size
            count += 1
            if not writes:
                continue
            for index in range(np.uint64(at), np.uint64(at + row_size)):  # unsigned: never from the end
                rows[index] = 0.0
            x, y = left + chunk / 2, bottom + chunk / 2
            rows[at], rows[at + 1] = (x - origin_x) * scale, (y - origin_y) * scale
            if options.positions == 4:
                rows[at + 2], rows[at + 3] = (x - player_x) * scale, (y - player_y) * scale
            for cell_y in range(y0, y1):
                first = at + options.positions + ((cell_y - bottom) * chunk - left) * kinds
                for cell_x in range(x0, x1):
                    kind = ids[id_entry(load_int(buffer, cells + 4 * (cell_y * width + cell_x)))].column
                    if kind >= 0:
                        rows[first + cell_x * kinds + kind] = 1.0
    return count


@compiled(separate=True)
def fill_player_tiles(
    buffer: NDArray[np.uint8],
    numbers: NDArray[np.float64],
    place: Any,
    plan: DecodePlan,
    rows: NDArray[np.float32],
    start: int,
) -> None:
    """Write where in its cell the player is, and the one-hots of the cells around, to `rows` from `start` on.

    A cell outside of the map, or out of view, is in no column.
    """
    options, ids = plan.options[0], plan.ids
    radius, kinds = options.player_tiles, options.columns
    width, height = np.int64(numbers[options.grid_width]), np.int64(numbers[options.grid_height])
    player_x, player_y = load_float(buffer, place.player + X), load_float(buffer, place.player + Y)
    cell_x, cell_y = np.int64(math.floor(player_x)), np.int64(math.floor(player_y))
    begin_x, stop_x = _in_view(width, place.left, place.right)
    begin_y, stop_y = _in_view(height, place.bottom, place.top)
    side = 2 * radius + 1
    for index in range(np.uint64(start), np.uint64(start + 2 + side * side * kinds)):
        rows[index] = 0.0
    rows[start], rows[start + 1] = player_x - cell_x, player_y - cell_y
    for row in range(side):
        y = cell_y - radius + row
        if y < begin_y or y >= stop_y:
            continue
        for column in range(side):
            x = cell_x - radius + column
            if x < begin_x or x >= stop_x:
                continue
            kind = ids[id_entry(load_int(buffer, place.cells + 4 * (y * width + x)))].column
            if kind >= 0:
                rows[start + 2 + (row * side + column) * kinds + kind] = 1.0
