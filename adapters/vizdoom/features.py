"""Entities and global features of observations, from what the engine reports of each lane.

Shape alphabet: E lanes, N objects of all lanes, W walls of all lanes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...envs import ActionMask, EntityBatch, EntitySpace
from ...envs.vector.native_arrays import even, free_choice, typed_rows
from ...ragged import RaggedArray
from .buttons import BUTTONS, DELTAS, Buttons
from .fill import BOX_FEATURES, FACING_FEATURES, LENGTH, PLACE_FEATURES, SPEED, fill_objects
from .kinds import CATEGORIES, EFFECT, KINDS, PLAYER, WALL
from .options import DoomOptions
from .reading import WIDTH, Reading
from .scenarios import Scenario

#: Game variables that the player's entity is made of.
PLACE = (
    *("POSITION_X", "POSITION_Y", "POSITION_Z", "VELOCITY_X", "VELOCITY_Y", "VELOCITY_Z"),
    *("ANGLE", "PITCH"),
)
#: Game variables that are global features in each scenario: what a status bar shows.
STATUS = ("HEALTH", "ARMOR", "SELECTED_WEAPON", "SELECTED_WEAPON_AMMO")
#: Numbers of these variables that count as 1.
_SCALES = {"HEALTH": 100.0, "ARMOR": 100.0, "AMMO": 50.0}

PLAYER_FEATURES = (
    *("x", "y", "z", "heading_cosine", "heading_sine", "pitch"),
    *("velocity_forward", "velocity_left", "velocity_up"),
)
WALL_FEATURES = (
    *("x1", "y1", "x2", "y2", "forward1", "left1", "forward2", "left2"),
    *("distance", "is_blocking"),
)
#: Types whose direction matters.
_FACING = ("Opponent", "Monster")


class DoomObserver:
    """Converts readings to batches.

    Attributes:
        variables: the game variables that a reading must hold, in order.
        space: the observation space.
    """

    def __init__(self, scenario: Scenario, options: DoomOptions, buttons: Buttons) -> None:
        self._options = options
        status = dict.fromkeys((*STATUS, *scenario.variables, *options.variables))
        self.variables: tuple[str, ...] = tuple(dict.fromkeys((*status, *PLACE)))
        self._num_globals = len(status)
        self._place = [self.variables.index(name) for name in PLACE]
        self._scales = np.array([_scale(name) for name in status], np.float32)
        self._types = [name for name in CATEGORIES if name != EFFECT or options.effects]
        entities = {name: self._features(name) for name in self._types}
        if options.walls:
            entities[WALL] = WALL_FEATURES
        globals_ = [name.lower() for name in status]
        self.space = EntitySpace(entities, buttons.action_space, globals_)
        self._buttons = buttons
        self._widths = np.array([len(entities.get(name, ())) for name in CATEGORIES], np.int64)
        self._faces = np.array([name in _FACING for name in CATEGORIES])

    def _features(self, name: str) -> tuple[str, ...]:
        if name == PLAYER:
            return PLAYER_FEATURES
        box = BOX_FEATURES if self._options.visible_only else (*BOX_FEATURES, "on_screen")
        facing = FACING_FEATURES if name in _FACING else ()
        return (*PLACE_FEATURES, *box, *facing, *(f"is_{kind}" for kind in KINDS.get(name, ())))

    def observe(self, readings: Sequence[Reading], width: int, height: int) -> EntityBatch:
        """Return the batch of readings from a screen of `width` by `height` pixels."""
        variables = np.array([reading.variables for reading in readings])  # (E, V)
        place = variables[:, self._place]
        heading = np.deg2rad(place[:, 6])
        frame = np.stack([np.cos(heading), np.sin(heading)], 1)  # (E, 2)
        players = np.concatenate([place[:, :3], frame], 1)
        entities = {PLAYER: _players(place, frame), **self._objects(readings, players, (width, height))}
        if self._options.walls:
            entities[WALL] = self._walls(readings, place, frame)
        globals_ = variables[:, : self._num_globals].astype(np.float32) / self._scales
        return EntityBatch(entities, globals_, self._actors(len(readings)))

    def _objects(
        self, readings: Sequence[Reading], players: NDArray[np.float64], screen: tuple[int, int]
    ) -> dict[str, RaggedArray]:
        """Return the entities of all types but the player and walls."""
        counts = np.array([len(reading.rows) for reading in readings], np.int64)
        rows = np.array([row for reading in readings for row in reading.rows], np.float64)
        values, starts, offsets = fill_objects(
            rows.reshape(-1, WIDTH),
            counts,
            players,
            np.array(screen, np.float64),
            self._widths,
            self._faces,
            not self._options.visible_only,
        )
        widths = dict(zip(CATEGORIES, self._widths.tolist(), strict=True))
        return typed_rows(values, starts, offsets, {**widths, PLAYER: 0})

    def _walls(
        self, readings: Sequence[Reading], players: NDArray[np.float64], frame: NDArray[np.float64]
    ) -> RaggedArray:
        """Return the walls within `wall_distance` of each player, nearest first."""
        parts = []
        for reading, player, heading in zip(readings, players, frame, strict=True):
            walls = reading.walls
            distance = _distances(walls, player[:2])
            near = np.argsort(distance, kind="stable")
            near = near[distance[near] <= self._options.wall_distance]
            walls, turn = walls[near], heading[None]
            values = np.empty((len(walls), len(WALL_FEATURES)), np.float32)
            values[:, :4] = walls[:, :4] / LENGTH
            for end in (0, 2):
                ahead, aside = _turned(walls[:, end] - player[0], walls[:, end + 1] - player[1], turn)
                values[:, 4 + end], values[:, 5 + end] = ahead / LENGTH, aside / LENGTH
            values[:, 8], values[:, 9] = distance[near] / LENGTH, walls[:, 4]
            parts.append(values)
        lengths = np.array([len(part) for part in parts], np.int64)
        return RaggedArray.from_lengths(np.concatenate(parts), lengths)

    def _actors(self, num_envs: int) -> dict[str, ActionMask]:
        """The player (entity 0 of each lane) may do anything."""
        widths = {BUTTONS: self._buttons.num_choices, DELTAS: 0}
        return {
            name: free_choice(even(np.zeros(num_envs, np.int64)), widths[name])
            for name in self._buttons.action_space
        }


def _scale(variable: str) -> float:
    """Return the number that counts as 1 of a game variable."""
    return next((scale for name, scale in _SCALES.items() if name in variable), 1.0)


def _turned(
    x: NDArray[np.float64], y: NDArray[np.float64], frame: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return vectors along headings (n, 2), given as cosine and sine, and to their left."""
    cosine, sine = frame[:, 0], frame[:, 1]
    return cosine * x + sine * y, cosine * y - sine * x


def _players(place: NDArray[np.float64], frame: NDArray[np.float64]) -> RaggedArray:
    """Return the player of each lane, from the variables of `PLACE` (E, 8)."""
    values = np.empty((len(place), len(PLAYER_FEATURES)), np.float32)
    values[:, :3] = place[:, :3] / LENGTH
    values[:, 3:5] = frame
    # The engine counts degrees downwards from 0 to 360.
    values[:, 5] = ((place[:, 7] + 180.0) % 360.0 - 180.0) / 90.0
    values[:, 6], values[:, 7] = _turned(place[:, 3] / SPEED, place[:, 4] / SPEED, frame)
    values[:, 8] = place[:, 5] / SPEED
    return RaggedArray.unchecked(values, np.arange(len(place) + 1))


def _distances(walls: NDArray[np.float32], point: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the distance of a point from each line (W, 5)."""
    start, along = walls[:, :2] - point, walls[:, 2:4] - walls[:, :2]
    length = np.maximum((along * along).sum(1), 1e-9)
    share = np.clip(-(start * along).sum(1) / length, 0.0, 1.0)
    nearest = start + share[:, None] * along
    return np.hypot(nearest[:, 0], nearest[:, 1])
