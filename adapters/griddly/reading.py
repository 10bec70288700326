"""`ObjectReader`: the objects of many games, read in the cheapest way that reports all of them.

Shape alphabet: G games, E lanes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import starmap
from struct import Struct
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .engine import Game
from .objects import LACKS_AVATAR, CellReports, FeatureLayout, Lists, Objects, read_cells, sort_objects
from .rules import Rules


class GameGroup(NamedTuple):
    """Games that are read together, and their lanes."""

    boards: NDArray[np.int64]  # (G, 2) width and height
    is_plain: NDArray[np.bool_]  # (G,) no object but the avatar has an owner or a direction
    asked: NDArray[np.bool_]  # (G,) the engine is asked for the avatar at each step
    games: NDArray[np.int64]  # (E,) the game of each lane
    players: NDArray[np.int64]  # (E,) the player of each lane, from 1


class ObjectReader:
    """Reads the objects of games.

    Args:
        layout: whose `widths` are the numbers that are reported of an object.
    """

    def __init__(self, rules: Rules, layout: FeatureLayout) -> None:
        self._layout, self._num_players = layout, rules.num_players
        self._has_cells, self._asks_avatars = rules.has_cells, rules.avatar_has_variables
        self._kinds = {name: kind for kind, name in enumerate(rules.objects)}
        widths = layout.widths.tolist()
        self._pack = {name: Struct(f"{widths[kind]}f").pack for name, kind in self._kinds.items()}
        self._avatar = Struct(f"{widths[layout.avatar]}f")
        self._num_channels = len(widths) + rules.num_players + 1 + 4 * rules.turns  # of a cell
        self._channels = np.zeros(0, np.int64)  # the types of the first ones
        #: For each number of games what was known of the last ones, and their arrays.
        self._groups: dict[int, tuple[list[Any], GameGroup]] = {}

    def group(self, games: Sequence[Game]) -> GameGroup:
        """Return the arrays that stay as they are until another level is loaded."""
        boards, count = [(game.board, game.is_plain) for game in games], self._num_players
        known, group = self._groups.get(len(games), (None, None))
        if group is None or known != boards:
            group = GameGroup(
                np.array([game.board for game in games], np.int64),
                np.array([game.is_plain for game in games]),
                np.full(len(games), self._asks_avatars),
                np.repeat(np.arange(len(games)), count),
                np.tile(np.arange(1, count + 1), len(games)),
            )
            self._groups[len(games)] = boards, group
        return group

    def read(self, games: Sequence[Game], group: GameGroup) -> Objects:
        """Return the objects of all games: from their cells, and of games whose cells lack some, as lists."""
        if not self._has_cells:
            return sort_objects(self._read_lists(games, range(len(games))), group.boards, self._layout.widths)
        if not len(self._channels):
            self._channels = np.array([self._kinds[name] for name in games[0].object_names()], np.int64)
        values, asked = np.concatenate([game.read_cells() for game in games]), group.asked
        avatars = self._read_avatars(games, asked)
        cells = CellReports(values, self._num_channels, self._channels, group.is_plain, avatars, asked)
        objects, lacks = read_cells(cells, group.boards, self._layout)
        if not lacks.any():
            return objects
        if (lacks == LACKS_AVATAR).any():
            asked = asked | (lacks == LACKS_AVATAR)
            cells = cells._replace(avatars=self._read_avatars(games, asked), is_known=asked)
            objects, lacks = read_cells(cells, group.boards, self._layout)
        if lacks.any():
            owners = np.repeat(np.arange(len(games)), np.diff(objects.ends))
            found = Lists(objects.values, objects.types, np.ones_like(owners), owners)
            others = self._read_lists(games, lacks.nonzero()[0].tolist())
            pairs: Iterable[Any] = zip(found, others, strict=True)
            lists = Lists(*map(np.concatenate, pairs))
            objects = sort_objects(lists, group.boards, self._layout.widths)
        return objects

    def _read_avatars(self, games: Sequence[Game], asked: NDArray[np.bool_]) -> NDArray[np.float32]:
        """Return what is reported of the avatars of these games (G, width), zeros for the others."""
        pack, nothing = self._avatar.pack, bytes(self._avatar.size)
        packed = [
            pack(*avatar) if is_asked and (avatar := game.read_avatar()) else nothing
            for game, is_asked in zip(games, asked.tolist(), strict=True)
        ]
        return np.frombuffer(b"".join(packed), np.float32).reshape(len(games), -1)

    def _read_lists(self, games: Sequence[Game], numbers: Iterable[int]) -> Lists:
        """Return what the engine reports of all objects of the games with these numbers."""
        kinds: list[int] = []
        lengths: list[int] = []
        packed: list[bytes] = []
        owners: list[int] = []
        for number in numbers:
            # A game's lists are packed before those of the next one exist: so they cost half as much.
            lists = games[number].read()
            kinds += [self._kinds[name] for name in lists]
            lengths += map(len, lists.values())
            packed += [b"".join(starmap(self._pack[name], objects)) for name, objects in lists.items()]
            owners += [number] * len(lists)
        values = np.frombuffer(b"".join(packed), np.float32)
        return Lists(
            values, np.array(kinds, np.int64), np.array(lengths, np.int64), np.array(owners, np.int64)
        )
