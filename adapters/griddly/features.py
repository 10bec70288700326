"""`GriddlyObserver`: batches of what lanes observe of their games, and of what their actors can do.

Shape alphabet: G games, E lanes, C choices.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, starmap
from struct import Struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...envs import ActionMask, EntityBatch, EntitySpace
from ...ragged import RaggedArray
from .choices import ACTION, GriddlyChoices
from .engine import Game
from .fill import (
    AVATAR_X,
    AVATAR_Y,
    INDEX,
    FeatureLayout,
    Lanes,
    Lists,
    Objects,
    fill_lanes,
    read_cells,
    sort_objects,
)
from .options import GriddlyOptions
from .rules import Rules

PLACE_FEATURES = ("x", "y", "direction_x", "direction_y")
#: In a window around the avatar: from where it stands, and with a window that turns, as it faces.
WINDOW_FEATURES = ("right", "forward", "direction_right", "direction_forward")


class GriddlyObserver:
    """Converts the states of games to batches.

    Attributes:
        space: the observation space.
        cells: int32 (actors, 2), the cell of each actor of the last batch.
    """

    def __init__(self, rules: Rules, options: GriddlyOptions, choices: GriddlyChoices) -> None:
        self._rules, self._options, self._choices = rules, options, choices
        self._kinds = {name: kind for kind, name in enumerate(rules.objects)}
        base = len(rules.reported)
        self._widths = np.array([base + len(names) for names in rules.objects.values()], np.int64)
        widths = dict(zip(rules.objects, self._widths.tolist(), strict=True))
        self._pack = {name: Struct(f"{width}f").pack for name, width in widths.items()}
        window = rules.window if options.partial_observability else None
        place = (PLACE_FEATURES if window is None else WINDOW_FEATURES)[: 4 if rules.turns else 2]
        owners = ("is_own", "is_other", "player")[: min(rules.num_players, 3)]
        entities = {
            name: (*place, *owners, *(f"{name}" for name in variables))
            for name, variables in rules.objects.items()
            if name not in options.exclude
        }
        self.space = EntitySpace(entities, choices.action_space, rules.variables)
        self._layout = FeatureLayout(
            self._widths,
            np.array([len(entities.get(name, ())) for name in rules.objects], np.int64),
            -1 if rules.avatar is None else self._kinds[rules.avatar],
            rules.num_players,
            rules.turns,
            np.array([] if window is None else list(vars(window).values()), np.int64),
        )
        self._everything = list(range(len(choices)))
        self.cells = np.zeros((0, 2), np.int32)

    def observe(self, games: Sequence[Game]) -> EntityBatch:
        """Return what all players of `games` observe, game after game."""
        boards = np.array([game.board for game in games], np.int64)
        num_players = self._rules.num_players
        lane_games = np.repeat(np.arange(len(games)), num_players)
        players = np.tile(np.arange(1, num_players + 1), len(games))
        lanes = fill_lanes(self._read(games, boards), self._layout, lane_games, players, boards)
        bounds, features = lanes.starts.tolist(), self._layout.features.tolist()
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
        """Return the objects of all games: from their cells, but of games with two objects in one."""
        if not self._rules.has_cells:
            return sort_objects(self._read_lists(games, range(len(games))), boards, self._widths)
        cells = np.concatenate([game.read_cells() for game in games])
        variables = np.array([game.avatar_variables() for game in games], np.float32)
        kinds = np.array([self._kinds[name] for name in games[0].object_names()], np.int64)
        lists, is_shared = read_cells(cells, boards, kinds, self._layout, variables)
        if is_shared.any():
            others = self._read_lists(games, np.flatnonzero(is_shared).tolist())
            pairs: Iterable[Any] = zip(lists, others, strict=True)
            lists = Lists(*map(np.concatenate, pairs))
        return sort_objects(lists, boards, self._widths)

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

    def _globals(self, games: Sequence[Game]) -> NDArray[np.float32]:
        """Return the game's variables (E, V): a player's own, where each player has its own."""
        num_players, names = self._rules.num_players, self._rules.variables
        found = np.zeros((len(games), num_players, len(names)), np.float32)
        if names:
            players = range(1, num_players + 1)
            found[:] = [
                [[values.get(player, values[0]) for values in variables] for player in players]
                for variables in [game.variables() for game in games]
            ]
        return found.reshape(len(games) * num_players, len(names))

    def _avatars(self, games: Sequence[Game], lanes: Lanes) -> ActionMask:
        """Return the actors of games in which each player commands an avatar: none, once that is gone."""
        is_there = lanes.avatars[:, INDEX] >= 0
        found = np.flatnonzero(is_there)
        avatars = lanes.avatars[found]
        mask = np.ones((len(found), len(self._choices)), bool)
        if self._options.masks:
            names, num_players = self._choices.names, self._rules.num_players
            allowed = []
            for lane, (_, x, y, is_covered) in zip(found.tolist(), avatars.tolist(), strict=True):
                if is_covered:  # the engine would answer for what is above it
                    allowed.append(self._everything)
                    continue
                answer = games[lane // num_players].process.get_available_action_ids((x, y), names)
                allowed.append(self._choices.columns(answer))
            self._allow(mask, allowed)
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
            self._allow(mask, [unit[3] for unit in found])
        self.cells = np.array([unit[1:3] for unit in found], np.int32).reshape(-1, 2)
        return _mask(np.array([unit[0] for unit in found], np.int64), mask, np.array(lengths))

    def _allow(self, mask: NDArray[np.bool_], allowed: Sequence[list[int]]) -> None:
        """Mask all choices of each row but "nop" and those that are allowed."""
        mask[:, 1:] = False
        rows = np.repeat(np.arange(len(allowed)), [len(columns) for columns in allowed])
        mask[rows, list(chain.from_iterable(allowed))] = True


def _mask(actors: NDArray[np.int64], mask: NDArray[np.bool_], lengths: NDArray[np.int64]) -> ActionMask:
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return ActionMask(
        RaggedArray.unchecked(actors.copy(), offsets), RaggedArray.unchecked(mask, offsets.copy())
    )
