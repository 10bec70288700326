"""`Observer`: batches of what lanes observe of their games, and of what their actors can do.

Shape alphabet: G games, E lanes, C choices.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from ...envs import ActionMask, EntityBatch, EntitySpace
from ...ragged import RaggedArray
from .choices import ACTION, Choices
from .engine import Game
from .fill import AVATAR_X, AVATAR_Y, INDEX, IS_COVERED, Lanes, Objects, Shown, fill_lanes, sort_objects
from .options import GriddlyOptions
from .rules import BASE, Rules

PLACE_FEATURES = ("x", "y", "direction_x", "direction_y")
#: In a window around the avatar: from where it stands, and with a window that turns, as it faces.
WINDOW_FEATURES = ("right", "forward", "direction_right", "direction_forward")


class Observer:
    """Converts the states of games to batches.

    Attributes:
        space: the observation space.
        cells: int32 (actors, 2), the cell of each actor of the last batch.
    """

    def __init__(self, rules: Rules, options: GriddlyOptions, choices: Choices) -> None:
        self._rules, self._options, self._choices = rules, options, choices
        self._kinds = {name: kind for kind, name in enumerate(rules.objects)}
        self._widths = np.array([len(BASE) + len(names) for names in rules.objects.values()], np.int64)
        window = rules.window if options.partial_observability else None
        place = PLACE_FEATURES if window is None else WINDOW_FEATURES
        owners = ("is_own", "is_other", "player")[: min(rules.num_players, 3)]
        entities = {
            name: (*place, *owners, *(f"{name}" for name in variables))
            for name, variables in rules.objects.items()
            if name not in options.exclude
        }
        self.space = EntitySpace(entities, choices.action_space, rules.variables)
        self._shown = Shown(
            self._widths,
            np.array([len(entities.get(name, ())) for name in rules.objects], np.int64),
            -1 if rules.avatar is None else self._kinds[rules.avatar],
            rules.num_players,
            np.array([] if window is None else list(vars(window).values()), np.int64),
        )
        self.cells = np.zeros((0, 2), np.int32)

    def observe(self, games: Sequence[Game]) -> EntityBatch:
        """Return what all players of `games` observe, game after game."""
        boards = np.array([game.board for game in games], np.int64)
        num_players = self._rules.num_players
        lane_games = np.repeat(np.arange(len(games)), num_players)
        players = np.tile(np.arange(1, num_players + 1), len(games))
        lanes = fill_lanes(self._read(games, boards), self._shown, lane_games, players, boards)
        bounds, features = lanes.starts.tolist(), self._shown.features.tolist()
        entities = {
            name: RaggedArray.unchecked(
                lanes.values[bounds[kind] : bounds[kind + 1]].reshape(-1, features[kind]), lanes.offsets[kind]
            )
            for name, kind in self._kinds.items()
            if features[kind]
        }
        actors = self._avatars(games, lanes) if self._rules.avatar else self._units(games, lanes)
        return EntityBatch(entities, self._globals(games), {ACTION: actors})

    def _read(self, games: Sequence[Game], boards: NDArray[np.int64]) -> Objects:
        kinds, lists, list_ends = [], [], [0]
        for game in games:
            for name, objects in game.read().items():
                kinds.append(self._kinds[name])
                lists.append(objects)
            list_ends.append(len(kinds))
        lengths = [len(objects) for objects in lists]
        numbers = chain.from_iterable(chain.from_iterable(lists))
        kinds_, lengths_ = np.array(kinds, np.int64), np.array(lengths, np.int64)
        values = np.fromiter(numbers, np.float32, int(self._widths[kinds_] @ lengths_))
        return sort_objects(values, kinds_, lengths_, np.array(list_ends), boards, self._widths)

    def _globals(self, games: Sequence[Game]) -> NDArray[np.float32]:
        """Return the game's variables (E, V): a player's own, where each player has its own."""
        num_players, names = self._rules.num_players, self._rules.variables
        found = np.zeros((len(games), num_players, len(names)), np.float32)
        if names:
            for game, row in zip(games, found, strict=True):
                for column, values in enumerate(game.variables()):
                    shared = values[0]
                    for player in range(num_players):
                        row[player, column] = values.get(player + 1, shared)
        return found.reshape(len(games) * num_players, len(names))

    def _avatars(self, games: Sequence[Game], lanes: Lanes) -> ActionMask:
        """Return the actors of games in which each player commands an avatar: none, once that is gone."""
        is_there = lanes.avatars[:, INDEX] >= 0
        found = np.flatnonzero(is_there)
        avatars = lanes.avatars[found]
        mask = np.ones((len(found), len(self._choices)), bool)
        if self._options.masks:
            names, num_players = self._choices.names, self._rules.num_players
            columns, allowed = [], []
            for row, (lane, avatar) in enumerate(zip(found.tolist(), avatars.tolist(), strict=True)):
                if avatar[IS_COVERED]:  # the engine would answer for what is above it
                    continue
                cell = avatar[AVATAR_X : AVATAR_Y + 1]
                answer = games[lane // num_players].process.get_available_action_ids(cell, names)
                columns.append(row)
                allowed.append(self._choices.columns(answer))
            self._allow(mask, columns, allowed)
        self.cells = avatars[:, AVATAR_X : AVATAR_Y + 1].astype(np.int32)
        return _mask(avatars[:, INDEX], mask, is_there.astype(np.int64))

    def _units(self, games: Sequence[Game], lanes: Lanes) -> ActionMask:
        """Return the actors of games in which players command their objects: those that can do something."""
        num_players = self._rules.num_players
        found: list[tuple[int, int, int, list[int]]] = []  # index, cell, choices
        lengths = []
        for lane, tops in enumerate(lanes.tops):
            game, player = games[lane // num_players], lane % num_players + 1
            process, width, units = game.process, game.board[0], []
            for (x, y), names in process.get_available_actions(player).items():
                index = int(tops[y * width + x])
                if index < 0:  # another object is above it, and gets its commands
                    continue
                columns = self._choices.columns(process.get_available_action_ids([x, y], list(names)))
                if columns:
                    units.append((index, x, y, columns))
            found += sorted(units)
            lengths.append(len(units))
        mask = np.ones((len(found), len(self._choices)), bool)
        if self._options.masks:
            self._allow(mask, range(len(found)), [unit[3] for unit in found])
        self.cells = np.array([unit[1:3] for unit in found], np.int32).reshape(-1, 2)
        return _mask(np.array([unit[0] for unit in found], np.int64), mask, np.array(lengths))

    def _allow(self, mask: NDArray[np.bool_], rows: Sequence[int], columns: Sequence[list[int]]) -> None:
        """Mask all choices in `rows` but "nop" and those in `columns`."""
        mask[rows] = False
        mask[rows, 0] = True
        repeated = np.repeat(np.asarray(rows, np.int64), [len(part) for part in columns])
        mask[repeated, list(chain.from_iterable(columns))] = True


def _mask(actors: NDArray[np.int64], mask: NDArray[np.bool_], lengths: NDArray[np.int64]) -> ActionMask:
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return ActionMask(
        RaggedArray.unchecked(actors.copy(), offsets), RaggedArray.unchecked(mask, offsets.copy())
    )
