"""Action masks of units, for all lanes at once. The shape alphabet is that of `sort_kernels`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ....ragged.compiled import compiled
from ..java.records import HEADER, UNIT, UNIT_TYPES

_RESOURCES_0 = HEADER.index("resources_0")
_PLAYER, _X, _Y = UNIT.index("player"), UNIT.index("x"), UNIT.index("y")
_ACTION, _DIRECTION, _PRODUCED = UNIT.index("action"), UNIT.index("direction"), UNIT.index("produced")
_NUM_TYPES = len(UNIT_TYPES)

_MOVE, _PRODUCE = 1, 4  # kinds of order
_MOVES, _PRODUCES, _PRODUCTS, _ATTACKS = 6, 18, 22, 29  # where their parameters start in a mask


@compiled
def step_x(direction: int) -> int:
    return (direction == 1) - (direction == 3)


@compiled
def step_y(direction: int) -> int:
    return (direction == 2) - (direction == 0)


@compiled
def fill_masks(
    records: NDArray[np.int32],
    starts: NDArray[np.int64],
    lanes: NDArray[np.int64],
    units: NDArray[np.int64],
    costs: NDArray[np.int32],
    reserve: bool,
    engine_masks: NDArray[np.int32],
    cells: NDArray[np.int64],
    offsets: NDArray[np.int64],
    actors: NDArray[np.int64],
    masks: NDArray[np.bool_],
) -> None:
    """Fill the actors and their masks: copies the units' rows of `engine_masks`.

    Args:
        costs: what each unit type costs (7,).
        reserve: whether to forbid what the engine would silently drop: to move or produce into a cell that
            another unit is about to enter or fill, and to spend what is set aside for a production.
        engine_masks: int32 (G, height, width, 78); the rows taken are zero afterwards.
        cells: room for A; filled with the actors' cells, y * width + x.
        actors: filled with the actors' entity indices (A,).
        masks: filled with what they may do (A, 78).
    """
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
    x, y = records[unit + _X] + step_x(direction), records[unit + _Y] + step_y(direction)
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
        to_x, to_y = x + step_x(direction), y + step_y(direction)
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
