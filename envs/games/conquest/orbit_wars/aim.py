"""Positions of planets in the future, and headings of fleets that are to meet them.

Functions that kernels call for each planet take the rows that they need: to hand over all boards costs more
than what they compute.
"""

from __future__ import annotations

import math

from .....ragged.compiled import compiled
from ....vector.native_arrays import Doubles
from .maps import CENTER, SUN_RADIUS, mirrored
from .rules import ANGLE, ORBIT, RADIUS, Boards, X, Y, distance_to_segment

_CLOSE = 1e-3  # ticks
_ROUNDS = 8  # of looking where the target will be after the time that the last round found


@compiled
def planet_after(body: Doubles, velocity: float, tick: int, ticks: float) -> tuple[float, float]:
    """Return where a planet, a row of `Boards.planets`, is `ticks` (a whole number or not) after `tick`."""
    if body[ORBIT] == 0.0:
        return body[X], body[Y]
    angle = body[ANGLE] + velocity * max(tick - 1 + ticks, 0.0)
    return CENTER + body[ORBIT] * math.cos(angle), CENTER + body[ORBIT] * math.sin(angle)


@compiled
def comet_after(path: Doubles, length: int, age: int, copy: int, ticks: float) -> tuple[float, float, bool]:
    """Return where a comet is after `ticks`, and whether it is still there."""
    place = min(age + ticks, length - 1.0)
    before = int(place)
    after = min(before + 1, length - 1)
    share = place - before
    x = path[before, 0] + share * (path[after, 0] - path[before, 0])
    y = path[before, 1] + share * (path[after, 1] - path[before, 1])
    x, y = mirrored(copy, x, y)
    return x, y, age + ticks <= length - 1.0


@compiled
def aim(boards: Boards, game: int, origin: int, target: int, speed: float) -> tuple[float, bool]:
    """Return the heading from a planet to where a fleet of this speed meets the target.

    The second is False where it can't be reached: the way leads through the sun, or it is gone by then.
    """
    start, body = boards.planets[game, origin], boards.planets[game, target]
    velocity, tick, group = boards.velocities[game], boards.ticks[game], boards.comet_groups[game]
    copy = target - boards.planet_counts[game]
    reach = start[RADIUS] + 0.1 + body[RADIUS]
    x, y = body[X], body[Y]
    ticks = -1.0
    for _ in range(_ROUNDS):
        before, ticks = ticks, max(0.0, (math.hypot(x - start[X], y - start[Y]) - reach) / speed)
        if abs(ticks - before) < _CLOSE:
            break
        if copy < 0:
            x, y = planet_after(body, velocity, tick, ticks)
        else:
            path, length = boards.paths[game, group], boards.path_lengths[game, group]
            x, y, is_there = comet_after(path, length, boards.comet_ages[game], copy, ticks)
            if not is_there:
                return 0.0, False
    heading = math.atan2(y - start[Y], x - start[X])
    distance = distance_to_segment(CENTER, CENTER, start[X], start[Y], x, y, 2.0)
    return heading, distance >= SUN_RADIUS
