"""Reader of a lane's actions inside the engine.

Its own reader asks for every cell of the board what is there, twice for each game between two lanes; this one
takes a list of those who are ordered something, and does for them what that one does.
"""

from __future__ import annotations

from typing import Any

from .games import ACTION, STATE
from .handles import Handles

_BOARD = "rts.PhysicalGameState"
_BUFFER = "java.nio.IntBuffer"
_UNIT = "rts.units.Unit"
_UNIT_ACTION = "rts.UnitAction"
_USAGE = "rts.ResourceUsage"
_TABLE = "rts.units.UnitTypeTable"


def order_reader(handles: Handles, unit_types: Any, orders: Any, row_size: int, width: int) -> Any:
    """(int player, GameState, int start) -> PlayerAction: the orders that stand in a buffer from `start` on.

    What does not fit to what is going on or was ordered before it is left out, and units without an order
    wait for a tick. Nothing else is checked: in each cell there must be a unit of the player that may be
    given an order.

    Args:
        orders: an IntBuffer of rows: the first says how many follow, each of these a cell and an order.
        row_size: of how many ints a row is.
        width: of the board.
    """
    row = handles.jpype.JArray(handles.jpype.JInt)(row_size)
    read_row = handles.dropping_result(
        handles.bind(handles.method(_BUFFER, "get", _BUFFER, "int[]"), 0, orders)
    )
    read_row = read_row.bindTo(row)  # () -> void: the next row of the buffer into `row`
    # () -> int: the number of orders while the first row is there, then the cell of each.
    first = handles.bind(handles.methods.arrayElementGetter(handles.java_class("int[]")).bindTo(row), 0, 0)
    take = handles.sequence(
        handles.ignoring(read_row, 0, STATE, ACTION), _order_taker(handles, unit_types, row, first, width)
    )
    take_all = handles.methods.countedLoop(
        handles.ignoring(first, 0, STATE, ACTION), None, handles.ignoring(take, 0, "int")
    )
    # (action, state): what is used up already; only orders have to fit to that.
    claim = handles.filtered(
        handles.method(ACTION, "setResourceUsage", "void", _USAGE),
        1,
        handles.method(STATE, "getResourceUsage", _USAGE),
    )
    any_order = handles.collected(handles.bind(handles.differ(), 1, 0), 0, first)  # () -> boolean
    take_all = handles.when(
        handles.ignoring(any_order, 0, STATE, ACTION),
        handles.sequence(handles.reordered(claim, [1, 0], STATE, ACTION), take_all),
    )
    seek = handles.dropping_result(
        handles.bind(handles.method(_BUFFER, "position", _BUFFER, "int"), 0, orders)
    )
    wait = handles.bind(handles.method(ACTION, "fillWithNones", "void", STATE, "int", "int"), 3, 1)
    types = (ACTION, "int", STATE, "int")  # (action, player, state, start)
    fill = handles.sequence(
        handles.reordered(seek, [3], *types),
        handles.ignoring(read_row, 0, *types),
        handles.reordered(take_all, [2, 0], *types),
        handles.reordered(wait, [0, 2, 1], *types),
    )
    result = handles.ignoring(handles.methods.identity(handles.java_class(ACTION)), 1, *types[1:])
    return handles.collected(handles.given(result, fill), 0, handles.constructor(ACTION))


def _order_taker(handles: Handles, unit_types: Any, row: Any, cell: Any, width: int) -> Any:
    """(GameState, PlayerAction) -> void: adds the order in `row`, where it fits to those that are there.

    Args:
        cell: () -> int, the row's first number.
    """
    board = handles.method(STATE, "getPhysicalGameState", _BOARD)
    unit_at = handles.method(_BOARD, "getUnitAt", _UNIT, "int", "int")
    for operation in ("floorDiv", "floorMod"):  # y, then x before it
        divide = handles.bind(handles.static("java.lang.Math", operation, "int", "int", "int"), 1, width)
        position = 2 if operation == "floorDiv" else 1
        unit_at = handles.collected(unit_at, position, handles.collected(divide, 0, cell))
    unit_at = handles.filtered(unit_at, 0, board)  # (state) -> unit

    read = handles.static(
        _UNIT_ACTION, "fromActionArrayWithOffset", _UNIT_ACTION, "int[]", _TABLE, STATE, _UNIT, "int", "int"
    )
    reach = 2 * int(unit_types.getMaxAttackRange()) + 1
    read = handles.bind(handles.bind(read, 4, reach, 1), 0, row, unit_types)  # (state, unit) -> order
    usage = handles.method(_UNIT_ACTION, "resourceUsage", _USAGE, _UNIT, _BOARD)
    usage = handles.filtered(usage, 2, board)  # (order, unit, state) -> usage

    used = handles.method(ACTION, "getResourceUsage", _USAGE)
    fits = handles.filtered(handles.method(_USAGE, "consistentWith", "boolean", _USAGE, STATE), 1, used)
    merge = handles.filtered(handles.method(_USAGE, "merge", "void", _USAGE), 0, used)
    add = handles.method(ACTION, "addUnitAction", "void", _UNIT, _UNIT_ACTION)
    types = (_USAGE, _UNIT_ACTION, _UNIT, STATE, ACTION)
    take = handles.when(
        handles.reordered(fits, [0, 4, 3], *types),
        handles.sequence(handles.reordered(merge, [4, 0], *types), handles.reordered(add, [4, 2, 1], *types)),
    )
    take = handles.given(take, usage)  # (order, unit, state, action)
    take = handles.given(take, handles.reordered(read, [1, 0], _UNIT, STATE))  # (unit, state, action)
    return handles.given(take, unit_at)
