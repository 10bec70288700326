"""From the engine's records to rows of features, for all lanes at once.

The shape alphabet is that of `sort_kernels`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ....ragged.compiled import compiled
from ..features import UNIT_FEATURES
from ..java.records import HEADER, UNIT
from .mask_kernels import fill_masks, step_x, step_y

_TIME = HEADER.index("time")
_TYPE, _X, _Y = UNIT.index("type"), UNIT.index("x"), UNIT.index("y")
_HIT_POINTS, _RESOURCES = UNIT.index("hit_points"), UNIT.index("resources")
_ACTION, _DIRECTION = UNIT.index("action"), UNIT.index("direction")
_TARGET_X, _TARGET_Y = UNIT.index("target_x"), UNIT.index("target_y")
_PRODUCED, _ENDS_AT = UNIT.index("produced"), UNIT.index("ends_at")

_PRODUCE, _ATTACK = 4, 5  # kinds of order

_PLANE_RESOURCES, _PLANE_OWNER, _PLANE_TYPE, _PLANE_ACTION = 2 + 5, 2 + 10, 2 + 13, 2 + 21
_UNIT_KIND, _UNIT_ACTION = UNIT_FEATURES.index("is_base"), UNIT_FEATURES.index("action_none")
_UNIT_DIRECTION = UNIT_FEATURES.index("direction_up")
_UNIT_PRODUCES = UNIT_FEATURES.index("produces_base")


@compiled
def fill_planes(
    records: NDArray[np.int32],
    starts: NDArray[np.int64],
    lanes: NDArray[np.int64],
    units: NDArray[np.int64],
    offsets: NDArray[np.int64],
    own: NDArray[np.float32],
    enemy: NDArray[np.float32],
    resources: NDArray[np.float32],
) -> None:
    """Cells and planes of all units seen, into rows (n, 29) per type; takes what `fill_units` takes."""
    filled = np.zeros(3, np.int64)
    place = 0
    for lane in range(offsets.shape[1] - 1):
        for kind in range(3):
            rows = own if kind == 0 else (enemy if kind == 1 else resources)
            for _ in range(offsets[kind, lane + 1] - offsets[kind, lane]):
                unit, row = units[place], rows[filled[kind]]
                place += 1
                filled[kind] += 1
                row[:] = 0
                row[0], row[1] = records[unit + _X], records[unit + _Y]
                row[2 + min(records[unit + _HIT_POINTS], 4)] = 1
                row[_PLANE_RESOURCES + min(records[unit + _RESOURCES], 4)] = 1
                row[_PLANE_OWNER + (kind + 1) % 3] = 1
                row[_PLANE_TYPE + 1 + records[unit + _TYPE]] = 1
                row[_PLANE_ACTION + max(records[unit + _ACTION], 0)] = 1


@compiled
def _fill_unit(records: NDArray[np.int32], unit: int, time: int, row: NDArray[np.float32]) -> None:
    """One unit's numbers and one-hots into a row."""
    action = records[unit + _ACTION]
    row[:] = 0
    row[0], row[1] = records[unit + _X], records[unit + _Y]
    row[2], row[3] = records[unit + _HIT_POINTS], records[unit + _RESOURCES]
    row[_UNIT_KIND - 1 + records[unit + _TYPE]] = 1
    row[_UNIT_ACTION + max(action, 0)] = 1
    if action <= 0:
        return
    row[4] = records[unit + _ENDS_AT] - time
    if action == _ATTACK:
        row[5] = records[unit + _TARGET_X] - records[unit + _X]
        row[6] = records[unit + _TARGET_Y] - records[unit + _Y]
        return
    direction = records[unit + _DIRECTION]
    row[_UNIT_DIRECTION + direction] = 1
    row[5], row[6] = step_x(direction), step_y(direction)
    if action == _PRODUCE:
        row[_UNIT_PRODUCES - 1 + records[unit + _PRODUCED]] = 1


@compiled
def fill_units(
    records: NDArray[np.int32],
    starts: NDArray[np.int64],
    lanes: NDArray[np.int64],
    units: NDArray[np.int64],
    offsets: NDArray[np.int64],
    own: NDArray[np.float32],
    enemy: NDArray[np.float32],
    resources: NDArray[np.float32],
) -> None:
    """Numbers and one-hots of all units seen, into rows per type."""
    place = own_row = enemy_row = resource_row = 0
    for lane in range(offsets.shape[1] - 1):
        time = records[starts[lanes[0, lane]] + _TIME]
        for _ in range(offsets[0, lane + 1] - offsets[0, lane]):
            _fill_unit(records, units[place], time, own[own_row])
            place += 1
            own_row += 1
        for _ in range(offsets[1, lane + 1] - offsets[1, lane]):
            _fill_unit(records, units[place], time, enemy[enemy_row])
            place += 1
            enemy_row += 1
        for _ in range(offsets[2, lane + 1] - offsets[2, lane]):
            unit = units[place]
            resources[resource_row, 0] = records[unit + _X]
            resources[resource_row, 1] = records[unit + _Y]
            resources[resource_row, 2] = records[unit + _RESOURCES]
            place += 1
            resource_row += 1


@compiled
def see_units(
    records: NDArray[np.int32],
    starts: NDArray[np.int64],
    lanes: NDArray[np.int64],
    units: NDArray[np.int64],
    costs: NDArray[np.int32],
    reserve: bool,
    engine_masks: NDArray[np.int32],
    cells: NDArray[np.int64],
    offsets: NDArray[np.int64],
    own: NDArray[np.float32],
    enemy: NDArray[np.float32],
    resources: NDArray[np.float32],
    actors: NDArray[np.int64],
    masks: NDArray[np.bool_],
) -> None:
    """`fill_units` and `fill_masks` in one call."""
    fill_units(records, starts, lanes, units, offsets, own, enemy, resources)
    fill_masks(records, starts, lanes, units, costs, reserve, engine_masks, cells, offsets, actors, masks)


@compiled
def see_planes(
    records: NDArray[np.int32],
    starts: NDArray[np.int64],
    lanes: NDArray[np.int64],
    units: NDArray[np.int64],
    costs: NDArray[np.int32],
    reserve: bool,
    engine_masks: NDArray[np.int32],
    cells: NDArray[np.int64],
    offsets: NDArray[np.int64],
    own: NDArray[np.float32],
    enemy: NDArray[np.float32],
    resources: NDArray[np.float32],
    actors: NDArray[np.int64],
    masks: NDArray[np.bool_],
) -> None:
    """`fill_planes` and `fill_masks` in one call."""
    fill_planes(records, starts, lanes, units, offsets, own, enemy, resources)
    fill_masks(records, starts, lanes, units, costs, reserve, engine_masks, cells, offsets, actors, masks)
