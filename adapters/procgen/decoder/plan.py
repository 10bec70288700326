"""Plans of the kernels as plain arrays, built once per decoder from the tables."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..games import LENGTH, OTHER, SPACE, EntityType, ProcgenGame, TileKind
from ..options import ViewOptions
from ..reference import reference_chunk_size, reference_tiles, reference_types
from .features import Feature, compile_features, on_screen, with_distances
from .layout import ENTITY, DumpField, dump_fields, slot_table

#: Ids are looked up in tables of this many entries, of which the last one is for all other ids.
ID_TABLE_SIZE = 1017

#: Columns of the features of a chunk of tiles, before the one-hots.
CHUNK_POSITION = ("x", "y", "relative_x", "relative_y")

#: Columns of the player's row after its features, before the one-hots of `player_tiles`.
PLACE_IN_CELL = ("in_cell_x", "in_cell_y")

#: What a field of a dump is to the kernel: a number, a count and numbers, the version and the game's name, an
#: int and a string, the map, the game's entities, other records of entities.
NUMBER, VECTOR, HEADER, GENERATOR, MAP, ENTITIES, RECORDS = range(7)
_ROLES = {
    "generator": GENERATOR,
    "map": MAP,
    "ints": VECTOR,
    "flags": VECTOR,
    "floats": VECTOR,
    "entities": ENTITIES,
    "records": RECORDS,
}

#: How a number is checked: it is right where word & mask < limit. A flag is 0 or 1. A float without its sign,
#: read as an integer, grows with its size, and a NaN is above all; 1e9 is the largest.
_CHECKS = {"flag": (0xFFFFFFFF, 2), "float": (0x7FFFFFFF, int(np.float32(1e9).view(np.uint32)))}
_UNCHECKED = (0, 1)

#: A field of a dump; `kept`: how many of its items have slots.
_FIELD = np.dtype([("role", "i8"), ("kept", "i8"), ("is_float", "?"), ("mask", "u4"), ("limit", "u4")])

#: What becomes of an id of the engine: its entities' `type` (-1: dropped), which are kept only while the
#: slot `gate_slot` is not 0 (-1: always; `gate_size` > 0: that slot is the first of so many, of which
#: `image_theme` picks one); and its tiles' `column` in the one-hot (-1: none).
_ID = np.dtype([("type", "i8"), ("gate_slot", "i8"), ("gate_size", "i8"), ("column", "i8")])

#: An entity type: the number of its features, and whether it is never cropped.
_TYPE = np.dtype([("width", "i8"), ("tracked", "?")])

_OPTIONS = np.dtype(
    [
        ("grid_size", "i8"),  # slots
        ("center_x", "i8"),
        ("center_y", "i8"),
        ("visibility", "i8"),
        ("cur_time", "i8"),
        ("grid_width", "i8"),
        ("grid_height", "i8"),
        ("visible_only", "?"),
        ("screen", "?"),  # absolute positions are counted from the view's centre
        ("sight_below", "f8"),  # cells from the player
        ("sight_above", "f8"),
        ("columns", "i8"),  # of the one-hot; 0: the game has no tiles
        ("space", "i8"),  # the column that makes a chunk skippable that has no other; -1: skip none
        ("chunk", "i8"),  # cells per side
        ("window", "i8"),  # chunks per side
        ("whole_map", "?"),
        ("centred", "?"),  # chunks move with the player, whose cell is the middle one's middle
        ("player_tiles", "i8"),  # cells to each side of the player that are in its row
        ("positions", "i8"),  # how many of CHUNK_POSITION there are
        ("scale", "f8"),  # of these
    ]
)


class DecodePlan(NamedTuple):
    """The parts of a dump that the kernels read, keep and write."""

    game: NDArray[np.uint8]
    fields: NDArray[Any]  # (n,) `_FIELD`
    entity_checks: NDArray[np.uint32]  # (2, 31): masks and limits of an entity's fields
    ids: NDArray[Any]  # (ID_TABLE_SIZE,) `_ID`
    types: NDArray[Any]  # (T,) `_TYPE`, `Tiles` last
    options: NDArray[Any]  # (1,) `_OPTIONS`
    segments: NDArray[np.int64]  # and `features`: see `features.compile_features`
    features: NDArray[Any]


def fields_plan(game: ProcgenGame) -> tuple[NDArray[Any], NDArray[np.uint32]]:
    """`DecodePlan.fields` and `DecodePlan.entity_checks`."""

    def compiled(field: DumpField) -> tuple[Any, ...]:
        kind = field.kind.removesuffix("s")
        role = _ROLES.get(field.kind, NUMBER)
        is_float = kind in ("float", "loose")
        return role, field.slots if role == VECTOR else 1, is_float, *_CHECKS.get(kind, _UNCHECKED)

    fields = [(HEADER, 0, False, *_UNCHECKED), *map(compiled, dump_fields(game.name))]
    checks = [_CHECKS.get(field.kind, _UNCHECKED) for field in ENTITY]
    return np.array(fields, _FIELD), np.array(checks, np.uint32).T.copy()


def vector_sizes(game: ProcgenGame) -> dict[str, int]:
    """Return the number of items with slots for each vector of the game's tail."""
    return {f.name: f.slots for f in game.tail if f.is_vector}


def id_table(
    game: ProcgenGame,
    types: Sequence[EntityType],
    dropped: Sequence[int],
    tiles: Sequence[TileKind],
    visible_only: bool,
) -> tuple[NDArray[Any], tuple[str, ...]]:
    """`DecodePlan.ids`, and the names of the columns of tiles, which are as drawn where `visible_only`.

    Args:
        types: with `Other` last: what no type claims and is not `dropped` goes there.
    """
    slots = slot_table(game.name)
    ids = np.full(ID_TABLE_SIZE, np.array((len(types) - 1, -1, 0, -1), _ID))
    for index, kind in enumerate(types):
        ids["type"][list(kind.ids)] = index
    ids["type"][list(dropped)] = -1
    for number, condition in game.drawn_while if visible_only else ():
        name = condition.removesuffix("[]")
        is_vector = name != condition
        ids["gate_size"][number] = vector_sizes(game)[name] if is_vector else 0
        ids["gate_slot"][number] = slots[f"{name}.0" if is_vector else name]
    names = tuple(tile.name for tile in tiles if not (visible_only and tile.pixels))
    for tile in tiles:
        drawn = tile.pixels if visible_only and tile.pixels else tile.name
        ids["column"][list(tile.ids)] = names.index(drawn)
    return ids, names


def options_record(game: ProcgenGame, view: ViewOptions, columns: Sequence[str], space: int) -> NDArray[Any]:
    """`DecodePlan.options`; `columns` of the one-hots of tiles, and which of them is `space`."""
    reference = view.is_reference
    chunk = reference_chunk_size(game.name) if reference else 5
    skip_space = not reference if view.skip_space is None else view.skip_space
    below, above = (np.inf, np.inf) if reference else game.sight
    known = {
        **slot_table(game.name),
        "visible_only": view.visible_only,
        "screen": view.visible_only and not reference,
        "sight_below": below,
        "sight_above": above,
        "columns": len(columns),
        "space": space if skip_space else -1,
        "chunk": chunk if view.chunk_size is None else view.chunk_size,
        "window": view.window,
        "whole_map": view.whole_map or view.visible_only,  # the view is window enough
        "centred": not reference if view.centred is None else view.centred,
        "player_tiles": view.player_tiles if columns else 0,
        "positions": 2 if reference else 4,
        "scale": 1.0 if reference else LENGTH,
    }
    return np.array([tuple(known[name] for name in _OPTIONS.names or ())], _OPTIONS)


def plan_states(
    game: ProcgenGame, mode: str, view: ViewOptions
) -> tuple[DecodePlan, dict[str, list[str]], list[str], tuple[str, ...]]:
    """Plan how to decode the dumps of a game in a mode under some options.

    Returns:
        the plan for the kernels; the names of each type's features, `Tiles` last, where the game has a map;
        the names of the global features; and the columns of the one-hot at each cell of a chunk.
    """
    if view.is_reference:
        types, tiles = reference_types(game.name), reference_tiles(game.name)
        dropped: tuple[int, ...] = ()
        global_features: tuple[Feature, ...] = ()
    else:
        types, tiles = (*game.types, OTHER), game.tiles
        dropped, global_features = game.decoration, game.globals
    features = [kind.features for kind in types]
    if view.visible_only and not view.is_reference:
        features, global_features = list(map(on_screen, features)), on_screen(global_features)
    if game.distances and not view.is_reference if view.distances is None else view.distances:
        features[1:] = map(with_distances, features[1:])
    entities = {kind.name: [f.name for f in row] for kind, row in zip(types, features, strict=True)}
    ids, tile_names = id_table(game, types, dropped, tiles, view.visible_only)
    options = options_record(game, view, tile_names, ids["column"][SPACE])
    if tiles and view.player_tiles:
        cells = range(-view.player_tiles, view.player_tiles + 1)
        entities[types[0].name] += [
            *PLACE_IN_CELL,
            *(f"{name}_{x}_{y}" for y in cells for x in cells for name in tile_names),
        ]
    if tiles:
        cells = range(options["chunk"][0])
        entities["Tiles"] = [
            *CHUNK_POSITION[: options["positions"][0]],
            *(f"{name}_{x}_{y}" for y in cells for x in cells for name in tile_names),
        ]
    tracked = [kind.tracked and mode != "memory" for kind in types]
    widths = [len(names) for names in entities.values()]
    kernels = DecodePlan(
        np.frombuffer(game.name.encode(), np.uint8).copy(),
        *fields_plan(game),
        ids,
        np.array(list(zip_longest(widths, tracked, fillvalue=False)), _TYPE),
        options,
        *compile_features([*features, global_features], slot_table(game.name), vector_sizes(game)),
    )
    return kernels, entities, [f.name for f in global_features], tile_names
