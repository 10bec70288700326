"""Ice Hockey: two teams of two players, and a puck."""

from __future__ import annotations

from typing import Any

from ....ragged.compiled import compiled
from ..game import FURTHER, AtariGame, ObjectType, decimal, place

PLAYERS = 2
PLAYER, ENEMY, PUCK = 0, 2, 4


@compiled
def read(ram: Any, slots: Any, status: Any) -> None:
    for lane in range(len(ram)):
        m, objects = ram[lane], slots[lane]
        for half in range(PLAYERS):  # of the rink: above, below
            _skater(objects[PLAYER + half], m[57 + 2 * half], m[53 + 2 * half], m[61 + 2 * half])
            _skater(objects[ENEMY + half], m[58 + 2 * half], m[54 + 2 * half], m[62 + 2 * half])
        place(objects[PUCK], m[52] - 10, 188 - m[91], 2, 2)
        status[lane, 0], status[lane, 1] = decimal(m[10]), decimal(m[11])
        status[lane, 2] = 60 * m[7] + decimal(m[6])


@compiled
def _skater(slot: Any, x: int, y: int, looks_left: int) -> None:
    """Place the body of a skater, without the stick."""
    place(slot, x - 9, 169 - y, 8, 20)
    slot[FURTHER] = -1 if looks_left else 1


GAME = AtariGame(
    "ice_hockey",
    (
        ObjectType("Player", PLAYERS, ("direction",)),
        ObjectType("Enemy", PLAYERS, ("direction",)),
        ObjectType("Puck"),
    ),
    {"score": 10.0, "enemy_score": 10.0, "time": 180.0},
    read,
)
