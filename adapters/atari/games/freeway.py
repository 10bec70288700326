"""Freeway: two chickens and ten cars, one on each lane of the road."""

from __future__ import annotations

from typing import Any

from ....ragged.compiled import compiled
from ..game import AtariGame, ObjectType, cut, decimal, place

PLAYER, OPPONENT, CAR = range(3)
CARS = 10


@compiled
def read(ram: Any, slots: Any, status: Any) -> None:
    for lane in range(len(ram)):
        m, objects = ram[lane], slots[lane]
        place(objects[PLAYER], 44, 193 - m[14], 6, 8)
        place(objects[OPPONENT], 108, 193 - m[15], 6, 8)
        for car in range(CARS):
            place(objects[CAR + car], (m[117 - car] + 157) % 160, 27 + 16 * car, 8, 10)
            cut(objects[CAR + car], 8, 0, 160, 210)  # they come and go behind the left border
        status[lane, 0] = decimal(m[103])


GAME = AtariGame(
    "freeway",
    (ObjectType("Player"), ObjectType("Opponent"), ObjectType("Car", CARS, sized=True)),
    {"score": 10.0},
    read,
)
