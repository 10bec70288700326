"""Kangaroo: a kangaroo climbs to her child, past monkeys that throw coconuts."""

from __future__ import annotations

from typing import Any

from ....ragged.compiled import compiled
from ..game import FURTHER, AtariGame, ObjectType, decimal, place

MONKEYS, FRUITS, THROWN = 4, 3, 3
PLAYER, CHILD, BELL, FRUIT, MONKEY, COCONUT, FALLING = 0, 1, 2, 3, 6, 10, 13
_ABSENT = 255


@compiled
def read(ram: Any, slots: Any, status: Any) -> None:
    for lane in range(len(ram)):
        m, objects = ram[lane], slots[lane]
        if m[16] < 22:  # else she has fallen below the lowest floor
            _player(objects[PLAYER], m[17], 8 * m[16] + 4, m[18])
        place(objects[CHILD], m[83] + 15, 12, 8, 15)
        place(objects[BELL], m[82] + 16, 36, 6, 11)
        # The bell is the first in the lists of places (from 84 and 89 on), or not among them.
        row, column = 84 + (m[86] != m[87]), 89 + (m[91] != m[92])
        for fruit in range(FRUITS):
            if m[42 + fruit] < 128:
                place(objects[FRUIT + fruit], m[column + fruit] + 15, 8 * m[row + fruit] + 4, 8, 11)
        for monkey in range(MONKEYS):
            if m[11 - monkey] not in (127, _ABSENT):
                place(objects[MONKEY + monkey], m[15 - monkey] + 15, 8 * m[11 - monkey] + 5, 8, 15)
        for coconut in range(THROWN):
            if m[25 + coconut] != _ABSENT:
                place(objects[COCONUT + coconut], m[28 + coconut] + 15, 8 * m[25 + coconut] + 1, 2, 3)
        if m[33] != _ABSENT:
            place(objects[FALLING], m[34] + 14, 8 * (m[33] - 22 * m[36]) + 9, 2, 3)
        status[lane, 0] = 10000 * decimal(m[39]) + 100 * decimal(m[40])
        status[lane, 2], status[lane, 3] = 100 * decimal(m[59]), m[36]


@compiled
def _player(slot: Any, x: int, top: int, pose: int) -> None:
    """Place the kangaroo: she stands, ducks (16 to 31), jumps, or punches with an arm (from 128 on)."""
    looks_right = pose & 8 > 0
    if pose >= 128:
        place(slot, x + 15 if looks_right else x + 13, top, 10, 24)
    else:
        place(slot, x + 15, top, 8, 16 if pose >> 4 == 1 else 14 if pose & 66 == 66 else 24)
    slot[FURTHER] = 1 if looks_right else -1


GAME = AtariGame(
    "kangaroo",
    (
        ObjectType("Player", features=("direction",), sized=True),
        ObjectType("Child"),
        ObjectType("Bell"),
        ObjectType("Fruit", FRUITS, moves=False),
        ObjectType("Monkey", MONKEYS),
        ObjectType("Coconut", THROWN),
        ObjectType("FallingCoconut"),
    ),
    {"score": 1000.0, "lives": 3.0, "time": 1000.0, "level": 1.0},
    read,
)
