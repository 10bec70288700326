"""Asterix: eight lanes in which things to eat, lyres (enemies) and bonus points pass."""

from __future__ import annotations

from typing import Any

from ....ragged.compiled import compiled
from ..game import AtariGame, ObjectType, decimal, place

LANES = 8
PLAYER, FOOD, ENEMY, BONUS = 0, 1, 9, 17


@compiled
def read(ram: Any, slots: Any, status: Any) -> None:
    for e in range(len(ram)):
        m, objects = ram[e], slots[e]
        place(objects[PLAYER], m[41], 26 + 16 * m[39], 8 if m[71] < 82 else 16, 11)  # wide: struck
        for lane in range(LANES):
            left, top = m[42 + lane], 26 + 16 * lane
            if m[18 - lane] != 11:
                if m[73 + lane]:
                    place(objects[BONUS + lane], left, top, 6, 11)
                elif m[29 + lane] % 2:
                    place(objects[ENEMY + lane], left, top, 8, 11)
                else:
                    place(objects[FOOD + lane], left + 1, top + 1, 7, 10)
        status[e, 0] = 10000 * decimal(m[94]) + 100 * decimal(m[95]) + decimal(m[96])


GAME = AtariGame(
    "asterix",
    (
        ObjectType("Player", sized=True),
        ObjectType("Food", LANES),
        ObjectType("Enemy", LANES),
        ObjectType("Bonus", LANES),
    ),
    {"score": 1000.0, "lives": 3.0},
    read,
)
