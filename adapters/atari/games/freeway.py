"""Freeway: two chickens, and cars on the ten lanes of the road."""

from __future__ import annotations

from typing import Any

from ....ragged.compiled import compiled
from ..game import AtariGame, ObjectType, cut, decimal, place

PLAYER, OPPONENT, CAR = range(3)
LANES = 10
#: By the video chip's way to draw an object (its register NUSIZ): how many, and pixels between them.
COPIES, DISTANCES = (1, 2, 2, 3, 2, 1, 3, 1), (0, 16, 32, 16, 64, 0, 32, 0)


@compiled
def read(ram: Any, slots: Any, status: Any) -> None:
    for lane in range(len(ram)):
        m, objects = ram[lane], slots[lane]
        place(objects[PLAYER], 44, 193 - m[14], 6, 8)
        place(objects[OPPONENT], 108, 193 - m[15], 6, 8)
        for road in range(LANES):
            drawn = m[32 - road] & 7  # how the chip repeats or stretches the car
            width, nudge = (16, 1) if drawn == 5 else (8, 0)
            for copy in range(COPIES[drawn]):
                car = objects[CAR + 3 * road + copy]
                left = (m[117 - road] + 157 + nudge + DISTANCES[drawn] * copy) % 160
                if left + width / 2 > 164:  # more of it is to be seen at the other side
                    left -= 160
                place(car, left, 27 + 16 * road, width, 10)
                cut(car, 8, 0, 160, 210)  # they come and go behind the left border
        status[lane, 0] = decimal(m[103])


GAME = AtariGame(
    "freeway",
    (ObjectType("Player"), ObjectType("Opponent"), ObjectType("Car", 3 * LANES, sized=True)),
    {"score": 10.0},
    read,
)
