"""Pong: two paddles and a ball."""

from __future__ import annotations

from typing import Any

from ....ragged.compiled import compiled
from ..game import AtariGame, ObjectType, cut, place

PLAYER, ENEMY, BALL = range(3)


@compiled
def read(ram: Any, slots: Any, status: Any) -> None:
    for lane in range(len(ram)):
        m, objects = ram[lane], slots[lane]
        place(objects[PLAYER], 140, m[51] - 13, 4, 15)
        place(objects[ENEMY], 16, m[50] - 15, 4, 16)
        if m[54] != 0 and m[49] > 49:
            place(objects[BALL], m[49] - 49, m[54] - 14, 2, 4)
        for slot in objects:
            cut(slot, 0, 34, 160, 194)  # between the walls
        status[lane, 0], status[lane, 1] = m[14], m[13]


GAME = AtariGame(
    "pong",
    (ObjectType("Player", sized=True), ObjectType("Enemy", sized=True), ObjectType("Ball")),
    {"score": 21.0, "enemy_score": 21.0},
    read,
)
