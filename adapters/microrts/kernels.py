"""From the engine's records to rows of features and masks, for all lanes at once.

Shape alphabet: G games, L lanes, U units seen by all lanes together, A units that may be given orders.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from .features import PLANE_FEATURES, UNIT_FEATURES
from .records import HEADER, UNIT, UNIT_TYPES

_kernel: Any = numba.njit(cache=True, error_model="numpy")

_HEADER_SIZE = len(HEADER)
_COUNT = HEADER.index("count")
_RESOURCES_0 = HEADER.index("resources_0")
_TIME = HEADER.index("time")

_RECORD_SIZE = len(UNIT)
_PLAYER, _TYPE, _X, _Y = (UNIT.index(name) for name in ("player", "type", "x", "y"))
_HIT_POINTS, _RESOURCES = UNIT.index("hit_points"), UNIT.index("resources")
_ACTION, _DIRECTION = UNIT.index("action"), UNIT.index("direction")
_TARGET_X, _TARGET_Y = UNIT.index("target_x"), UNIT.index("target_y")
_PRODUCED, _ENDS_AT = UNIT.index("produced"), UNIT.index("ends_at")

_MOVE, _PRODUCE, _ATTACK = 1, 4, 5  # kinds of order
_MOVES, _PRODUCES, _PRODUCTS, _ATTACKS = 6, 18, 22, 29  # where their parameters start in a mask

_PLANE_RESOURCES, _PLANE_OWNER, _PLANE_TYPE, _PLANE_ACTION = 2 + 5, 2 + 10, 2 + 13, 2 + 21
_NUM_PLANE_FEATURES = len(PLANE_FEATURES)
_NUM_UNIT_FEATURES = len(UNIT_FEATURES)
_NUM_TYPES = len(UNIT_TYPES)
_UNIT_KIND, _UNIT_ACTION = UNIT_FEATURES.index("is_base"), UNIT_FEATURES.index("action_none")
_UNIT_DIRECTION = UNIT_FEATURES.index("direction_up")
_UNIT_PRODUCES = UNIT_FEATURES.index("produces_base")


@_kernel
def read_headers(records: NDArray[np.int32], starts: NDArray[np.int64], headers: NDArray[np.int64]) -> None:
    """Where each game's header is in `records`, into `starts` (G + 1,), and the headers into `headers`."""
    place = 0
    for game in range(len(starts) - 1):
        starts[game] = place
        for k in range(_HEADER_SIZE):
            headers[k, game] = records[place + k]
        place += _HEADER_SIZE + records[place + _COUNT] * _RECORD_SIZE
    starts[-1] = place


@_kernel
def _is_seen(
    records: NDArray[np.int32], first: int, last: int, player: int, unit: int, sight: NDArray[np.int32]
) -> bool:
    """Whether a unit of `player` among the records from `first` to `last` sees the one at `unit`."""
    for watcher in range(first, last, _RECORD_SIZE):
        if records[watcher + _PLAYER] == player:
            dx = records[watcher + _X] - records[unit + _X]
            dy = records[watcher + _Y] - records[unit + _Y]
            radius = sight[records[watcher + _TYPE]]
            if dx * dx + dy * dy <= radius * radius:
                return True
    return False


@_kernel
def sort_units(
    records: NDArray[np.int32],
    starts: NDArray[np.int64],
    headers: NDArray[np.int64],
    lane_game: NDArray[np.int64],
    lane_player: NDArray[np.int64],
    sight: NDArray[np.int32],
    width: int,
    height: int,
    max_steps: int,
    walls: NDArray[np.int64],
    keys: NDArray[np.int64],
    units: NDArray[np.int64],
    offsets: NDArray[np.int64],
    globals_: NDArray[np.float32],
) -> None:
    """What each lane sees: own units, then the enemy's, then resources, each in the order of their cells.

    Args:
        starts, headers: filled as by `read_headers`.
        sight: how far each unit type sees, in cells (7,); empty: everything is seen.
        walls: where each lane's walls start (L + 1,).
        keys, units: room for all units that lanes may see; `units` is filled with the places of the units'
            records, lane by lane.
        offsets: filled with where each lane's own units, enemy's, resources and own units that may be given
            orders start, the last of these again, and `walls` (6, L + 1): each array that is handed out has
            a row of its own.
        globals_: filled with the lanes' global features (L, 3), or (L, 2) without the enemy's resources.
    """
    read_headers(records, starts, headers)
    cells = width * height
    total = 0
    for lane in range(len(lane_game)):
        game, player = lane_game[lane], lane_player[lane]
        start = starts[game]
        globals_[lane, 0] = records[start + _TIME] / max_steps
        globals_[lane, 1] = records[start + _RESOURCES_0 + player]
        if globals_.shape[1] > 2:
            globals_[lane, 2] = records[start + _RESOURCES_0 + 1 - player]
        for kind in range(4):
            offsets[kind, lane + 1] = offsets[kind, lane] if lane else 0
        first, last = start + _HEADER_SIZE, starts[game + 1]
        count = 0
        for unit in range(first, last, _RECORD_SIZE):
            owner = records[unit + _PLAYER]
            kind = 0 if owner == player else (2 if owner < 0 else 1)
            if kind and len(sight) and not _is_seen(records, first, last, player, unit, sight):
                continue
            offsets[kind, lane + 1] += 1
            if kind == 0 and records[unit + _ACTION] < 0:
                offsets[3, lane + 1] += 1
            key = kind * cells + records[unit + _Y] * width + records[unit + _X]
            at = count
            while at and keys[at - 1] > key:  # there are few units, and they hardly move
                keys[at], units[total + at] = keys[at - 1], units[total + at - 1]
                at -= 1
            keys[at], units[total + at] = key, unit
            count += 1
        total += count
    offsets[:4, 0] = 0
    offsets[4] = offsets[3]
    offsets[5] = walls


@_kernel
def fill_planes(
    records: NDArray[np.int32],
    starts: NDArray[np.int64],
    lane_game: NDArray[np.int64],
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


@_kernel
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


@_kernel
def _step_x(direction: int) -> int:
    return (direction == 1) - (direction == 3)


@_kernel
def _step_y(direction: int) -> int:
    return (direction == 2) - (direction == 0)


@_kernel
def fill_units(
    records: NDArray[np.int32],
    starts: NDArray[np.int64],
    lane_game: NDArray[np.int64],
    units: NDArray[np.int64],
    offsets: NDArray[np.int64],
    own: NDArray[np.float32],
    enemy: NDArray[np.float32],
    resources: NDArray[np.float32],
) -> None:
    """Numbers and one-hots of all units seen, into rows per type."""
    place = own_row = enemy_row = resource_row = 0
    for lane in range(offsets.shape[1] - 1):
        time = records[starts[lane_game[lane]] + _TIME]
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


@_kernel
def fill_masks(
    records: NDArray[np.int32],
    starts: NDArray[np.int64],
    lane_game: NDArray[np.int64],
    lane_player: NDArray[np.int64],
    units: NDArray[np.int64],
    costs: NDArray[np.int32],
    reserve: bool,
    engine_masks: NDArray[np.int32],
    cells: NDArray[np.int64],
    offsets: NDArray[np.int64],
    actors: NDArray[np.int64],
    masks: NDArray[np.bool_],
) -> None:
    """Who may be given an order, and what: takes the units' rows out of `engine_masks`.

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
    for lane in range(len(lane_game)):
        game, player = lane_game[lane], lane_player[lane]
        seen = offsets[:3, lane + 1].sum() - offsets[:3, lane].sum()
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
                row[choice] = 0
            if reserve:
                _forbid_reserved(masks[actor], x, y, width, height, lane + 1, reserved, money, costs)
            actors[actor] = index
            cells[actor] = y * width + x
            actor += 1
        place += seen


@_kernel
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


@_kernel
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


@_kernel
def place_orders(
    orders: NDArray[np.int64],
    offsets: NDArray[np.int64],
    actor_offsets: NDArray[np.int64],
    cells: NDArray[np.int64],
    masks: NDArray[np.bool_],
    components: NDArray[np.int64],
    used: NDArray[np.bool_],
    board: NDArray[np.int32],
) -> bool:
    """Write each lane's orders (n, 7) into `board` (L, height * width, 7), at the actors' cells.

    A lane with no orders orders nothing.

    Args:
        orders, offsets: as they were given, of any number of lanes; all else is the environment's own.
        masks: what the actors may do (A, 78).
        components: where each component's columns start in a mask (8,).
        used: which components count for a kind (6, 7).

    Returns:
        whether all orders are allowed; where one is not, `board` is half written.
    """
    if len(offsets) != len(actor_offsets):
        return False
    for lane in range(len(offsets) - 1):
        given = offsets[lane + 1] - offsets[lane]
        if given and given != actor_offsets[lane + 1] - actor_offsets[lane]:
            return False
        for k in range(given):
            order, actor = orders[offsets[lane] + k], actor_offsets[lane] + k
            row = board[lane, cells[actor]]
            for component in range(len(row)):
                choice, first = order[component], components[component]
                if not 0 <= choice < components[component + 1] - first:
                    return False
                # The first component is the kind, which has been found to be one before it is looked up.
                if used[order[0], component] and not masks[actor, first + choice]:
                    return False
                row[component] = choice
    return True


@_kernel
def clear_orders(
    actor_offsets: NDArray[np.int64], cells: NDArray[np.int64], board: NDArray[np.int32]
) -> None:
    """Zero the orders that `place_orders` wrote."""
    for lane in range(len(actor_offsets) - 1):
        for actor in range(actor_offsets[lane], actor_offsets[lane + 1]):
            board[lane, cells[actor]] = 0
