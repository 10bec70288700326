"""Demon Attack: three rows of demons, the lowest of which shoots, and a cannon."""

from __future__ import annotations

from typing import Any

from ....ragged.compiled import compiled
from ..game import AtariGame, ObjectType, decimal, place

ROWS, BOMBS = 3, 8
PLAYER, SHOT, DEMON, HALF, DIVING_DEMON, BOMB = 0, 1, 2, 8, 14, 15
_BOMB_ROWS = 10
_APPEARS, _LIVES = 1, 2  # 3: it explodes
_PART = 24  # the figures of the parts of a demon follow this one


@compiled
def read(ram: Any, slots: Any, status: Any) -> None:
    for lane in range(len(ram)):
        m, objects = ram[lane], slots[lane]
        if m[63] & 16:  # else it explodes, and bombs are not drawn
            place(objects[PLAYER], _column(m[16]), 174, 7, 12)
            _bombs(m[37:47], _column(m[20]), 179 + 4 * (m[61] >> 2 & 1), 187 - m[71], objects[BOMB:])
        if m[21] > 3:  # else it is in the cannon
            place(objects[SHOT], _column(m[22]) + 2, (176 if m[21] >= 90 else 178) - m[21], 1, 8)
        for row in range(ROWS):
            left, right, top = _column(m[13 + row]), _column(m[17 + row]), 175 - m[69 + row]
            state, first, second = m[47 + row] >> 6, m[29 + row], m[33 + row]
            if state == _APPEARS and first > 0:  # the halves come from both sides
                place(objects[HALF + 2 * row], left, top, 32, 8)
                place(objects[HALF + 2 * row + 1], right, top, 32, 8)
            elif state == _LIVES and first <= _PART and second <= _PART:
                if first > 3:
                    place(objects[DEMON + 2 * row], left, top, 16, 8)
            elif state == _LIVES:  # split in two
                if first > _PART:
                    place(objects[DEMON + 2 * row], left, top, 8, 8)
                if second > _PART:
                    place(objects[DEMON + 2 * row + 1], right, top, 8, 8)
        if m[50] >> 6 == _LIVES:
            place(objects[DIVING_DEMON], _column(m[20]), 177 - m[72], 8, 8)
        if m[1] < 160:  # else the title is shown
            status[lane, 0] = 10000 * decimal(m[1]) + 100 * decimal(m[3]) + decimal(m[5])


@compiled
def _column(byte: int) -> int:
    """Return the column of a position as the console sets it: coarse steps of 15 and a fine motion."""
    fine = byte >> 4
    return (byte & 15) * 15 + (28 if fine > 7 else 12) - fine


@compiled
def _bombs(bits: Any, left: int, lowest: int, highest: int, slots: Any) -> None:
    """Place bombs: a byte for each eight lines, upwards from `lowest`, and a bit for each column."""
    number = 0
    for row in range(_BOMB_ROWS):
        top = lowest - 8 * row
        for column in range(8):
            if bits[row] >> (7 - column) & 1 and top > highest - 3 and number < BOMBS:
                place(slots[number], left + column, top, 1, 4)
                number += 1


GAME = AtariGame(
    "demon_attack",
    (
        ObjectType("Player"),
        ObjectType("Shot"),
        ObjectType("Demon", 2 * ROWS, sized=True),
        ObjectType("Half", 2 * ROWS, sized=True),
        ObjectType("DivingDemon"),
        ObjectType("Bomb", BOMBS, moves=False),
    ),
    {"score": 1000.0, "lives": 4.0},
    read,
)
