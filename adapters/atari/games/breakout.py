"""Breakout: a paddle, a ball and 108 bricks."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ragged.compiled import compiled
from ..game import FURTHER, AtariGame, Grid, ObjectType, cut, decimal, place

PLAYER, BALL, BRICK = range(3)
ROWS, COLUMNS = 6, 18
#: Byte (times 6, plus the row from below) and bit of each column of bricks.
_BYTE = np.array([5, 4, 4, 4, 4, 3, 3, 3, 3, 2, 2, 1, 1, 1, 1, 0, 0, 0])
_BIT = np.array([6, 6, 4, 2, 0, 0, 2, 4, 6, 4, 6, 6, 4, 2, 0, 0, 2, 4])
_WALL = Grid((ROWS, COLUMNS), chunk=(6, 3), area=(8, 57, 144, 36))


@compiled
def read(ram: Any, slots: Any, status: Any) -> None:
    for lane in range(len(ram)):
        m, objects = ram[lane], slots[lane]
        place(objects[PLAYER], m[72] - 47, 189, 16, 4)
        cut(objects[PLAYER], 8, 0, 152, 210)  # between the walls
        if 0 < m[101] <= 187:
            place(objects[BALL], m[99] - 49, m[101] + 9, 2, 4)
        for row in range(ROWS):
            for column in range(COLUMNS):
                if m[6 * _BYTE[column] + 5 - row] >> _BIT[column] & 1:
                    brick = objects[BRICK + COLUMNS * row + column]
                    place(brick, 8 + 8 * column, 57 + 6 * row, 8, 6)
                    brick[FURTHER] = row
        status[lane, 0] = 100 * (m[76] & 15) + decimal(m[77])


GAME = AtariGame(
    "breakout",
    (
        ObjectType("Player", sized=True),
        ObjectType("Ball"),
        ObjectType("Brick", ROWS * COLUMNS, ("row",), moves=False, grid=_WALL),
    ),
    {"score": 100.0, "lives": 5.0},
    read,
)
