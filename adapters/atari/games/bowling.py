"""Bowling: a bowler, a ball and ten pins."""

from __future__ import annotations

from typing import Any

from ....ragged.compiled import compiled
from ..game import AtariGame, ObjectType, decimal, place

PLAYER, BALL, PIN = range(3)
PINS = 10


@compiled
def read(ram: Any, slots: Any, status: Any) -> None:
    for lane in range(len(ram)):
        m, objects = ram[lane], slots[lane]
        place(objects[PLAYER], m[29] + 8, 141 - 2 * m[40], 8, 32)
        place(objects[BALL], m[30] + 7, 163 - 2 * m[41], 4, 10)
        for pin in range(PINS):
            if m[57 + pin] <= 63:
                place(objects[PIN + pin], 135 - 2 * m[57 + pin], 169 - 2 * m[47 + pin], 2, 4)
        status[lane, 0], status[lane, 1] = 100 * m[38] + decimal(m[33]), decimal(m[36])


GAME = AtariGame(
    "bowling",
    (ObjectType("Player"), ObjectType("Ball"), ObjectType("Pin", PINS)),
    {"score": 100.0, "round": 10.0},
    read,
)
