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
    GAP,
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
)
from .layout import ENTITY_BYTES
from .memory import RX, RY, X, Y, kernel, load_float, load_int
from .plan import DecodePlan
from .scan import ScannedStates
from .tiles import cut_chunks, fill_player_tiles


@kernel
def _unit(value: float) -> float:
    return 0.0 if value < 0.0 else (1.0 if value > 1.0 else value)


@compiled(separate=True)
def _fill_given(
    buffer: NDArray[np.uint8],
    player: int,
    numbers: NDArray[np.float64],
    time: float,
    plan: DecodePlan,
    kind: int,
    given: NDArray[np.float64],
) -> None:
    """Fill `given` with what a type's features take from the state: their values, or their fields' origin."""
    for index in range(plan.segments[kind, 0], plan.segments[kind, 3]):
        feature = plan.features[index]
        rule, scale = feature.kind, feature.scale
        value = numbers[feature.slot]
        if rule == RELATIVE:
            value = np.float64(load_float(buffer, player + feature.field))
        elif rule == SLOT:
            value *= scale
        elif rule == SLOT_EQUALS:
            value = 1.0 if value == feature.parameter else 0.0
        elif rule == SLOT_SINCE:
            value = _unit((time - value) * scale)
        elif rule == SLOT_RECENT:
            value = 1.0 if time - value < feature.parameter else 0.0
        elif rule == SLOT_REMAINING:
            value = _unit(1.0 - (time - value) * scale)
        elif rule == MOVE_X:
            value = math.floor(value / 3) - 1
        elif rule == MOVE_Y:
            value = value - 3 * math.floor(value / 3) - 1
        elif rule != SCREEN:  # a number of the entity as it is
            value = 0.0
        given[index] = value


@compiled(separate=True)
def _gap(buffer: NDArray[np.uint8], entity: int, player: int, place: int) -> float:
    """Return the distance of two entities' edges along one axis, in cells; negative: they overlap."""
    radius = RX if place == X else RY
    between = np.float64(load_float(buffer, entity + place)) - np.float64(load_float(buffer, player + place))
    return abs(between) - load_float(buffer, entity + radius) - load_float(buffer, player + radius)


@compiled(separate=True)
def _special_value(
    buffer: NDArray[np.uint8],
    player: int,
    entity: int,
    numbers: NDArray[np.float64],
    time: float,
    feature: Any,
) -> float:
    """A feature that is no linear function of one field of the entity at byte `entity`."""
    rule, at = feature.kind, entity + feature.field
    if rule == GAP:
        return _gap(buffer, entity, player, feature.field) * feature.scale
    if rule == NEARNESS:
        x, y = _gap(buffer, entity, player, X), _gap(buffer, entity, player, Y)
        x, y = 0.0 if x < 0.0 else x, 0.0 if y < 0.0 else y
        return 1.0 / (1.0 + math.sqrt(x * x + y * y) * feature.scale)
    number = load_int(buffer, at)
    if rule == EQUALS:
        return 1.0 if number == feature.parameter else 0.0
    if rule == LOOKUP:
        return numbers[feature.slot + number] if 0 <= number < feature.size else 0.0
    if rule == SINE:
        return math.sin(load_float(buffer, at))
    if rule == COSINE:
        return math.cos(load_float(buffer, at))
    return _unit((time - number) * feature.scale)  # SINCE


@compiled(separate=True)
def _fill_entities(
    buffer: NDArray[np.uint8],
    player: int,
    kinds: NDArray[np.int16],
    numbers: NDArray[np.float64],
    time: float,
    plan: DecodePlan,
    given: NDArray[np.float64],
    next_row: NDArray[np.int64],
    rows: NDArray[np.float32],
) -> None:
    """Write the features of the entities of one state.

    Args:
        kinds: (N,), the type of each entity from byte `player` on, -1 where it is left out.
        given: see `_fill_given`.
        next_row: (T,), where in `rows` each type's first entity goes; is moved on.
    """
    segments, features = plan.segments, plan.features
    for number in range(len(kinds)):
        entity = player + number * ENTITY_BYTES
        kind = kinds[number]
        if kind < 0:
            continue
        row = np.uint64(next_row[kind])  # as an unsigned index it needs no look whether it is negative
        for index in range(segments[kind, 0], segments[kind, 1]):
            feature = features[index]
            value = np.float64(load_float(buffer, entity + feature.field))
            rows[row + feature.column] = (value - given[index]) * feature.scale
        for index in range(segments[kind, 1], segments[kind, 2]):
            feature = features[index]
            rows[row + feature.column] = load_int(buffer, entity + feature.field) * feature.scale
        for index in range(segments[kind, 2], segments[kind, 3]):
            rows[row + features[index].column] = given[index]
        for index in range(segments[kind, 3], segments[kind, 4]):
            feature = features[index]
            value = _special_value(buffer, player, entity, numbers, time, feature)
            rows[row + feature.column] = value
        next_row[kind] += segments[kind, 4] - segments[kind, 0]


@compiled
def fill_states(
    buffer: NDArray[np.uint8],
    plan: DecodePlan,
    states: ScannedStates,
    bounds: NDArray[np.int64],
    given: NDArray[np.float64],
    next_row: NDArray[np.int64],
    rows: NDArray[np.float32],
    global_rows: NDArray[np.float32],
) -> None:
    """Fill the features of B states that `scan_states` has found whole.

    Args:
        bounds: (T + 1,), where the numbers of each type start in `rows`.
        given, next_row: room for a number per feature, and one per type.
        rows: (sum of N_t * F_t,), receives the features of all types, one type after the other.
        global_rows: (B, G), receives the global features.
    """
    offsets, segments = states.offsets, plan.segments
    last = len(segments) - 1  # the globals
    for b in range(len(states.places)):
        place, numbers = states.places[b], states.numbers[b]
        time = numbers[plan.options[0].cur_time]
        for kind in range(len(offsets)):
            next_row[kind] = bounds[kind] + offsets[kind, b] * plan.types[kind].width
        for kind in range(last + 1):
            if kind == last or offsets[kind, b] < offsets[kind, b + 1]:
                _fill_given(buffer, place.player, numbers, time, plan, kind, given)
        for index in range(segments[last, 0], segments[last, 4]):
            global_rows[b, plan.features[index].column] = given[index]
        here = states.kinds[place.first : place.first + place.entities]
        _fill_entities(buffer, place.player, here, numbers, time, plan, given, next_row, rows)
        if plan.options[0].player_tiles > 0:  # after the features of the player, who is of the first type
            fill_player_tiles(buffer, numbers, place, plan, rows, next_row[0])
        if plan.options[0].columns > 0:
            cut_chunks(buffer, numbers, place, plan, True, rows, next_row[-1])
