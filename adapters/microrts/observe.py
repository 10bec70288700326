"""`Observer`: the engine's records as `EntityBatch`es."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...envs import ActionMask, EntityActionSpace, EntityBatch, EntitySpace, MultiCategorical
from ...ragged import RaggedArray
from .engine import COMPONENT_SIZES, MASK_SIZE, Engine
from .features import (
    DIRECTIONS,
    GLOBAL_FEATURES,
    PLANE_FEATURES,
    RESOURCE_FEATURES,
    TYPES,
    UNIT_FEATURES,
    WALL_FEATURES,
)
from .kernels import fill_globals, fill_masks, fill_planes, fill_units, find_games, sort_units
from .options import Options
from .records import ACTIONS, HEADER, UNIT, UNIT_TYPES

_IS_OVER, _WINNER, _TIME = (HEADER.index(name) for name in ("is_over", "winner", "time"))


def order_space() -> MultiCategorical:
    """A unit's order: its kind, and what the kind needs to know."""
    attacked = [f"{x:+d},{y:+d}" for y in range(-3, 4) for x in range(-3, 4)]
    space = MultiCategorical(
        {
            "kind": ACTIONS,
            "move": DIRECTIONS,
            "harvest": DIRECTIONS,
            "return": DIRECTIONS,
            "produce": DIRECTIONS,
            "produce_type": UNIT_TYPES,
            "attack": attacked,
        },
        uses={
            "move": ["move"],
            "harvest": ["harvest"],
            "return": ["return"],
            "produce": ["produce", "produce_type"],
            "attack": ["attack"],
        },
    )
    assert tuple(space.sizes) == COMPONENT_SIZES
    return space


def observation_space(options: Options) -> EntitySpace:
    """What a lane sees under these options."""
    entities: Mapping[str, tuple[str, ...]]
    if options.features == "planes":
        entities = dict.fromkeys(TYPES, PLANE_FEATURES)
    else:
        rows = (UNIT_FEATURES, UNIT_FEATURES, RESOURCE_FEATURES)
        entities = {**dict(zip(TYPES, rows, strict=True)), "Wall": WALL_FEATURES}
    num_globals = len(GLOBAL_FEATURES) - options.partial_observability
    return EntitySpace(entities, EntityActionSpace({"order": order_space()}), GLOBAL_FEATURES[:num_globals])


class Observer:
    """Reads an engine's games.

    Attributes:
        is_over, winner, time: per game, as of the last `observe`: bool, and int64 (games,).
        cells: int64 (A,), the cells of the last batch's actors.
    """

    def __init__(self, engine: Engine, options: Options) -> None:
        self.space = observation_space(options)
        self._engine = engine
        self._options = options
        self._starts = np.zeros(len(engine.games) + 1, np.int64)
        self._counts = np.zeros((4, engine.num_lanes), np.int64)
        types = [engine.unit_types.getUnitType(index) for index in range(len(UNIT_TYPES))]
        self.costs: NDArray[np.int32] = np.array([kind.cost for kind in types], np.int32)
        sight = np.array([kind.sightRadius for kind in types], np.int32)
        self._sight = sight if options.partial_observability else sight[:0]
        self._walls = self._make_walls()
        self.cells = np.zeros(0, np.int64)
        self.is_over = np.zeros(len(engine.games), bool)
        self.winner = np.zeros(len(engine.games), np.int64)
        self.time = np.zeros(len(engine.games), np.int64)

    def _make_walls(self) -> RaggedArray:
        engine = self._engine
        walls = [engine.games[game].map.walls.astype(np.float32) for game in engine.lane_game]
        return RaggedArray.from_lengths(np.concatenate(walls), np.array([len(part) for part in walls]))

    def glance(self) -> None:
        """Read the games, and their headers into the attributes."""
        self._engine.read()
        records, starts = self._engine.records, self._starts
        find_games(records, starts)
        self.is_over = records[starts[:-1] + _IS_OVER] != 0
        self.winner = records[starts[:-1] + _WINNER].astype(np.int64)
        self.time = records[starts[:-1] + _TIME].astype(np.int64)

    def units_of(self, game: int) -> NDArray[np.int32]:
        """The records (n, len(UNIT)) of a game's units, as they were last read."""
        first, last = int(self._starts[game]) + len(HEADER), int(self._starts[game + 1])
        return self._engine.records[first:last].reshape(-1, len(UNIT)).copy()

    def observe(self) -> EntityBatch:
        """What every lane sees now, in fresh arrays."""
        self.glance()
        engine, records, starts = self._engine, self._engine.records, self._starts
        lanes = engine.lane_game, engine.lane_player
        board = engine.games[0].map
        # A game's records are at most seen by two lanes.
        units = np.empty(2 * (starts[-1] // len(UNIT) + 1), np.int64)
        sort_units(records, starts, *lanes, self._sight, board.width, board.height, units, self._counts)
        globals_ = np.empty((engine.num_lanes, len(self.space.global_features)), np.float32)
        fill_globals(records, starts, *lanes, self._options.max_steps, globals_)
        return EntityBatch(self._entities(units), globals_, {"order": self._orders(units)})

    def _entities(self, units: NDArray[np.int64]) -> dict[str, RaggedArray]:
        records, counts = self._engine.records, self._counts
        offsets = [_offsets(counts[kind]) for kind in range(len(TYPES))]
        rows = [
            np.zeros((ends[-1], len(self.space.entities[name])), np.float32)
            for name, ends in zip(TYPES, offsets, strict=True)
        ]
        if self._options.features == "planes":
            fill_planes(records, units, counts, *rows)
        else:
            fill_units(records, self._starts, self._engine.lane_game, units, counts, *rows)
        entities = {
            name: RaggedArray.unchecked(values, ends)
            for name, values, ends in zip(TYPES, rows, offsets, strict=True)
        }
        if "Wall" in self.space.entities:
            entities["Wall"] = self._walls.copy()
        return entities

    def _orders(self, units: NDArray[np.int64]) -> ActionMask:
        engine = self._engine
        offsets = _offsets(self._counts[3])
        count = offsets[-1]
        actors, self.cells = np.empty(count, np.int64), np.empty(count, np.int64)
        masks = np.empty((count, MASK_SIZE), bool)
        engine.read_masks()
        fill_masks(
            engine.records,
            self._starts,
            engine.lane_game,
            engine.lane_player,
            units,
            self._counts,
            self.costs,
            self._options.mask_reserved,
            engine.masks,
            actors,
            self.cells,
            masks,
        )
        return ActionMask(
            RaggedArray.unchecked(actors, offsets), RaggedArray.unchecked(masks, offsets.copy())
        )


def _offsets(lengths: NDArray[np.int64]) -> NDArray[Any]:
    """Where the sequences of these lengths start, and the end: int64 (n + 1,)."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets
