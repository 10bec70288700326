"""Ms. Pac-Man: pills in a maze, four power pills, ghosts and a fruit."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ragged.compiled import compiled
from ..game import FURTHER, AtariGame, Grid, ObjectType, decimal, place

GHOSTS, POWER_PILLS, ROWS, COLUMNS = 4, 4, 14, 18
PLAYER, GHOST, FRUIT, POWER_PILL, PILL = 0, 1, 5, 6, 10

#: Where pills can be in the four mazes, a bit for each column of a row.
_GRIDS = np.array(
    [
        [
            *(0b111101111111101111, 0b100101000000101001, 0b111111111111111111, 0b010100100001001010),
            *(0b110111111111111011, 0b010000100001000010, 0b011111100001111110, 0b010000100001000010),
            *(0b110111111111111011, 0b010101010010101010, 0b111101011110101111, 0b100101110011101001),
            *(0b100100010010001001, 0b111111111111111111),
        ],
        [
            *(0b111111111111111111, 0b100001000000100001, 0b110111011110111011, 0b010101010010101010),
            *(0b010101111111101010, 0b111100100001001111, 0b100111100001111001, 0b100100100001001001),
            *(0b100101111111101001, 0b111111000000111111, 0b001001011110100100, 0b111101110011101111),
            *(0b100101000000101001, 0b111101111111101111),
        ],
        [
            *(0b111111011110111111, 0b000101110011101000, 0b111101011110101111, 0b001001000000100100),
            *(0b111111111111111111, 0b100100100001001001, 0b101110100001011101, 0b101010100001010101),
            *(0b111011111111110111, 0b001001010010100100, 0b111111011110111111, 0b101001110011100101),
            *(0b001001010010100100, 0b111111011110111111),
        ],
        [
            *(0b111111111111111111, 0b001001000000100100, 0b101111011110111101, 0b100101010010101001),
            *(0b111101111111101111, 0b010100100001001010, 0b110111100001111011, 0b000100100001001000),
            *(0b110101111111101011, 0b010101010010101010, 0b111111011110111111, 0b101001000000100101),
            *(0b001001011110100100, 0b111111110011111111),
        ],
    ]
)
_MAZE = Grid((ROWS, COLUMNS), chunk=(7, 3), area=(8, 7, 144, 158))


@compiled
def read(ram: Any, slots: Any, status: Any) -> None:
    for lane in range(len(ram)):
        m, objects = ram[lane], slots[lane]
        place(objects[PLAYER], m[10] - 12, m[16] + 1, 8, 10)
        heading = m[56] & 3  # up, right, down, left
        objects[PLAYER, FURTHER] = (heading == 1) - (heading == 3)
        objects[PLAYER, FURTHER + 1] = (heading == 2) - (heading == 0)
        for ghost in range(min(m[19], 3) + 1):
            place(objects[GHOST + ghost], m[6 + ghost] - 12, m[12 + ghost] + 1, 8, 10)
            objects[GHOST + ghost, FURTHER] = m[1 + ghost] >> 7 & 1
        if m[11] > 0 and m[17] > 0:
            place(objects[FRUIT], m[11] - 12, m[17] + 1, 8, 10)
        for pill in range(POWER_PILLS):
            if m[117] >> (2 + pill) & 1:
                place(objects[POWER_PILL + pill], 148 if pill < 2 else 8, 15 if pill % 2 else 147, 4, 7)
        _pills(m[59:101], _GRIDS[min(m[0], 3)], objects[PILL:])
        status[lane, 0] = 10000 * decimal(m[122]) + 100 * decimal(m[121]) + decimal(m[120])


@compiled
def _pills(bits: Any, grid: Any, slots: Any) -> None:
    """Place the pills (4, 2): three bytes for each row, with the columns out of order.

    Bits that belong to no place in the maze are set as well.
    """
    for row in range(ROWS):
        ends, left, right = bits[3 * row], bits[3 * row + 1], bits[3 * row + 2]
        for column in range(COLUMNS):
            if column == 0:
                byte, bit = ends, 6
            elif column <= 4:
                byte, bit = left, 2 * (4 - column) + 1
            elif column <= 8:
                byte, bit = right, 2 * (column - 5)
            elif column <= 12:
                byte, bit = left, 2 * (12 - column)
            elif column <= 16:
                byte, bit = right, 2 * (column - 13) + 1
            else:
                byte, bit = ends, 4
            if byte >> bit & 1 and grid[row] >> (COLUMNS - 1 - column) & 1:
                left_edge = 8 + 8 * column + (4 if column > 8 else 0)
                place(slots[COLUMNS * row + column], left_edge, 7 + 12 * row, 4, 2)


GAME = AtariGame(
    "ms_pacman",
    (
        ObjectType("Player", features=("direction_x", "direction_y")),
        ObjectType("Ghost", GHOSTS, ("edible",)),
        ObjectType("Fruit"),
        ObjectType("PowerPill", POWER_PILLS, moves=False),
        ObjectType("Pill", ROWS * COLUMNS, moves=False, grid=_MAZE),
    ),
    {"score": 1000.0, "lives": 3.0},
    read,
)
