"""Entities of all lanes, from the objects of each game.

Shape alphabet: G games, E lanes, N objects of all games, T entity types.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...ragged.compiled import compiled
from .objects import NEXT, FeatureLayout, Objects, X, Y, Z

#: Columns of `Lanes.actors`.
LANE, ENTITY, CELL_X, CELL_Y = range(4)
#: Columns of what is kept of a lane's avatar: where it starts in `Objects.values`, -1: it is gone; its cell.
_START, _AVATAR_X, _AVATAR_Y = range(3)


class Lanes(NamedTuple):
    """The entities of all lanes."""

    values: NDArray[np.float32]  # the features of all types one after the other
    starts: NDArray[np.int64]  # (T + 1,) of each type in `values`
    offsets: NDArray[np.int64]  # (T, E + 1)
    actors: NDArray[
        np.int64
    ]  # (A, 4) lanes, entity indices and cells of avatars, or of objects on top of a cell
    actor_offsets: NDArray[np.int64]  # (E + 1,)


@compiled
def fill_lanes(
    objects: Objects, layout: FeatureLayout, games: NDArray[np.int64], players: NDArray[np.int64]
) -> Lanes:
    """Return the entities of each lane by type and cell, and by entity index those that can act.

    Args:
        games, players: (E,) the game of each lane, and its number among the players, from 1.
    """
    num_types, num_lanes = len(layout.widths), len(games)
    begins, types, features = objects.starts, objects.types, layout.features
    avatars, views = np.full((num_lanes, 3), -1, np.int64), np.empty((num_lanes, 6), np.int64)
    offsets = np.zeros((num_types, num_lanes + 1), np.int64)
    for lane in range(num_lanes):
        first, last = objects.ends[games[lane]], objects.ends[games[lane] + 1]
        view = views[lane]
        _find_avatar(objects, first, last, layout, players[lane], avatars[lane])
        _set_view(objects.values, layout.window, avatars[lane], view)
        for row in range(first, last):
            kind = types[row]
            if features[kind] and _is_visible(objects.values, begins[row], view):
                offsets[kind, lane + 1] += 1
    starts = np.zeros(num_types + 1, np.int64)
    for kind in range(num_types):
        for lane in range(num_lanes):
            offsets[kind, lane + 1] += offsets[kind, lane]
        starts[kind + 1] = starts[kind] + offsets[kind, num_lanes] * layout.features[kind]
    actors, ends = np.empty((len(types), 4), np.int64), np.zeros(num_lanes + 1, np.int64)
    lanes = Lanes(np.empty(starts[-1], np.float32), starts, offsets, actors, ends)
    for lane in range(num_lanes):
        _fill_lane(objects, layout, lanes, lane, games[lane], players[lane], avatars[lane], views[lane])
    return Lanes(lanes.values, starts, offsets, actors[: ends[-1]], ends)


@compiled
def _find_avatar(
    objects: Objects, first: int, last: int, layout: FeatureLayout, player: int, found: NDArray[np.int64]
) -> None:
    """Set where the player's avatar starts in `values`, and its cell."""
    values, starts, types = objects.values, objects.starts, objects.types
    if layout.avatar < 0:
        return
    owner = NEXT + 2 * layout.turns
    for row in range(first, last):
        start = starts[row]
        if types[row] == layout.avatar and int(values[start + owner]) == player:
            found[_START] = start
            found[_AVATAR_X], found[_AVATAR_Y] = int(values[start + X]), int(values[start + Y])
            return


@compiled
def _set_view(
    values: NDArray[np.float32],
    window: NDArray[np.int64],
    avatar: NDArray[np.int64],
    view: NDArray[np.int64],
) -> None:
    """Set the cells that are visible (left, right, top, bottom), and the avatar's direction.

    A direction (0, 1) is that of one who faces downwards; one without a direction faces upwards.
    """
    view[0], view[1], view[2], view[3], view[4], view[5] = 0, 1 << 30, 0, 1 << 30, 0, -1
    if len(window) == 0:
        return
    if avatar[_START] < 0:  # the avatar is gone: nothing is visible
        view[1] = -1
        return
    dx, dy = 0, -1
    if window[4]:
        start = avatar[_START] + NEXT
        dx, dy = int(values[start]), int(values[start + 1])
        if dx == 0 and dy == 0:
            dy = -1
    half_width, half_height = (window[0] - 1) // 2, (window[1] - 1) // 2
    # The offsets move the window against the direction (y) and to the avatar's left (x).
    center_x = avatar[_AVATAR_X] + dy * window[2] + dx * window[3]
    center_y = avatar[_AVATAR_Y] + dx * window[2] + dy * window[3]
    if dx != 0:
        half_width, half_height = half_height, half_width
    view[0], view[1] = center_x - half_width, center_x + half_width
    view[2], view[3] = center_y - half_height, center_y + half_height
    view[4], view[5] = dx, dy


@compiled
def _is_visible(values: NDArray[np.float32], start: int, view: NDArray[np.int64]) -> bool:
    x, y = values[start + X], values[start + Y]
    return bool(view[0] <= x <= view[1] and view[2] <= y <= view[3])


@compiled
def _fill_lane(
    objects: Objects,
    layout: FeatureLayout,
    lanes: Lanes,
    lane: int,
    game: int,
    player: int,
    avatar: NDArray[np.int64],
    view: NDArray[np.int64],
) -> None:
    """Fill the entities and actors of one lane."""
    num_types = len(layout.widths)
    reported, widths, features = objects.values, layout.widths, layout.features
    values, starts, offsets = lanes.values, lanes.starts, lanes.offsets
    first, last = objects.ends[game], objects.ends[game + 1]
    filled = np.zeros(num_types, np.int64)
    before = np.zeros(num_types + 1, np.int64)  # entities of earlier types
    for kind in range(num_types):
        before[kind + 1] = before[kind] + offsets[kind, lane + 1] - offsets[kind, lane]
    acting = np.full(before[num_types], -1)  # where an entity that can act starts
    for row in range(first, last):
        kind, start = objects.types[row], objects.starts[row]
        if features[kind] and _is_visible(reported, start, view):
            place = starts[kind] + (offsets[kind, lane] + filled[kind]) * features[kind]
            end = start + widths[kind]
            _fill_entity(values, place, reported, start, end, player, layout.num_players, layout.turns)
            if len(layout.window):
                _turn(values, place, layout.turns, avatar, view)
            is_own = int(reported[start + NEXT + 2 * layout.turns]) == player
            if start == avatar[_START] or (
                layout.avatar < 0 and is_own and _is_on_top(objects, row, first, last)
            ):
                acting[before[kind] + filled[kind]] = start
            filled[kind] += 1
    end = lanes.actor_offsets[lane]
    for index in range(len(acting)):
        if acting[index] >= 0:
            actor, start = lanes.actors[end], acting[index]
            actor[LANE], actor[ENTITY] = lane, index
            actor[CELL_X], actor[CELL_Y] = int(reported[start + X]), int(reported[start + Y])
            end += 1
    lanes.actor_offsets[lane + 1] = end


@compiled
def _is_on_top(objects: Objects, row: int, first: int, last: int) -> bool:
    """Return true if no object of the game, whose rows these are, is above an object in its cell."""
    values, start = objects.values, objects.starts[row]
    for step in (-1, 1):  # objects are sorted by cell
        other = row + step
        while first <= other < last:
            beside = objects.starts[other]
            if values[beside + X] != values[start + X] or values[beside + Y] != values[start + Y]:
                break
            if values[beside + Z] > values[start + Z]:
                return False
            other += step
    return True


@compiled
def _fill_entity(
    out: NDArray[np.float32],
    column: int,
    reported: NDArray[np.float32],
    start: int,
    end: int,
    player: int,
    num_players: int,
    turns: bool,
) -> None:
    """Fill place, direction, owner and variables of one entity, from `column` on."""
    out[column], out[column + 1] = reported[start + X], reported[start + Y]
    start, column = start + NEXT, column + 2
    if turns:
        dx, dy = reported[start], reported[start + 1]
        # For the engine's own rules, one without a direction faces upwards.
        out[column], out[column + 1] = dx, dy if dx != 0 or dy != 0 else -1.0
        start, column = start + 2, column + 2
    owner = int(reported[start])
    out[column] = owner == player
    column += 1
    if num_players > 1:
        out[column] = owner != player and owner != 0
        column += 1
    if num_players > 2:  # oneself is 1, and the others follow in turn
        out[column] = 0 if owner == 0 else (owner - player) % num_players + 1
        column += 1
    for number in range(start + 1, end):
        out[column] = reported[number]
        column += 1


@compiled
def _turn(
    out: NDArray[np.float32], column: int, turns: bool, avatar: NDArray[np.int64], view: NDArray[np.int64]
) -> None:
    """Turn place and direction of one entity into what they are for the avatar: to its right, and forward."""
    x, y = out[column] - avatar[_AVATAR_X], out[column + 1] - avatar[_AVATAR_Y]
    ahead_x, ahead_y = view[4], view[5]
    out[column], out[column + 1] = -ahead_y * x + ahead_x * y, ahead_x * x + ahead_y * y
    if turns:
        dx, dy = out[column + 2], out[column + 3]
        out[column + 2], out[column + 3] = -ahead_y * dx + ahead_x * dy, ahead_x * dx + ahead_y * dy
