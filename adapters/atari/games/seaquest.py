"""Seaquest: a submarine that shoots sharks and submarines and takes divers to the surface."""

from __future__ import annotations

from typing import Any

from ....ragged.compiled import compiled
from ..game import FURTHER, WIDTH, AtariGame, ObjectType, cut, decimal, place

#: Four lanes under water, from below, with three enemies each.
LANES, IN_LANE = 4, 3
PLAYER, TORPEDO, SHARK, SUBMARINE, DIVER, MISSILE, PATROL = 0, 1, 2, 14, 26, 30, 34


@compiled
def read(ram: Any, slots: Any, status: Any) -> None:
    for e in range(len(ram)):
        m, objects = ram[e], slots[e]
        if m[105] == 0:  # else it explodes
            place(objects[PLAYER], m[70], m[97] + 33, 16, 11)
            objects[PLAYER, FURTHER] = 1 if m[86] == 0 else -1
        if 0 < m[103] < 160:
            place(objects[TORPEDO], m[103], m[97] + 40, 8, 1)
        for lane in range(LANES):
            is_submarine = 3 < m[89 + lane] % 8 < 7
            for place_in_lane in range(IN_LANE):
                left = (m[30 + lane] + 16 * place_in_lane) % 256
                if m[36 + lane] >> (2 - place_in_lane) & 1:
                    number = IN_LANE * lane + place_in_lane
                    if is_submarine:
                        place(objects[SUBMARINE + number], left, 140 - 24 * lane, 8, 11)
                    else:
                        place(objects[SHARK + number], left, 137 - 24 * lane + m[93], 8, 7)
            if 0 < m[71 + lane] < 160:
                if is_submarine:
                    place(objects[MISSILE + lane], m[71 + lane] + 2, 145 - 24 * lane, 6, 4)
                else:
                    place(objects[DIVER + lane], m[71 + lane], 137 - 24 * lane, 8, 13)
        if 0 < m[118] < 160:
            place(objects[PATROL], m[118], 46, 8, 7)
        for slot in objects:
            if slot[WIDTH] > 0:
                cut(slot, 8, 0, 160, 210)  # the border at the left hides what is behind
        status[e, 0] = 10000 * decimal(m[56]) + 100 * decimal(m[57]) + decimal(m[58])
        status[e, 2], status[e, 3] = m[102], m[62]


GAME = AtariGame(
    "seaquest",
    (
        ObjectType("Player", features=("direction",)),
        ObjectType("Torpedo"),
        ObjectType("Shark", LANES * IN_LANE),
        ObjectType("Submarine", LANES * IN_LANE),
        ObjectType("Diver", LANES),
        ObjectType("Missile", LANES),
        ObjectType("Patrol"),
    ),
    {"score": 100.0, "lives": 4.0, "oxygen": 64.0, "divers": 6.0},
    read,
)
