"""Plans of the kernels as plain arrays, built once per decoder from the tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..games import SPACE, EntityType, ProcgenGame, TileKind
from .layout import ENTITY, KINDS, dump_fields, slot_table

#: Ids are looked up in tables of this many entries: 0-127, then 1000-1015, then one for all others.
ID_TABLE_SIZE = 145

#: Columns of the features of a chunk of tiles, before the one-hots.
CHUNK_POSITION = ("x", "y", "relative_x", "relative_y")


def id_entry(number: int) -> int:
    """The entry of the id tables for an id of the engine."""
    if 0 <= number < 128:
        return number
    return 128 + number - 1000 if 1000 <= number < 1016 else ID_TABLE_SIZE - 1


class DumpPlan(NamedTuple):
    """Plan for reading a dump."""

    game: NDArray[np.uint8]
    fields: NDArray[np.int64]  # (n, 2): kind, as an index into `layout.KINDS`, and how many items have slots
    grid_size: int  # slot
    entity_mask: NDArray[np.uint32]  # (31,): a field of an entity is right where word & mask < limit
    entity_limit: NDArray[np.uint32]


class EntityPlan(NamedTuple):
    """Which entities are kept, and as what."""

    type_of: NDArray[np.int64]  # (ID_TABLE_SIZE,): type, -1 = dropped
    tracked: NDArray[np.bool_]  # (T,): never cropped
    gate_slot: NDArray[np.int64]  # (ID_TABLE_SIZE,): kept only while this slot is not 0; -1 = always
    gate_size: NDArray[
        np.int64
    ]  # (ID_TABLE_SIZE,): > 0: the slot is the first of a vector, indexed by image_theme
    visible_only: bool
    screen: bool  # absolute positions are counted from the view's centre
    sight_below: float  # cells from the player
    sight_above: float
    center_x: int  # slots
    center_y: int
    visibility: int
    cur_time: int
    grid_width: int  # the height's is the next


class TilePlan(NamedTuple):
    """Plan for cutting the map into chunks."""

    columns: int  # of the one-hot; 0: the game has no tiles
    column_of: NDArray[np.int64]  # (ID_TABLE_SIZE,): column, -1 = none
    space: int  # the column that makes a chunk skippable where a whole chunk has no other; -1: skip none
    chunk: int  # cells per side
    window: int  # chunks per side
    whole_map: bool
    centred: bool  # chunks move with the player, whose cell is the middle one's middle
    positions: int  # how many of CHUNK_POSITION there are
    scale: float


#: 1e9 as a float32, its bytes read as an integer.
_LARGEST = int(np.float32(1e9).view(np.uint32))


def dump_plan(game: ProcgenGame) -> DumpPlan:
    # A flag is 0 or 1. A float without its sign, read as an integer, grows with its size; NaN is above all.
    checks = {"int": (0, 1), "flag": (0xFFFFFFFF, 2), "float": (0x7FFFFFFF, _LARGEST)}
    mask, limit = np.array([checks[field.kind] for field in ENTITY], np.uint32).T
    return DumpPlan(
        np.frombuffer(game.name.encode(), np.uint8).copy(),
        np.array([(KINDS.index(field.kind), field.slots) for field in dump_fields(game.name)], np.int64),
        slot_table(game.name)["grid_size"],
        mask.copy(),
        limit.copy(),
    )


def vector_sizes(game: ProcgenGame) -> dict[str, int]:
    """Return the number of items with slots for each vector of the game's tail."""
    return {f.name: f.slots for f in game.tail if f.is_vector}


def entity_plan(
    game: ProcgenGame,
    types: Sequence[EntityType],
    dropped: Sequence[int],
    *,
    visible_only: bool,
    screen: bool,
    mode: str,
    sight: tuple[float, float],
) -> EntityPlan:
    """`types` with `Other` last: what no type claims and is not `dropped` goes there."""
    slots = slot_table(game.name)
    type_of = np.full(ID_TABLE_SIZE, len(types) - 1, np.int64)
    gate_slot = np.full(ID_TABLE_SIZE, -1, np.int64)
    gate_size = np.zeros(ID_TABLE_SIZE, np.int64)
    for index, kind in enumerate(types):
        for number in kind.ids:
            type_of[id_entry(number)] = index
    for number in dropped:
        type_of[id_entry(number)] = -1
    for number, condition in game.drawn_while if visible_only else ():
        name = condition.removesuffix("[]")
        gate_size[id_entry(number)] = vector_sizes(game)[name] if condition != name else 0
        gate_slot[id_entry(number)] = slots[name if condition == name else f"{name}.0"]
    return EntityPlan(
        type_of,
        np.array([kind.tracked and mode != "memory" for kind in types]),
        gate_slot,
        gate_size,
        visible_only,
        screen,
        *sight,
        *(slots[name] for name in ("center_x", "center_y", "visibility", "cur_time", "grid_width")),
    )


def tile_columns(tiles: Sequence[TileKind], visible_only: bool) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """Names of the columns and the column of each id; as drawn, where `visible_only`."""
    shown = [tile for tile in tiles if not (visible_only and tile.pixels)]
    names = tuple(tile.name for tile in shown)
    column_of = np.full(ID_TABLE_SIZE, -1, np.int64)
    for tile in tiles:
        drawn = tile.pixels if visible_only and tile.pixels else tile.name
        for number in tile.ids:
            column_of[id_entry(number)] = names.index(drawn)
    return names, column_of


def space_column(column_of: NDArray[np.int64], skip_space: bool) -> int:
    """`TilePlan.space`."""
    return int(column_of[id_entry(SPACE)]) if skip_space else -1
