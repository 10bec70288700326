"""Entities of all lanes, from what the engine reports of the objects of each game.

Shape alphabet: G games, E lanes, N objects of all games, L lists of objects of one type, T entity types.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...ragged.compiled import compiled

#: Places in what is reported of an object; its variables follow (see `rules.BASE`).
X, Y, Z, DX, DY, PLAYER, VARIABLES = range(7)

#: Columns of `Lanes.avatars`.
INDEX, AVATAR_X, AVATAR_Y, IS_COVERED = range(4)


class Objects(NamedTuple):
    """The objects of all games, within a game by their cells, row after row."""

    values: NDArray[np.float32]  # what is reported of them, one after the other
    starts: NDArray[np.int64]  # (N,) where an object starts in `values`
    types: NDArray[np.int64]  # (N,)
    ends: NDArray[np.int64]  # (G + 1,) of each game in the above


class Shown(NamedTuple):
    """What lanes observe of objects."""

    widths: NDArray[np.int64]  # (T,) numbers reported of an object
    features: NDArray[np.int64]  # (T,) features of an entity; 0: not observed
    avatar: int  # the avatar's type, -1: there is none
    num_players: int
    window: NDArray[np.int64]  # width, height, offsets and whether it turns; empty: the whole board


class Lanes(NamedTuple):
    """The entities of all lanes."""

    values: NDArray[np.float32]  # the features of all types one after the other
    starts: NDArray[np.int64]  # (T + 1,) of each type in `values`
    offsets: NDArray[np.int64]  # (T, E + 1)
    avatars: NDArray[np.int64]  # (E, 4): index of the lane's avatar (-1: none), its cell, is another above it
    tops: NDArray[np.int64]  # (E, cells) index of the own object that lies on top of each cell, -1: none


@compiled
def sort_objects(
    values: NDArray[np.float32],
    kinds: NDArray[np.int64],
    lengths: NDArray[np.int64],
    list_ends: NDArray[np.int64],
    boards: NDArray[np.int64],
    widths: NDArray[np.int64],
) -> Objects:
    """Sort objects by game and cell: the engine reports them in an order that differs between processes.

    Args:
        values: what is reported of them, list after list.
        kinds, lengths: (L,) types and lengths of the lists.
        list_ends: (G + 1,) of each game's lists.
        boards: (G, 2) width and height.
        widths: (T,) numbers reported of an object.
    """
    num_games = len(boards)
    ends = np.zeros(num_games + 1, np.int64)
    for game in range(num_games):
        ends[game + 1] = ends[game]
        for part in range(list_ends[game], list_ends[game + 1]):
            ends[game + 1] += lengths[part]
    starts, types = np.empty(ends[-1], np.int64), np.empty(ends[-1], np.int64)
    position = 0
    for game in range(num_games):
        width, height = boards[game]
        places = np.zeros(width * height + 1, np.int64)
        for is_counting in (True, False):
            start = position
            for part in range(list_ends[game], list_ends[game + 1]):
                step = widths[kinds[part]]
                for _ in range(lengths[part]):
                    cell = int(values[start + Y]) * width + int(values[start + X])
                    if is_counting:
                        places[cell + 1] += 1
                    else:
                        row = ends[game] + places[cell]
                        places[cell] += 1
                        starts[row], types[row] = start, kinds[part]
                    start += step
            if is_counting:
                for cell in range(width * height):
                    places[cell + 1] += places[cell]
            else:
                position = start
    return Objects(values, starts, types, ends)


@compiled
def fill_lanes(
    objects: Objects,
    shown: Shown,
    games: NDArray[np.int64],
    players: NDArray[np.int64],
    boards: NDArray[np.int64],
) -> Lanes:
    """Return the entities of each lane by type and cell.

    Args:
        games, players: (E,) the game of each lane, and its number among the players, from 1.
        boards: (G, 2) width and height.
    """
    num_types, num_lanes = len(shown.widths), len(games)
    avatars = np.full((num_lanes, 4), -1, np.int64)
    views = np.empty((num_lanes, 6), np.int64)
    offsets = np.zeros((num_types, num_lanes + 1), np.int64)
    for lane in range(num_lanes):
        first, last = objects.ends[games[lane]], objects.ends[games[lane] + 1]
        _find_avatar(objects, first, last, shown.avatar, players[lane], avatars[lane])
        _set_view(objects, shown.window, avatars[lane], views[lane])
        for row in range(first, last):
            kind = objects.types[row]
            if shown.features[kind] and _is_visible(objects, row, views[lane]):
                offsets[kind, lane + 1] += 1
    starts = np.zeros(num_types + 1, np.int64)
    for kind in range(num_types):
        for lane in range(num_lanes):
            offsets[kind, lane + 1] += offsets[kind, lane]
        starts[kind + 1] = starts[kind] + offsets[kind, num_lanes] * shown.features[kind]
    values = np.empty(starts[-1], np.float32)
    cells = 0 if shown.avatar >= 0 else int((boards[:, 0] * boards[:, 1]).max())
    tops = np.full((num_lanes, cells), -1, np.int64)
    for lane in range(num_lanes):
        first, last = objects.ends[games[lane]], objects.ends[games[lane] + 1]
        width = boards[games[lane], 0]
        _fill_lane(
            objects, shown, first, last, players[lane], views[lane], offsets[:, lane : lane + 2], starts,
            values, avatars[lane], tops[lane], width,
        )  # fmt: skip
    return Lanes(values, starts, offsets, avatars, tops)


@compiled
def _find_avatar(
    objects: Objects, first: int, last: int, avatar: int, player: int, found: NDArray[np.int64]
) -> None:
    """Set where the player's avatar starts in `values`, its cell, and whether it is covered."""
    values = objects.values
    if avatar < 0:
        return
    for row in range(first, last):
        start = objects.starts[row]
        if objects.types[row] == avatar and int(values[start + PLAYER]) == player:
            found[INDEX], found[IS_COVERED] = start, 0
            found[AVATAR_X], found[AVATAR_Y] = int(values[start + X]), int(values[start + Y])
            break
    if found[INDEX] < 0:
        return
    for row in range(first, last):
        start = objects.starts[row]
        if (
            int(values[start + X]) == found[AVATAR_X]
            and int(values[start + Y]) == found[AVATAR_Y]
            and values[start + Z] > values[found[INDEX] + Z]
        ):
            found[IS_COVERED] = 1


@compiled
def _set_view(
    objects: Objects, window: NDArray[np.int64], avatar: NDArray[np.int64], view: NDArray[np.int64]
) -> None:
    """Set the cells that are visible (left, right, top, bottom), and the avatar's direction.

    A direction (0, 1) is that of one who faces downwards; one without a direction faces upwards.
    """
    view[0], view[1], view[2], view[3], view[4], view[5] = 0, 1 << 30, 0, 1 << 30, 0, -1
    if len(window) == 0:
        return
    if avatar[INDEX] < 0:  # the avatar is gone: nothing is visible
        view[1] = -1
        return
    dx, dy = 0, -1
    if window[4]:
        start = avatar[INDEX]
        dx, dy = int(objects.values[start + DX]), int(objects.values[start + DY])
        if dx == 0 and dy == 0:
            dy = -1
    half_width, half_height = (window[0] - 1) // 2, (window[1] - 1) // 2
    # The offsets move the window against the direction (y) and to the avatar's left (x).
    center_x = avatar[AVATAR_X] + dy * window[2] + dx * window[3]
    center_y = avatar[AVATAR_Y] + dx * window[2] + dy * window[3]
    if dx != 0:
        half_width, half_height = half_height, half_width
    view[0], view[1] = center_x - half_width, center_x + half_width
    view[2], view[3] = center_y - half_height, center_y + half_height
    view[4], view[5] = dx, dy


@compiled
def _is_visible(objects: Objects, row: int, view: NDArray[np.int64]) -> bool:
    start = objects.starts[row]
    x, y = objects.values[start + X], objects.values[start + Y]
    return bool(view[0] <= x <= view[1] and view[2] <= y <= view[3])


@compiled
def _fill_lane(
    objects: Objects,
    shown: Shown,
    first: int,
    last: int,
    player: int,
    view: NDArray[np.int64],
    offsets: NDArray[np.int64],
    starts: NDArray[np.int64],
    values: NDArray[np.float32],
    avatar: NDArray[np.int64],
    tops: NDArray[np.int64],
    width: int,
) -> None:
    """Fill the entities of one lane; its arguments are its parts of what `fill_lanes` returns."""
    num_types = len(shown.widths)
    filled = np.zeros(num_types, np.int64)
    before = np.zeros(num_types + 1, np.int64)  # entities of earlier types
    for kind in range(num_types):
        before[kind + 1] = before[kind] + offsets[kind, 1] - offsets[kind, 0]
    heights = np.full(len(tops), -1.0, np.float32)
    start_of_avatar = avatar[INDEX]
    for row in range(first, last):
        kind, start = objects.types[row], objects.starts[row]
        reported = objects.values[start : start + shown.widths[kind]]
        index = -1
        if shown.features[kind] and _is_visible(objects, row, view):
            index = before[kind] + filled[kind]
            place = starts[kind] + (offsets[kind, 0] + filled[kind]) * shown.features[kind]
            _fill_entity(
                values[place : place + shown.features[kind]], reported, player, shown.num_players,
                len(shown.window), avatar, view,
            )  # fmt: skip
            filled[kind] += 1
        if start == start_of_avatar:
            avatar[INDEX] = index
        if len(tops):
            cell = int(reported[Y]) * width + int(reported[X])
            if reported[Z] > heights[cell]:
                heights[cell] = reported[Z]
                tops[cell] = index if int(reported[PLAYER]) == player else -1


@compiled
def _fill_entity(
    out: NDArray[np.float32],
    reported: NDArray[np.float32],
    player: int,
    num_players: int,
    window: int,
    avatar: NDArray[np.int64],
    view: NDArray[np.int64],
) -> None:
    """Fill place, direction, owner and variables of one entity."""
    x, y, dx, dy = reported[X], reported[Y], reported[DX], reported[DY]
    if window:  # seen by the avatar, whose direction is (view[4], view[5])
        ahead_x, ahead_y = view[4], view[5]
        x, y = x - avatar[AVATAR_X], y - avatar[AVATAR_Y]
        x, y = -ahead_y * x + ahead_x * y, ahead_x * x + ahead_y * y
        dx, dy = -ahead_y * dx + ahead_x * dy, ahead_x * dx + ahead_y * dy
    out[0], out[1], out[2], out[3] = x, y, dx, dy
    owner = int(reported[PLAYER])
    out[4] = owner == player
    column = 5
    if num_players > 1:
        out[5] = owner != player and owner != 0
        column += 1
    if num_players > 2:  # oneself is 1, and the others follow in turn
        out[6] = 0 if owner == 0 else (owner - player) % num_players + 1
        column += 1
    for number in range(VARIABLES, len(reported)):
        out[column] = reported[number]
        column += 1
