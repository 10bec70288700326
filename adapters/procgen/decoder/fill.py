"""Second pass over a batch of dumps: every kept entity becomes a row of features, in place."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....ragged.compiled import compiled
from .features import (
    COSINE,
    EQUALS,
    FLOAT,
    GAP,
    INT,
    LOOKUP,
    MOVE_X,
    MOVE_Y,
    NEARNESS,
    RELATIVE,
    SCREEN,
    SINE,
    SLOT,
    SLOT_EQUALS,
    SLOT_RECENT,
    SLOT_REMAINING,
    SLOT_SINCE,
    Program,
)
from .layout import ENTITY_BYTES, ENTITY_FIELDS
from .memory import kernel, load_float, load_int
from .plan import EntityPlan, TilePlan
from .scan import crop
from .tiles import fill_chunks

_X, _Y, _RX, _RY = (ENTITY_FIELDS[name] * 4 for name in ("x", "y", "rx", "ry"))


@kernel
def _unit(value: float) -> float:
    return min(max(value, 0.0), 1.0)


@kernel
def _state_value(
    buffer: NDArray[np.uint8],
    player: int,
    numbers: NDArray[np.float64],
    time: float,
    program: Program,
    index: int,
) -> Any:
    """Return feature `index` from the state: its value, or the origin of its field."""
    kind = program.kind[index]
    if kind in (FLOAT, INT):
        return 0.0
    if kind == RELATIVE:
        return np.float64(load_float(buffer, player + program.field[index]))
    value = numbers[program.slot[index]]
    if kind == SCREEN:
        return value
    if kind == SLOT:
        return value * program.scale[index]
    if kind == SLOT_EQUALS:
        return 1.0 if value == program.parameter[index] else 0.0
    if kind == SLOT_SINCE:
        return _unit((time - value) * program.scale[index])
    if kind == SLOT_RECENT:
        return 1.0 if time - value < program.parameter[index] else 0.0
    if kind == SLOT_REMAINING:
        return _unit(1.0 - (time - value) * program.scale[index])
    if kind == MOVE_X:
        return value // 3 - 1
    if kind == MOVE_Y:
        return value % 3 - 1
    return 0.0


@kernel
def _gap(buffer: NDArray[np.uint8], entity: int, player: int, place: int, radius: int) -> float:
    """Return the distance of two entities' edges along one axis, in cells; negative: they overlap."""
    between = np.float64(load_float(buffer, entity + place)) - np.float64(load_float(buffer, player + place))
    return abs(between) - load_float(buffer, entity + radius) - load_float(buffer, player + radius)


@kernel
def _special_value(
    buffer: NDArray[np.uint8],
    player: int,
    entity: int,
    numbers: NDArray[np.float64],
    time: float,
    program: Program,
    index: int,
) -> float:
    """A feature that is no linear function of one field of the entity at byte `entity`."""
    kind = program.kind[index]
    at = entity + program.field[index]
    if kind == GAP:
        radius = _RX if program.field[index] == _X else _RY
        return _gap(buffer, entity, player, program.field[index], radius) * program.scale[index]
    if kind == NEARNESS:
        x = max(_gap(buffer, entity, player, _X, _RX), 0.0)
        y = max(_gap(buffer, entity, player, _Y, _RY), 0.0)
        return 1.0 / (1.0 + math.sqrt(x * x + y * y) * program.scale[index])
    if kind == EQUALS:
        return 1.0 if load_int(buffer, at) == program.parameter[index] else 0.0
    if kind == LOOKUP:
        item = load_int(buffer, at)
        return numbers[program.slot[index] + item] if 0 <= item < program.size[index] else 0.0
    if kind == SINE:
        return math.sin(load_float(buffer, at))
    if kind == COSINE:
        return math.cos(load_float(buffer, at))
    return _unit((time - load_int(buffer, at)) * program.scale[index])  # SINCE


@kernel
def _fill_entities(
    buffer: NDArray[np.uint8],
    player: int,
    kinds: NDArray[np.int16],
    numbers: NDArray[np.float64],
    time: float,
    program: Program,
    given: NDArray[np.float64],
    next_row: NDArray[np.int64],
    rows: NDArray[np.float32],
) -> None:
    """Write the features of the entities of one state.

    Args:
        kinds: (N,), the type of each entity from byte `player` on, -1 where it is left out.
        given: room for what the features take from the state.
        next_row: (T,), where in `rows` each type's first entity goes; is moved on.
    """
    segments, column, field, scale = program.segments, program.column, program.field, program.scale
    present = np.zeros(len(segments), np.bool_)
    for number in range(len(kinds)):
        entity = player + number * ENTITY_BYTES
        kind = kinds[number]
        if kind < 0:
            continue
        if not present[kind]:
            present[kind] = True
            for index in range(segments[kind, 0], segments[kind, 3]):
                given[index] = _state_value(buffer, player, numbers, time, program, index)
        row = np.uint64(next_row[kind])  # as an unsigned index it needs no look whether it is negative
        for index in range(segments[kind, 0], segments[kind, 1]):
            value = np.float64(load_float(buffer, entity + field[index]))
            rows[row + column[index]] = (value - given[index]) * scale[index]
        for index in range(segments[kind, 1], segments[kind, 2]):
            rows[row + column[index]] = load_int(buffer, entity + field[index]) * scale[index]
        for index in range(segments[kind, 2], segments[kind, 3]):
            rows[row + column[index]] = given[index]
        for index in range(segments[kind, 3], segments[kind, 4]):
            value = _special_value(buffer, player, entity, numbers, time, program, index)
            rows[row + column[index]] = value
        next_row[kind] += segments[kind, 4] - segments[kind, 0]


@compiled
def fill_states(
    buffer: NDArray[np.uint8],
    numbers: NDArray[np.float64],
    places: NDArray[np.int64],
    kinds: NDArray[np.int16],
    offsets: NDArray[np.int64],
    bounds: NDArray[np.int64],
    widths: NDArray[np.int64],
    program: Program,
    global_program: Program,
    entities: EntityPlan,
    tiles: TilePlan,
    rows: NDArray[np.float32],
    global_rows: NDArray[np.float32],
) -> None:
    """Fill the features of B states that `scan_states` has found whole.

    Args:
        numbers, places, kinds, offsets, bounds, widths: as in `scan_states`.
        rows: (sum of N_t * F_t,), receives the features of all types, one type after the other.
        global_rows: (B, G), receives the global features.
    """
    given = np.empty(len(program.kind))
    for b in range(len(places)):
        player, count, cells, first = places[b]
        state = numbers[b]
        time = state[entities.cur_time]
        next_row = bounds[:-1] + offsets[:, b] * widths
        here = kinds[first : first + count]
        _fill_entities(buffer, player, here, state, time, program, given, next_row, rows)
        for index in range(len(global_program.kind)):
            value = _state_value(buffer, player, state, time, global_program, index)
            global_rows[b, global_program.column[index]] = value
        if tiles.columns > 0:
            chunks = rows[next_row[-1] : bounds[-2] + offsets[-1, b + 1] * widths[-1]]
            fill_chunks(
                buffer,
                cells,
                np.int64(state[entities.grid_width]),
                np.int64(state[entities.grid_width + 1]),
                load_float(buffer, player + _X),
                load_float(buffer, player + _Y),
                state[entities.center_x] if entities.screen else 0.0,
                state[entities.center_y] if entities.screen else 0.0,
                crop(buffer, player, state, entities),
                tiles,
                chunks.reshape(-1, widths[-1]),
            )
