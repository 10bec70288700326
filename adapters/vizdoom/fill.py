"""Features of objects, for all lanes in one pass.

Shape alphabet: E lanes, N objects of all lanes, T entity types, F features of a type.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ...ragged.compiled import compiled
from .reading import ANGLE, BOX, KIND, POSITION, TYPE, VELOCITY

#: Units of the map that count as 1, and units per tic. A player is 32 units wide and runs at 17 per tic.
LENGTH, SPEED = 256.0, 16.0

PLACE_FEATURES = (
    *("x", "y", "forward", "left", "up", "distance", "bearing"),
    *("velocity_forward", "velocity_left", "velocity_up"),
)
BOX_FEATURES = ("screen_x", "screen_y", "screen_width", "screen_height")
FACING_FEATURES = ("facing_cosine", "facing_sine")


@compiled
def fill_objects(
    rows: NDArray[np.float64],
    counts: NDArray[np.int64],
    players: NDArray[np.float64],
    screen: NDArray[np.float64],
    widths: NDArray[np.int64],
    faces: NDArray[np.bool_],
    flag_boxes: bool,
) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.int64]]:
    """Sort objects by type and lane, within these by their distance from the player, and fill their features:
    `PLACE_FEATURES`, `BOX_FEATURES`, whether it is on the screen, `FACING_FEATURES`, and the one-hot class.

    Args:
        rows: (N, `reading.WIDTH`), lane by lane.
        counts: (E,) objects of each lane.
        players: (E, 5) position, and cosine and sine of the heading.
        screen: width and height in pixels.
        widths: (T,) features of each type; no more than the classes follow the others.
        faces: (T,) whether a type has `FACING_FEATURES`.
        flag_boxes: whether the feature "on the screen" exists.

    Returns:
        the features of all types one after the other, where those of each type start (T + 1,), and for each
        type the offsets of its lanes (T, E + 1).
    """
    lanes, num_types = len(counts), len(widths)
    offsets = np.zeros((num_types, lanes + 1), np.int64)
    row = 0
    for lane in range(lanes):
        for _ in range(counts[lane]):
            offsets[int(rows[row, TYPE]), lane + 1] += 1
            row += 1
    starts = np.zeros(num_types + 1, np.int64)  # in `values`
    firsts = np.zeros(num_types + 1, np.int64)  # in `order`
    for t in range(num_types):
        for lane in range(lanes):
            offsets[t, lane + 1] += offsets[t, lane]
        firsts[t + 1] = firsts[t] + offsets[t, lanes]
        starts[t + 1] = starts[t] + offsets[t, lanes] * widths[t]
    order, distances = _sort(rows, counts, players, offsets, firsts)
    values = np.zeros(starts[-1], np.float32)
    for t in range(num_types):
        for lane in range(lanes):
            for place in range(offsets[t, lane], offsets[t, lane + 1]):
                start = starts[t] + place * widths[t]
                row = order[firsts[t] + place]
                _fill(
                    values[start : start + widths[t]],
                    rows[row],
                    players[lane],
                    distances[row],
                    screen,
                    faces[t],
                    flag_boxes,
                )
    return values, starts, offsets


@compiled
def _sort(
    rows: NDArray[np.float64],
    counts: NDArray[np.int64],
    players: NDArray[np.float64],
    offsets: NDArray[np.int64],
    firsts: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the rows (N,) by type, lane and distance, and the distances. Rows of one type and lane that are
    equally far keep the order of their classes: the engine's own order differs between processes.
    """
    order, distances = np.empty(len(rows), np.int64), np.empty(len(rows))
    filled = offsets[:, :-1].copy()
    row = 0
    for lane in range(len(counts)):
        for _ in range(counts[lane]):
            t = int(rows[row, TYPE])
            dx = rows[row, POSITION.start] - players[lane, 0]
            dy = rows[row, POSITION.start + 1] - players[lane, 1]
            distances[row] = math.hypot(dx, dy)
            first, place = firsts[t] + offsets[t, lane], firsts[t] + filled[t, lane]
            while place > first:
                other = order[place - 1]
                if distances[other] < distances[row] or (
                    distances[other] == distances[row] and rows[other, KIND] <= rows[row, KIND]
                ):
                    break
                order[place] = other
                place -= 1
            order[place] = row
            filled[t, lane] += 1
            row += 1
    return order, distances


@compiled
def _fill(
    out: NDArray[np.float32],
    row: NDArray[np.float64],
    player: NDArray[np.float64],
    distance: float,
    screen: NDArray[np.float64],
    faces: bool,
    flag_boxes: bool,
) -> None:
    """Fill the features (F,) of one object."""
    x, y, z = row[POSITION.start], row[POSITION.start + 1], row[POSITION.start + 2]
    vx, vy, vz = row[VELOCITY.start], row[VELOCITY.start + 1], row[VELOCITY.start + 2]
    dx, dy, cosine, sine = x - player[0], y - player[1], player[3], player[4]
    forward, left = cosine * dx + sine * dy, cosine * dy - sine * dx
    out[0], out[1] = x / LENGTH, y / LENGTH
    out[2], out[3], out[4] = forward / LENGTH, left / LENGTH, (z - player[2]) / LENGTH
    out[5], out[6] = distance / LENGTH, math.atan2(left, forward) / math.pi
    out[7], out[8] = (cosine * vx + sine * vy) / SPEED, (cosine * vy - sine * vx) / SPEED
    out[9] = vz / SPEED
    left_edge, top, width, height = row[BOX.start], row[BOX.start + 1], row[BOX.start + 2], row[BOX.start + 3]
    if width > 0:  # else it is not on the screen
        out[10] = 2 * (left_edge + width / 2) / screen[0] - 1
        out[11] = 1 - 2 * (top + height / 2) / screen[1]
        out[12], out[13] = width / screen[0], height / screen[1]
    column = 14
    if flag_boxes:
        out[column] = width > 0
        column += 1
    if faces:
        turned = math.radians(row[ANGLE]) - math.atan2(sine, cosine)
        out[column], out[column + 1] = math.cos(turned), math.sin(turned)
        column += 2
    if row[KIND] >= 0:
        out[column + int(row[KIND])] = 1
