"""`Observer`: the engine's records as `EntityBatch`es."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...envs import ActionMask, EntityActionSpace, EntityBatch, EntitySpace, validate_actions
from ...envs.vector.vector_env import Actions
from ...ragged import RaggedArray
from .features import (
    EMPTY_PLANES,
    GLOBAL_FEATURES,
    PLANE29_FEATURES,
    PLANE_FEATURES,
    RESOURCE_FEATURES,
    TYPES,
    UNIT_FEATURES,
    WALL_FEATURES,
)
from .java.engine import MASK_SIZE, ORDER_SIZE, MicroRTSEngine
from .java.records import HEADER, UNIT, UNIT_TYPES
from .kernels.order_kernels import order_space, place_orders
from .kernels.sort_kernels import read_headers, sort_units
from .kernels.unit_kernels import Sight, see_units
from .options import Options
from .perspective import Perspective
from .targets import EntityTargets, entity_actions

_INT64, _FLOAT32, _BOOL = np.dtype(np.int64), np.dtype(np.float32), np.dtype(np.bool_)
_IS_OVER, _WINNER, _TIME = (HEADER.index(name) for name in ("is_over", "winner", "time"))


def observation_space(options: Options) -> EntitySpace:
    """Return the observation space of a lane under these options."""
    entities: Mapping[str, tuple[str, ...]]
    if options.features == "planes":
        entities = dict.fromkeys(TYPES, PLANE_FEATURES)
    elif options.features == "planes29":
        entities = dict.fromkeys((*TYPES, "Wall"), PLANE29_FEATURES)
    else:
        rows = (UNIT_FEATURES, UNIT_FEATURES, RESOURCE_FEATURES)
        entities = {**dict(zip(TYPES, rows, strict=True)), "Wall": WALL_FEATURES}
    num_globals = len(GLOBAL_FEATURES) - options.partial_observability
    order = order_space()
    actions = EntityActionSpace({"order": order}, optional=True)  # a unit without an order waits
    if options.targets == "entities":
        actions = entity_actions(order)
    return EntitySpace(entities, actions, GLOBAL_FEATURES[:num_globals])


class Observer:
    """Reads an engine's games.

    Attributes:
        is_over, winner, time: per game, as of the last `glance` or `observe`: bool, and int64 (games,).
        headers: int64 (len(HEADER), games), what these three are rows of.
        lanes: int64 (2, lanes), the game and the player of each.
        cells: int64, room for all units; begins with the cells of the last batch's actors.
        masks: bool (A, 78), what they may do, as the engine sees the board.
        targets: what makes the actions, where `targets="entities"`; else None.
        perspective: what turns the board, where `perspective="player"`; else None.
        sight: int32, how far units of each kind see, under partial observability; else empty.
    """

    def __init__(self, engine: MicroRTSEngine, options: Options) -> None:
        self.space = observation_space(options)
        self._engine = engine
        self._options = options
        num_cells, count = engine.height * engine.width, len(engine.games)
        self._starts = np.zeros(count + 1, np.int64)
        self.headers = np.zeros((len(HEADER), count), np.int64)
        # At most two lanes see a game's units.
        self._units = np.zeros(2 * count * num_cells, np.int64)
        self.cells = np.zeros_like(self._units)
        keys = np.zeros(num_cells + 1, np.int64)
        types = [engine.unit_types.getUnitType(index) for index in range(len(UNIT_TYPES))]
        self.costs: NDArray[np.int32] = np.array([kind.cost for kind in types], np.int32)
        sight = np.array([kind.sightRadius for kind in types], np.int32)
        self.sight = sight if options.partial_observability else sight[:0]
        turns = options.perspective == "player"
        self.perspective = Perspective(engine, self.space) if turns else None
        self._walls = self._make_walls()
        self.masks = np.zeros((0, MASK_SIZE), bool)
        by_entity = options.targets == "entities"
        self.targets = (
            EntityTargets(engine, self.space, order_space(), self.perspective) if by_entity else None
        )
        # What the kernels are given at each step, but for the fresh arrays.
        games = engine.records, self._starts
        self.lanes = np.array([engine.lane_game, engine.lane_player], np.int64)
        sorting = self.sight, engine.width, options.max_steps, keys
        self._to_sort = *games, self.headers, self.lanes, *sorting, self._units
        self._sight = Sight(
            *games,
            self.lanes,
            self._units,
            options.features != "units",
            self.costs,
            options.mask_reserved,
            engine.masks,
            self.cells,
        )
        self._widths = [len(self.space.entities[name]) for name in TYPES]
        self._has_walls = "Wall" in self.space.entities
        self._num_globals = len(self.space.global_features)

    @property
    def is_over(self) -> NDArray[np.bool_]:
        """True for the games that have ended (games,)."""
        return self.headers[_IS_OVER] != 0

    @property
    def winner(self) -> NDArray[np.int64]:
        """The player that won each game (games,); -1: neither has."""
        return self.headers[_WINNER]

    @property
    def time(self) -> NDArray[np.int64]:
        """The tick of each game (games,)."""
        return self.headers[_TIME]

    def _make_walls(self) -> RaggedArray:
        engine = self._engine
        walls = [engine.games[game].map.walls.astype(np.float32) for game in engine.lane_game]
        features = self.space.entities.get("Wall", ())
        rows = np.zeros((sum(map(len, walls)), len(features)), np.float32)
        for name in (*EMPTY_PLANES, "terrain_wall"):
            if name in features:
                rows[:, features.index(name)] = 1
        rows[:, :2] = np.concatenate(walls)[:, : len(features)]
        placed = RaggedArray.from_lengths(rows, np.array([len(part) for part in walls]))
        if self.perspective is not None and "Wall" in self.space.entities:
            self.perspective.turn_entities({"Wall": placed})
        return placed

    def glance(self) -> None:
        """Read the games, and their headers into the attributes."""
        self._engine.glance()
        read_headers(self._engine.records, self._starts, self.headers)

    def units_of(self, game: int) -> NDArray[np.int32]:
        """The records (n, len(UNIT)) of a game's units, as they were last read."""
        first, last = int(self._starts[game]) + len(HEADER), int(self._starts[game + 1])
        return self._engine.records[first:last].reshape(-1, len(UNIT)).copy()

    def observe(self) -> EntityBatch:
        """Observe all lanes; return fresh arrays."""
        self._engine.read()
        return self.look()

    def place(self, before: EntityBatch, actions: Actions) -> None:
        """Check actions for the last batch, `before`, and put them where the engine reads them.

        Raises:
            ActionError: an action that the masks forbid.
        """
        if self.targets is not None:
            self.targets.place(before, actions)
            return
        turn = self.perspective
        arrays = before.actions["order"].actors.offsets, self.cells, self.masks, self._engine.orders
        order: Any = actions.get("order") if isinstance(actions, dict) and len(actions) == 1 else None
        if (
            isinstance(order, RaggedArray)
            and order.values.dtype == _INT64
            and order.values.shape[1:] == (ORDER_SIZE,)
        ):
            given = order if turn is None else turn.turn_orders(order)
            if place_orders(given.values, given.offsets, *arrays):
                return  # the usual case, in one pass
        checked = validate_actions(self.space, before, actions)["order"]
        checked = checked if turn is None else turn.turn_orders(checked)
        place_orders(checked.values, checked.offsets, *arrays)

    def look(self) -> EntityBatch:
        """Observe all lanes from the engine's last read, in fresh arrays; once per read."""
        num_lanes = self._engine.num_lanes
        offsets = np.empty((4, num_lanes + 1), _INT64)
        globals_ = np.empty((num_lanes, self._num_globals), _FLOAT32)
        num_own, num_enemy, num_resources, num_actors = sort_units(*self._to_sort, offsets, globals_)
        own = np.empty((num_own, self._widths[0]), _FLOAT32)
        enemy = np.empty((num_enemy, self._widths[1]), _FLOAT32)
        resources = np.empty((num_resources, self._widths[2]), _FLOAT32)
        actors = np.empty(num_actors, _INT64)
        self.masks = masks = np.empty((num_actors, MASK_SIZE), _BOOL)
        see_units(self._sight, offsets, own, enemy, resources, actors, masks)
        entities = {
            "Own": RaggedArray.unchecked(own, offsets[0]),
            "Enemy": RaggedArray.unchecked(enemy, offsets[1]),
            "Resource": RaggedArray.unchecked(resources, offsets[2]),
        }
        if self._options.features == "planes29":
            for rows in entities.values():
                rows.values[:, PLANE29_FEATURES.index("terrain_free")] = 1
        if self.perspective is not None:
            self.perspective.turn_entities(entities)
        if self._has_walls:
            walls = self._walls  # an empty array cannot be changed
            entities["Wall"] = (
                RaggedArray.unchecked(walls.values.copy(), walls.offsets) if len(walls.values) else walls
            )
        starts = offsets[3]
        orders = ActionMask(RaggedArray.unchecked(actors, starts), RaggedArray.unchecked(masks, starts))
        actions = {"order": orders}
        if self.targets is not None:
            actions = self.targets.actions(orders, self.cells, self._units, offsets)
        if self.perspective is not None:
            actions["order"] = self.perspective.turn_mask(actions["order"])
        return EntityBatch(entities, globals_, actions)
