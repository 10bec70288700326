"""From the engine's records to rows of features and action masks, for all lanes at once.

The shape alphabet is that of `sort_kernels`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....ragged.compiled import compiled
from ..features import UNIT_FEATURES
from ..java.engine import ATTACK_COMPONENT, COMPONENT_SIZES
from ..java.records import ACTIONS, HEADER, UNIT, UNIT_TYPES

_TIME, _RESOURCES_0 = HEADER.index("time"), HEADER.index("resources_0")
_PLAYER, _TYPE, _X, _Y = (UNIT.index(name) for name in ("player", "type", "x", "y"))
_HIT_POINTS, _RESOURCES = UNIT.index("hit_points"), UNIT.index("resources")
_ACTION, _DIRECTION = UNIT.index("action"), UNIT.index("direction")
_TARGET_X, _TARGET_Y = UNIT.index("target_x"), UNIT.index("target_y")
_PRODUCED, _ENDS_AT = UNIT.index("produced"), UNIT.index("ends_at")

_MOVE, _PRODUCE, _ATTACK = (ACTIONS.index(name) for name in ("move", "produce", "attack"))
#: Where their parameters start in a mask.
_MOVES, _PRODUCES, _PRODUCTS, _ATTACKS = (
    sum(COMPONENT_SIZES[:place]) for place in (1, 4, 5, ATTACK_COMPONENT)
)
_NUM_TYPES = len(UNIT_TYPES)

_PLANE_RESOURCES, _PLANE_OWNER, _PLANE_TYPE, _PLANE_ACTION = 2 + 5, 2 + 10, 2 + 13, 2 + 21
_UNIT_KIND, _UNIT_ACTION = UNIT_FEATURES.index("is_base"), UNIT_FEATURES.index("action_none")
_UNIT_DIRECTION = UNIT_FEATURES.index("direction_up")
_UNIT_PRODUCES = UNIT_FEATURES.index("produces_base")


@compiled
def _step_x(direction: int) -> int:
    return (direction == 1) - (direction == 3)


@compiled
def _step_y(direction: int) -> int:
    return (direction == 2) - (direction == 0)


class Sight(NamedTuple):
    """The arrays that `see_units` reads, the same at every step: G games, L lanes."""

    records: NDArray[np.int32]
    starts: NDArray[np.int64]  # (G + 1,), see `read_headers`
    lanes: NDArray[np.int64]  # (2, L), see `sort_units`
    units: NDArray[np.int64]  # filled by `sort_units`
    planes: bool  # the engine's planes as features
    costs: NDArray[np.int32]  # what each unit type costs (7,)
    reserve: bool  # forbid what the engine would silently drop
    engine_masks: NDArray[np.int32]  # (G, height, width, 78); the rows taken are zero afterwards
    cells: NDArray[np.int64]  # room for A; filled with the actors' cells, y * width + x


@compiled
def _fill_planes(records: NDArray[np.int32], unit: int, kind: int, row: NDArray[np.float32]) -> None:
    """A unit's cell and planes into a row (29,)."""
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
    row[5], row[6] = _step_x(direction), _step_y(direction)
    if action == _PRODUCE:
        row[_UNIT_PRODUCES - 1 + records[unit + _PRODUCED]] = 1


@compiled
def _fill_rows(
    sight: Sight,
    offsets: NDArray[np.int64],
    own: NDArray[np.float32],
    enemy: NDArray[np.float32],
    resources: NDArray[np.float32],
) -> None:
    """Fill a row of features for each unit seen, by type."""
    records, units = sight.records, sight.units
    filled = np.zeros(3, np.int64)
    place = 0
    for lane in range(offsets.shape[1] - 1):
        time = records[sight.starts[sight.lanes[0, lane]] + _TIME]
        for kind in range(3):
            rows = own if kind == 0 else (enemy if kind == 1 else resources)
            for _ in range(offsets[kind, lane + 1] - offsets[kind, lane]):
                unit, row = units[place], rows[filled[kind]]
                place += 1
                filled[kind] += 1
                if sight.planes:
                    _fill_planes(records, unit, kind, row)
                elif kind < 2:
                    _fill_unit(records, unit, time, row)
                else:
                    row[0], row[1] = records[unit + _X], records[unit + _Y]
                    row[2] = records[unit + _RESOURCES]


@compiled
def _fill_masks(
    sight: Sight, offsets: NDArray[np.int64], actors: NDArray[np.int64], masks: NDArray[np.bool_]
) -> None:
    """Fill the actors and their masks: copies the units' rows of `engine_masks`.

    With `reserve` it is forbidden to move or produce into a cell that another unit is about to enter or fill,
    and to spend what is set aside for a production.
    """
    records, starts, lanes, units, _, costs, reserve, engine_masks, cells = sight
    height, width = engine_masks.shape[1], engine_masks.shape[2]
    # Cell -> the last lane (counted from 1) in whose game it is reserved.
    reserved = np.zeros(height * width, np.int64)
    place = actor = 0
    for lane in range(lanes.shape[1]):
        game, player = lanes[0, lane], lanes[1, lane]
        seen = 0
        for kind in range(3):
            seen += offsets[kind, lane + 1] - offsets[kind, lane]
        money = records[starts[game] + _RESOURCES_0 + player]
        if reserve:
            for at in range(place, place + seen):
                money -= _reserve(records, units[at], player, costs, width, lane + 1, reserved)
        for index in range(offsets[0, lane + 1] - offsets[0, lane]):
            unit = units[place + index]
            if records[unit + _ACTION] >= 0:
                continue
            x, y = records[unit + _X], records[unit + _Y]
            row = engine_masks[game, y, x]
            for choice in range(len(row)):
                masks[actor, choice] = row[choice] != 0
            row[:] = 0
            if reserve:
                _forbid_reserved(masks[actor], x, y, width, height, lane + 1, reserved, money, costs)
            actors[actor] = index
            cells[actor] = y * width + x
            actor += 1
        place += seen


@compiled
def _reserve(
    records: NDArray[np.int32],
    unit: int,
    player: int,
    costs: NDArray[np.int32],
    width: int,
    stamp: int,
    reserved: NDArray[np.int64],
) -> int:
    """Stamp the cell that a unit is about to enter or fill; returns what of `player`'s money is set aside."""
    action = records[unit + _ACTION]
    if action not in (_MOVE, _PRODUCE):
        return 0
    direction = records[unit + _DIRECTION]
    x, y = records[unit + _X] + _step_x(direction), records[unit + _Y] + _step_y(direction)
    reserved[y * width + x] = stamp
    if action == _PRODUCE and records[unit + _PLAYER] == player:
        return costs[records[unit + _PRODUCED]]
    return 0


@compiled
def _forbid_reserved(
    mask: NDArray[np.bool_],
    x: int,
    y: int,
    width: int,
    height: int,
    stamp: int,
    reserved: NDArray[np.int64],
    money: int,
    costs: NDArray[np.int32],
) -> None:
    """Take out of one unit's mask what is reserved."""
    can_move, can_place, can_pay = False, False, False
    for direction in range(4):
        to_x, to_y = x + _step_x(direction), y + _step_y(direction)
        inside = 0 <= to_x < width and 0 <= to_y < height
        if inside and reserved[to_y * width + to_x] == stamp:
            mask[_MOVES + direction] = False
            mask[_PRODUCES + direction] = False
        can_move |= mask[_MOVES + direction]
        can_place |= mask[_PRODUCES + direction]
    for product in range(_NUM_TYPES):
        if costs[product] > money:
            mask[_PRODUCTS + product] = False
        can_pay |= mask[_PRODUCTS + product]
    if not can_move:
        mask[_MOVE] = False
    if not (can_place and can_pay):
        mask[_PRODUCE] = False
        mask[_PRODUCES:_ATTACKS] = False


@compiled
def see_units(
    sight: Sight,
    offsets: NDArray[np.int64],
    own: NDArray[np.float32],
    enemy: NDArray[np.float32],
    resources: NDArray[np.float32],
    actors: NDArray[np.int64],
    masks: NDArray[np.bool_],
) -> None:
    """Fill the features of all units seen, and the actors with their masks.

    Args:
        offsets: what `sort_units` has filled (4, L + 1).
        own, enemy, resources: filled with a row of features for each unit.
        actors: filled with the actors' entity indices (A,).
        masks: filled with what they may do (A, 78).
    """
    _fill_rows(sight, offsets, own, enemy, resources)
    _fill_masks(sight, offsets, actors, masks)
