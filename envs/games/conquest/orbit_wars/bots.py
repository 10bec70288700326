"""The players that come with the published engine."""

from __future__ import annotations

import math

from .....ragged.compiled import compiled
from ....randomness import uniform
from ....vector.native_arrays import Words
from .maps import CENTER, ORBIT_LIMIT, distance
from .rules import OWNER, RADIUS, SHIPS, Boards, X, Y, launch, num_slots

#: Names of bots; their places are the numbers that kernels know them by.
BOTS = ("starter", "random")
_FEWEST = 20  # ships of a launch


@compiled
def play_bot(
    bot: int,
    boards: Boards,
    game: int,
    player: int,
    exponents: tuple[float, float],
    max_speed: float,
    state: Words,
) -> None:
    """Make the launches of `bot`.

    starter: each planet sends half of its ships to the nearest planet that doesn't circle and isn't the
    player's. random: each sends half of them anywhere.
    """
    two, one_and_a_half = exponents
    slots = num_slots(boards, game)
    for origin in range(slots):
        if boards.owned[game, origin, OWNER] != player:
            continue
        ships = boards.owned[game, origin, SHIPS] // 2
        heading = 2 * math.pi * uniform(state) if bot == 1 else 0.0
        if bot == 0:
            target = _nearest_static(boards, game, player, origin, two)
            if target < 0:
                continue
            start, end = boards.planets[game, origin], boards.planets[game, target]
            heading = math.atan2(end[Y] - start[Y], end[X] - start[X])
        if ships >= _FEWEST:
            launch(boards, game, player, origin, heading, ships, max_speed, one_and_a_half)


@compiled
def _nearest_static(boards: Boards, game: int, player: int, origin: int, two: float) -> int:
    nearest, least = -1, math.inf
    start = boards.planets[game, origin]
    for slot in range(num_slots(boards, game)):
        body = boards.planets[game, slot]
        orbit = distance(body[X], body[Y], CENTER, CENTER, two)
        if boards.owned[game, slot, OWNER] != player and orbit + body[RADIUS] >= ORBIT_LIMIT:
            away = distance(start[X], start[Y], body[X], body[Y], two)
            if away < least:
                nearest, least = slot, away
    return nearest
