"""Space Invaders: 36 invaders, three shields, a cannon and shots."""

from __future__ import annotations

from typing import Any

from ....ragged.compiled import compiled
from ..game import FURTHER, AtariGame, ObjectType, decimal, place

ROWS, COLUMNS, SHIELDS = 6, 6, 3
PLAYER, SHOT, INVADER, BOMB, SHIELD, SAUCER = 0, 1, 2, 38, 40, 43


@compiled
def read(ram: Any, slots: Any, status: Any) -> None:
    for lane in range(len(ram)):
        m, objects = ram[lane], slots[lane]
        place(objects[PLAYER], m[28] - 1, 185, 7, 10)
        for row in range(ROWS):
            for column in range(COLUMNS):
                if m[18 + row] >> column & 1:
                    invader = objects[INVADER + COLUMNS * row + column]
                    place(invader, m[26] - 1 + 16 * column, 121 + 2 * m[16] - 18 * row, 8, 10)
                    invader[FURTHER] = row
        for bomb in range(2):
            if 8 < m[81 + bomb] < 96:
                place(objects[BOMB + bomb], m[83 + bomb] - 2, 2 * m[81 + bomb] + 5, 1, 8)
        if 8 < m[85] < 96:
            place(objects[SHOT], m[87] - 2, 2 * m[85] + 5, 1, 8)
        for shield in range(SHIELDS):
            _shield(m[43 + 9 * shield : 52 + 9 * shield], objects[SHIELD + shield], m[27] - 1 + 32 * shield)
        if m[30] not in (0, 180):
            place(objects[SAUCER], m[30] - 1, 12, 7, 8)
        status[lane, 0] = 100 * decimal(m[102]) + decimal(m[104])


@compiled
def _shield(rows: Any, slot: Any, left: int) -> None:
    """Place what is left of a shield; a byte is two lines."""
    first, last = 9, -1
    for row in range(9):
        if rows[row]:
            first, last = min(first, row), row
    if last >= 0:
        place(slot, left, 157 + 2 * first, 8, 2 * (last - first + 1))


GAME = AtariGame(
    "space_invaders",
    (
        ObjectType("Player"),
        ObjectType("Shot"),
        # Where the columns at the left are gone, those at the right take their slots, 16 pixels away.
        ObjectType("Invader", ROWS * COLUMNS, ("row",), farthest=15.0),
        ObjectType("Bomb", 2),
        ObjectType("Shield", SHIELDS, sized=True, moves=False),  # in odd modes they do: no velocity then
        ObjectType("Saucer"),
    ),
    {"score": 100.0, "lives": 3.0},
    read,
)
