"""Objects of all games, from what the engine reports of their cells, or of each of them.

Shape alphabet: G games, N objects of all games, L lists of objects of one type, T entity types.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...ragged.compiled import compiled

#: Places in what is reported of an object. Its direction (x, y) follows in games in which objects turn, then
#: the player that it belongs to, and its variables (see `rules.Rules.reported`).
X, Y, Z, NEXT = range(4)

#: What `read_cells` lacks of a game: nothing, the report of its avatar, or that of all objects.
COMPLETE, LACKS_AVATAR, LACKS_ALL = range(3)


class Lists(NamedTuple):
    """Lists of objects of one type, from all games, in any order."""

    values: NDArray[np.float32]  # what is reported of the objects, one after the other
    kinds: NDArray[np.int64]  # (L,) types
    lengths: NDArray[np.int64]  # (L,)
    games: NDArray[np.int64]  # (L,)


class Objects(NamedTuple):
    """The objects of all games, within a game by their cells, row after row."""

    values: NDArray[np.float32]  # what is reported of them, one after the other
    starts: NDArray[np.int64]  # (N,) where an object starts in `values`
    types: NDArray[np.int64]  # (N,)
    ends: NDArray[np.int64]  # (G + 1,) of each game in the above


class FeatureLayout(NamedTuple):
    """The features that lanes observe of objects."""

    widths: NDArray[np.int64]  # (T,) numbers reported of an object
    features: NDArray[np.int64]  # (T,) features of an entity; 0: not observed
    heights: NDArray[np.int64]  # (T,)
    avatar: int  # the avatar's type, -1: there is none
    num_players: int
    turns: bool  # a direction is reported
    window: NDArray[np.int64]  # width, height, offsets and whether it turns; empty: the whole board
    reach: int  # of the cells around the avatar that its player observes or acts upon; -1: the whole board


class CellReports(NamedTuple):
    """The reports of the engine on the cells of games.

    A cell has a channel for each type, each player from 0 (none) on, and each direction: upwards or none,
    right, down, left.
    """

    values: NDArray[np.uint8]  # the channels of a game's cells, row after row
    num_channels: int  # of a cell
    kinds: NDArray[np.int64]  # (T,) the type of each channel
    is_plain: NDArray[np.bool_]  # (G,) no object but the avatar has an owner or a direction
    avatars: NDArray[np.float32]  # (G, widths[avatar]) what is reported of the avatar, where
    is_known: NDArray[np.bool_]  # (G,)


@compiled
def sort_objects(lists: Lists, boards: NDArray[np.int64], widths: NDArray[np.int64]) -> Objects:
    """Sort objects by game and cell: the engine reports them in an order that differs between processes.

    Args:
        boards: (G, 2) width and height.
        widths: (T,) numbers reported of an object.
    """
    values, kinds, lengths = lists.values, lists.kinds, lists.lengths
    first_cells = np.zeros(len(boards) + 1, np.int64)  # of each game, among the cells of all
    for game in range(len(boards)):
        first_cells[game + 1] = first_cells[game] + boards[game, 0] * boards[game, 1]
    places = np.zeros(first_cells[-1] + 1, np.int64)
    starts, types = np.empty(lengths.sum(), np.int64), np.empty(lengths.sum(), np.int64)
    ends = np.zeros(len(boards) + 1, np.int64)
    for is_counting in (True, False):
        start = 0
        for part in range(len(kinds)):
            first, width = first_cells[lists.games[part]], boards[lists.games[part], 0]
            for _ in range(lengths[part]):
                cell = first + int(values[start + Y]) * width + int(values[start + X])
                if is_counting:
                    places[cell + 1] += 1
                else:
                    starts[places[cell]], types[places[cell]] = start, kinds[part]
                    places[cell] += 1
                start += widths[kinds[part]]
        if is_counting:
            for cell in range(first_cells[-1]):
                places[cell + 1] += places[cell]
            ends[:] = places[first_cells]
    return Objects(values, starts, types, ends)


@compiled
def read_cells(
    cells: CellReports, boards: NDArray[np.int64], layout: FeatureLayout
) -> tuple[Objects, NDArray[np.int64]]:
    """Return the objects in the cells of games, on boards (G, 2), and what these lack of each game (G,).

    Games that lack something are left out: the engine reports one owner and direction of a cell, the lowest.
    """
    most = 0
    for channel in range(len(cells.values)):  # an object sets at least one
        most += cells.values[channel]
    objects = Objects(
        np.empty(most * layout.widths.max(), np.float32),
        np.empty(most, np.int64),
        np.empty(most, np.int64),
        np.zeros(len(boards) + 1, np.int64),
    )
    lacks = np.full(len(boards), COMPLETE)
    row = end = first = 0
    for game in range(len(boards)):
        next_row, next_end, lacks[game] = _read_game(
            objects, row, end, cells, game, first, boards[game], layout
        )
        if lacks[game] == COMPLETE:
            row, end = next_row, next_end
        objects.ends[game + 1] = row
        first += boards[game, 0] * boards[game, 1] * cells.num_channels
    return Objects(objects.values[:end], objects.starts[:row], objects.types[:row], objects.ends), lacks


@compiled
def _read_game(
    objects: Objects,
    row: int,
    end: int,
    cells: CellReports,
    game: int,
    first: int,
    board: NDArray[np.int64],
    layout: FeatureLayout,
) -> tuple[int, int, int]:
    """Read a game, whose cells start at `first`, into `objects` from row and value `end` on.

    Returns:
        The row and value after its last ones, and what it lacks.
    """
    values, starts, types = objects.values, objects.starts, objects.types
    channels, num_types, turns = cells.values, len(cells.kinds), layout.turns
    lacks, bare = COMPLETE, NEXT + 2 * turns + 1
    left, right, top, bottom = _find_area(cells, first, board, layout)
    for y in range(top, bottom):
        for x in range(left, right):
            place, count = first + (y * board[0] + x) * cells.num_channels, 0
            for channel in range(num_types):
                count += channels[place + channel]
            for channel in range(num_types if count else 0):
                if not channels[place + channel]:
                    continue
                kind = cells.kinds[channel]
                is_avatar, width = kind == layout.avatar, layout.widths[kind]
                starts[row], types[row] = end, kind
                values[end + X], values[end + Y], values[end + Z] = x, y, layout.heights[kind]
                if is_avatar and cells.is_known[game]:
                    values[end + NEXT : end + width] = cells.avatars[game, NEXT:]
                elif count == 1 and width == bare:
                    _set_marks(values, end + NEXT, channels, place + num_types, layout.num_players, turns)
                else:
                    is_plain = cells.is_plain[game] and width == bare
                    lacks = max(lacks, _set_hidden_marks(values, end + NEXT, is_avatar, is_plain, turns))
                row, end = row + 1, end + width
    return row, end, lacks


@compiled
def _find_area(
    cells: CellReports, first: int, board: NDArray[np.int64], layout: FeatureLayout
) -> tuple[int, int, int, int]:
    """Return the columns and rows to read (first, end, first, end): all, or those in reach of the avatar."""
    width, height = board
    if layout.reach < 0:
        return 0, width, 0, height
    left, right, top, bottom = width, 0, height, 0
    avatar = first + np.flatnonzero(cells.kinds == layout.avatar)[0]
    for y in range(height):
        for x in range(width):
            if cells.values[avatar + (y * width + x) * cells.num_channels]:
                left, right = min(left, x - layout.reach), max(right, x + layout.reach + 1)
                top, bottom = min(top, y - layout.reach), max(bottom, y + layout.reach + 1)
    return max(left, 0), min(right, width), max(top, 0), min(bottom, height)


@compiled
def _set_marks(
    values: NDArray[np.float32],
    start: int,
    channels: NDArray[np.uint8],
    place: int,
    num_players: int,
    turns: bool,
) -> None:
    """Set the direction and owner of an object at `start`, from the channels of players at `place`."""
    if turns:
        up = place + num_players + 1  # and to the right, down and to the left
        values[start] = np.float32(channels[up + 1]) - channels[up + 3]
        values[start + 1] = np.float32(channels[up + 2]) - channels[up]
    for player in range(num_players + 1):
        if channels[place + player]:
            values[start + 2 * turns] = player


@compiled
def _set_hidden_marks(
    values: NDArray[np.float32], start: int, is_avatar: bool, is_plain: bool, turns: bool
) -> int:
    """Set the same of an object that shares its cell, and return what is lacking."""
    if not is_plain:
        return LACKS_ALL
    values[start], values[start + turns] = 0, -1
    values[start + 2 * turns] = is_avatar
    return LACKS_AVATAR if is_avatar and turns else COMPLETE
