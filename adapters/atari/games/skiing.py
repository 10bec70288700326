"""Skiing: a skier, and gates, moguls and trees on the slope."""

from __future__ import annotations

from typing import Any

from ....ragged.compiled import compiled
from ..game import FURTHER, AtariGame, ObjectType, cut, decimal, place

#: Places in the memory, each for a gate of two flags, a mogul or a tree.
PLACES = 8
PLAYER, FLAG, MOGUL, TREE = 0, 1, 17, 25
_IS_FLAG, _IS_MOGUL, _IS_TREE = 2, 5, 85


@compiled
def read(ram: Any, slots: Any, status: Any) -> None:
    for lane in range(len(ram)):
        m, objects = ram[lane], slots[lane]
        place(objects[PLAYER], m[25] + 1, m[26] - 80, 8, 18)
        objects[PLAYER, FURTHER] = (m[15] % 64 - 8) / 8  # the direction of the skis; 64 more after a fall
        for number in range(PLACES):
            # The topmost place is dropped once it has left the screen, and all others move up by one.
            slot = (number - m[16]) % PLACES
            height, left, top = m[54 + number], m[62 + number], 178 - m[86 + number]
            kind = m[70 + number]
            if not 0 < height < 255 or not 0 <= top <= 177:
                continue
            if kind == _IS_TREE:
                left -= 3
                place(objects[TREE + slot], left if left < 152 else left - 160, top + 3, 16, height)
                cut(objects[TREE + slot], 8, 28, 152, 178)
            elif kind == _IS_MOGUL:
                place(objects[MOGUL + slot], left + 2, top + 3, 16, min(height, 7))
                cut(objects[MOGUL + slot], 8, 28, 152, 178)
            elif kind == _IS_FLAG:
                for pole in range(2):
                    flag = objects[FLAG + 2 * slot + pole]
                    place(flag, left + 1 + 32 * pole, top + 4, 5, min(height, 14))
                    cut(flag, 8, 28, 152, 178)
        status[lane, 0] = decimal(m[107])
        status[lane, 1] = 60 * decimal(m[104]) + decimal(m[105]) + decimal(m[106]) / 100


GAME = AtariGame(
    "skiing",
    (
        ObjectType("Player", features=("direction",)),
        ObjectType("Flag", 2 * PLACES, sized=True),
        ObjectType("Mogul", PLACES, sized=True),
        ObjectType("Tree", PLACES, sized=True),
    ),
    {"gates": 20.0, "time": 60.0},
    read,
)
