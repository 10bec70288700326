"""Tennis: two players, the ball and its shadow."""

from __future__ import annotations

from typing import Any

from ....ragged.compiled import compiled
from ..game import AtariGame, ObjectType, place

PLAYER, ENEMY, BALL, SHADOW = range(4)


@compiled
def read(ram: Any, slots: Any, status: Any) -> None:
    for lane in range(len(ram)):
        m, objects = ram[lane], slots[lane]
        below = m[80]  # 1: the player is on the lower half
        # The racket is to the right, or where the player looks the other way to the left.
        place(objects[PLAYER], m[26 + below] - 2 + 4 * (m[56 + below] > 0), 166 - m[24 + below], 12, 23)
        place(objects[ENEMY], m[27 - below] - 2 + 4 * (m[57 - below] > 0), 166 - m[25 - below], 12, 23)
        if m[16] > 2:
            _ball(objects[BALL], m[16] - 2, 190 - m[54])
            if m[55] != m[54]:
                _ball(objects[SHADOW], m[16] - 2, 190 - m[55])
        status[lane, 0], status[lane, 1] = m[69], m[70]


@compiled
def _ball(slot: Any, left: int, top: int) -> None:
    """Place the ball or its shadow, which the net hides."""
    if top < 100:
        place(slot, left, top - 1, 2, min(2, 100 - top))
    elif top >= 113:
        place(slot, left, top, 2, 2)


GAME = AtariGame(
    "tennis",
    (ObjectType("Player"), ObjectType("Enemy"), ObjectType("Ball"), ObjectType("Shadow")),
    {"points": 4.0, "enemy_points": 4.0},
    read,
)
