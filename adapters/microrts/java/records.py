"""Records of a game: integers in one buffer, and the names of their places.

Per game there is a header, then one record per unit. All numbers are int32.
"""

from __future__ import annotations

from typing import Any

from .handles import Handles

#: The header of a game. `winner` is 0, 1 or -1 (neither, or not yet); `resources_p` is player p's stockpile.
HEADER = ("time", "is_over", "winner", "resources_0", "resources_1", "count")

#: A unit. `player` is 0, 1 or -1 (neither's: resources). What follows `resources` is about what the unit is
#: doing, all -1 when it may be given an order: the action's type, its direction (0 up, 1 right, 2 down,
#: 3 left; an attack has none), the cell that an attack aims at, the type that is produced (else -1), and the
#: time at which it is done.
UNIT = (
    "id",
    "player",
    "type",
    "x",
    "y",
    "hit_points",
    "resources",
    "action",
    "direction",
    "target_x",
    "target_y",
    "produced",
    "ends_at",
)

#: An order of a player: the unit's cell, and its action as in `UNIT`.
ORDER = ("x", "y", "action", "direction", "target_x", "target_y", "produced")

#: The order of the engine's unit types and of its action types.
UNIT_TYPES = ("resource", "base", "barracks", "worker", "light", "heavy", "ranged")
ACTIONS = ("none", "move", "harvest", "return", "produce", "attack")

_STATE = "rts.GameState"
_UNIT = "rts.units.Unit"
_TYPE = "rts.units.UnitType"
_ACTION = "rts.UnitAction"
_ASSIGNMENT = "rts.UnitActionAssignment"
_BUFFER = "java.nio.IntBuffer"
_PAIR = "util.Pair"


def game_writer(handles: Handles) -> Any:
    """(IntBuffer, GameState) -> void: writes a header and the units' records at the buffer's position."""
    units = handles.method(_STATE, "getUnits", "java.util.List")
    player = handles.method(_STATE, "getPlayer", "rts.Player", "int")
    stockpile = handles.method("rts.Player", "getResources", "int")
    header = [
        handles.method(_STATE, "getTime", "int"),
        handles.method(_STATE, "gameover", "boolean"),
        handles.method(_STATE, "winner", "int"),
        handles.chain(handles.bind(player, 1, 0), stockpile),
        handles.chain(handles.bind(player, 1, 1), stockpile),
        handles.chain(units, handles.method("java.util.List", "size", "int")),
    ]
    record = handles.reordered(_record_writer(handles), [1, 2, 0], _UNIT, _BUFFER, _STATE)
    all_units = handles.for_each(handles.ignoring(units, 0, _BUFFER), _UNIT, record)
    return handles.sequence(_writer(handles, _STATE, header), all_units)


def _writer(handles: Handles, kind: str, numbers: list[Any]) -> Any:
    """(IntBuffer, kind) -> void: writes what each of `numbers` (kind) says, as an int."""
    put = handles.dropping_result(handles.method(_BUFFER, "put", _BUFFER, "int"))
    return handles.sequence(
        *(handles.filtered(put, 1, handles.cast(number, "int", kind)) for number in numbers)
    )


def _record_writer(handles: Handles) -> Any:
    """(IntBuffer, GameState, Unit) -> void"""
    type_id = handles.field(_TYPE, "ID", "int")
    unit = _writer(
        handles,
        _UNIT,
        [
            handles.method(_UNIT, "getID", "long"),
            handles.method(_UNIT, "getPlayer", "int"),
            handles.chain(handles.method(_UNIT, "getType", _TYPE), type_id),
            *(handles.method(_UNIT, f"get{what}", "int") for what in ("X", "Y", "HitPoints", "Resources")),
        ],
    )
    assignment_of = handles.method(_STATE, "getActionAssignment", _ASSIGNMENT, _UNIT)
    doing = handles.collected(_assignment_writer(handles, type_id), 1, assignment_of)
    return handles.sequence(handles.ignoring(unit, 1, _STATE), doing)


def _assignment_writer(handles: Handles, type_id: Any) -> Any:
    """(IntBuffer, UnitActionAssignment or null) -> void"""
    action = handles.field(_ASSIGNMENT, "action", _ACTION)
    numbers = [handles.chain(action, number) for number in _action_numbers(handles, type_id)]
    numbers += [_end_time(handles, action)]
    nothing = [handles.constant(-1, _ASSIGNMENT)] * len(numbers)
    return handles.when(
        handles.ignoring(handles.is_null(_ASSIGNMENT), 0, _BUFFER),
        _writer(handles, _ASSIGNMENT, nothing),
        _writer(handles, _ASSIGNMENT, numbers),
    )


def _action_numbers(handles: Handles, type_id: Any) -> list[Any]:
    """(UnitAction) -> int for `action`, `direction`, `target_x`, `target_y` and `produced` of `UNIT`."""
    names = ("getType", "getDirection", "getLocationX", "getLocationY")
    product = handles.method(_ACTION, "getUnitType", _TYPE)
    produced = handles.when(handles.is_null(_TYPE), handles.constant(-1, _TYPE), type_id)
    return [
        *(handles.method(_ACTION, name, "int") for name in names),
        handles.chain(product, produced),
    ]


def order_writer(handles: Handles, buffer: Any) -> Any:
    """Return a Java `Consumer` that writes the orders of a `PlayerAction` at the start of an IntBuffer.

    First how many there are, then for each a row `ORDER`.
    """
    unit = handles.cast(handles.field(_PAIR, "m_a", "java.lang.Object"), _UNIT, _PAIR)
    action = handles.cast(handles.field(_PAIR, "m_b", "java.lang.Object"), _ACTION, _PAIR)
    numbers = [handles.chain(unit, handles.method(_UNIT, f"get{axis}", "int")) for axis in "XY"]
    type_id = handles.field(_TYPE, "ID", "int")
    numbers += [handles.chain(action, number) for number in _action_numbers(handles, type_id)]
    row = handles.bind(_writer(handles, _PAIR, numbers), 0, buffer)
    orders = handles.method("rts.PlayerAction", "getActions", "java.util.List")
    count = handles.chain(orders, handles.method("java.util.List", "size", "int"))
    rewind = handles.bind(handles.method(_BUFFER, "clear", _BUFFER), 0, buffer)
    write = handles.sequence(
        handles.ignoring(handles.dropping_result(rewind), 0, "rts.PlayerAction"),
        handles.bind(_writer(handles, "rts.PlayerAction", [count]), 0, buffer),
        handles.for_each(orders, _PAIR, handles.ignoring(row, 1, "rts.PlayerAction")),
    )
    return handles.interface("java.util.function.Consumer", write)


def _end_time(handles: Handles, action: Any) -> Any:
    """(UnitActionAssignment) -> int: when it is done."""
    total = handles.static("java.lang.Integer", "sum", "int", "int", "int")
    duration = handles.method(_ACTION, "ETA", "int", _UNIT)
    duration = handles.filtered(duration, 0, action, handles.field(_ASSIGNMENT, "unit", _UNIT))
    start = handles.field(_ASSIGNMENT, "time", "int")
    parts = handles.collected(handles.filtered(total, 0, start), 1, duration)
    return handles.reordered(parts, [0, 0, 0], _ASSIGNMENT)


def mask_writer(handles: Handles, unit_types: Any, masks: Any, attack_width: int) -> Any:
    """(GameState, int game, int skipped) -> void: ask the engine for the masks of units without an order.

    They go into the NDBuffer `masks` (games, height, width, choices), at the unit's cell. Resources and
    units of player `skipped` are left out.
    """
    valid = handles.static(
        _ACTION,
        "getValidActionBuffer",
        "void",
        _UNIT,
        _STATE,
        "rts.units.UnitTypeTable",
        "util.NDBuffer",
        "int",
        "int[]",
    )
    valid = handles.bind(valid, 2, unit_types, masks, attack_width)  # (Unit, GameState, int[])
    place = handles.methods.identity(handles.java_class("int[]"))
    place = place.asCollector(handles.java_class("int[]"), handles.jpype.JInt(3))
    coordinates = [handles.method(_UNIT, name, "int") for name in ("getY", "getX")]
    place = handles.filtered(place, 1, *coordinates)  # (int game, Unit, Unit) -> int[]
    types = (_UNIT, _STATE, "int", "int")  # (unit, state, game, skipped)
    write = handles.reordered(handles.collected(valid, 2, place), [0, 1, 2, 0, 0], *types)

    assignment_of = handles.method(_STATE, "getActionAssignment", _ASSIGNMENT, _UNIT)
    idle = handles.chain(assignment_of, handles.is_null(_ASSIGNMENT))
    write = handles.when(handles.reordered(idle, [1, 0], *types), write)
    player = handles.method(_UNIT, "getPlayer", "int")
    differs = handles.filtered(handles.differ(), 0, player)  # (Unit, int) -> boolean
    for other in (
        handles.reordered(differs, [0, 3], *types),
        handles.ignoring(handles.bind(differs, 1, -1), 1, *types[1:]),
    ):
        write = handles.when(other, write)
    units = handles.ignoring(handles.method(_STATE, "getUnits", "java.util.List"), 1, "int", "int")
    return handles.for_each(units, _UNIT, write)
