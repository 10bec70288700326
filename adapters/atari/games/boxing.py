"""Boxing: two boxers in a ring."""

from __future__ import annotations

from typing import Any

from ....ragged.compiled import compiled
from ..game import FURTHER, AtariGame, ObjectType, decimal, place

PLAYER, ENEMY = range(2)
_KNOCK_OUT = 0xC0  # in place of points: 100, which end the game


@compiled
def read(ram: Any, slots: Any, status: Any) -> None:
    for lane in range(len(ram)):
        m, objects = ram[lane], slots[lane]
        faces_right = m[32] <= m[33]
        _boxer(objects[PLAYER], m[32] + 5, m[34] + 38, m[55], m[57], faces_right)
        _boxer(objects[ENEMY], m[33] + 3, m[35] + 38, m[61], m[59], not faces_right)
        status[lane, 0], status[lane, 1] = _points(m[18]), _points(m[19])


@compiled
def _points(byte: int) -> int:
    return 100 if byte == _KNOCK_OUT else decimal(byte)


@compiled
def _boxer(slot: Any, left: int, top: int, left_arm: int, right_arm: int, faces_right: bool) -> None:
    """Place a boxer, whose arms reach out of the body (14, 46) from two thirds of their length on."""
    arm = max(left_arm, right_arm)
    reach = 16 if arm > 62 else 8 if arm > 46 else 0
    place(slot, left if faces_right else left - reach, top, 14 + reach, 46)
    slot[FURTHER], slot[FURTHER + 1] = left_arm / 72, right_arm / 72


GAME = AtariGame(
    "boxing",
    (
        ObjectType("Player", features=("left_arm", "right_arm"), sized=True),
        ObjectType("Enemy", features=("left_arm", "right_arm"), sized=True),
    ),
    {"score": 100.0, "enemy_score": 100.0},
    read,
)
