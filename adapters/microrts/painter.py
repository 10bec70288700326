"""Pictures of games, drawn from their units: the engine's own drawing needs fonts or a screen."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .java.maps import Map
from .java.records import ACTIONS, UNIT, UNIT_TYPES

#: Pixels per side of a cell.
CELL = 24

_Color = tuple[int, int, int]
_GROUND: _Color = (30, 32, 38)
_GRID: _Color = (44, 47, 55)
_WALL: _Color = (96, 84, 72)
_RESOURCE: _Color = (70, 170, 80)
_CARRIED: _Color = (120, 230, 120)
_ORDER: _Color = (235, 235, 235)
_OWNERS: dict[int, _Color] = {0: (70, 130, 255), 1: (255, 80, 70)}
#: Type -> colour of its inside; buildings are squares, units discs.
_INSIDES: dict[str, _Color] = {
    "base": (225, 225, 225),
    "barracks": (150, 150, 150),
    "worker": (110, 115, 125),
    "light": (255, 165, 60),
    "heavy": (245, 225, 70),
    "ranged": (90, 220, 235),
}
#: Steps in x and y of the engine's directions.
_STEPS = ((0, -1), (1, 0), (0, 1), (-1, 0))

_PLAYER, _TYPE, _X, _Y, _CARRIES, _DOES, _DIRECTION, _TARGET_X, _TARGET_Y = (
    UNIT.index(name)
    for name in ("player", "type", "x", "y", "resources", "action", "direction", "target_x", "target_y")
)


def paint(board: Map, units: NDArray[np.int32]) -> NDArray[np.uint8]:
    """A picture (height * CELL, width * CELL, 3) of a game.

    Player 0 is blue, player 1 red; a line points to the cell that a unit's action is about, and a green
    square is what a worker carries.

    Args:
        board: the map.
        units: the units' records (n, len(UNIT)).
    """
    picture = np.empty((board.height * CELL, board.width * CELL, 3), np.uint8)
    picture[:] = _GROUND
    picture[::CELL] = _GRID
    picture[:, ::CELL] = _GRID
    for x, y in board.walls.tolist():
        picture[y * CELL : (y + 1) * CELL, x * CELL : (x + 1) * CELL] = _WALL
    for unit in units.tolist():
        _paint_unit(picture[unit[_Y] * CELL :, unit[_X] * CELL :][:CELL, :CELL], unit)
    for unit in units.tolist():
        _paint_order(picture, unit)
    return picture


def _paint_unit(cell: NDArray[np.uint8], unit: list[int]) -> None:
    name = UNIT_TYPES[unit[_TYPE]]
    if name == "resource":
        size = 4 + min(unit[_CARRIES], 25) * (CELL // 2 - 6) // 25  # half a side
        cell[CELL // 2 - size : CELL // 2 + size, CELL // 2 - size : CELL // 2 + size] = _RESOURCE
        return
    away = np.abs(np.arange(CELL) - (CELL - 1) / 2)
    is_building = name in ("base", "barracks")
    distance = np.maximum.outer(away, away) if is_building else np.hypot.outer(away, away)
    cell[distance < CELL / 2 - 2] = _OWNERS[unit[_PLAYER]]
    cell[distance < CELL / 2 - 5] = _INSIDES[name]
    if unit[_CARRIES]:
        cell[CELL // 2 - 2 : CELL // 2 + 3, CELL // 2 - 2 : CELL // 2 + 3] = _CARRIED


def _paint_order(picture: NDArray[np.uint8], unit: list[int]) -> None:
    """A line from the unit towards what its action is about."""
    action = ACTIONS[unit[_DOES]] if unit[_DOES] > 0 else "none"
    if action == "none":
        return
    if action == "attack":
        step_x, step_y = unit[_TARGET_X] - unit[_X], unit[_TARGET_Y] - unit[_Y]
        color = _OWNERS[unit[_PLAYER]]
    else:
        (step_x, step_y), color = _STEPS[unit[_DIRECTION]], _ORDER
    along = np.linspace(0.0, 1.0 if action == "attack" else 0.6, CELL * 4)
    rows = ((unit[_Y] + 0.5 + step_y * along) * CELL).astype(int)
    columns = ((unit[_X] + 0.5 + step_x * along) * CELL).astype(int)
    picture[rows, columns] = color
