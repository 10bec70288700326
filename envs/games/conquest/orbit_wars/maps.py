"""The maps of Orbit Wars: planets and comets from a seed, equal to those of the published engine.

The kernels compute each number by the operations of the engine, in its order: a difference in the last bit
would place a planet, and then all later ones, somewhere else. Python's `x ** 2` is the C library's pow, which
differs from x * x in one of a thousand cases; a compiler replaces pow(x, 2.0) by x * x where it sees the 2.
So the exponent is an argument, `two`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .....ragged.compiled import compiled
from ....vector.native_arrays import Doubles, Ints, Words
from ..python_random import randint, seeded, uniform

BOARD_SIZE = 100.0
CENTER = 50.0
SUN_RADIUS = 10.0
#: A planet circles around the sun if its centre's distance and its radius together are less.
ORBIT_LIMIT = 50.0
COMET_RADIUS = 1.0
COMET_PRODUCTION = 1
COMETS_PER_GROUP = 4
#: The ticks at which comets appear; counted from 1.
COMET_TICKS = (50, 150, 250, 350, 450)
#: Positions of a comet at most.
MAX_PATH = 40
#: Planets at most, comets not counted. The engine makes up to ten groups of four, and more only until one of
#: them circles; there is no room for as many as this.
MAX_PLANETS = 60

_CLEARANCE = 7
_MIN_STATIC_GROUPS = 3
_MAX_ATTEMPTS = 5000
_COMET_ATTEMPTS = 300
_DENSE = 5000
_NEAR = 1e-9

_TIMES = [0.3 * math.pi + 1.4 * math.pi * i / (_DENSE - 1) for i in range(_DENSE)]
#: The angles at which a comet's ellipse is sampled: cosine and sine (2, 5000).
_CIRCLE = np.array([[math.cos(t) for t in _TIMES], [math.sin(t) for t in _TIMES]])
#: Every fiftieth of these points shows where a comet flies to within this distance.
_COARSE_CIRCLE, _COARSE_ERROR = np.ascontiguousarray(_CIRCLE[:, ::50]), 0.5
#: Points of the ellipse whose lengths are added up at once.
_BLOCK = 8


class StarMap(NamedTuple):
    """The map of a game; a player's home belongs to the planets of group `home`."""

    angular_velocity: float  # radians per tick
    bodies: Doubles  # (N, 3): x, y, radius
    contents: Ints  # (N, 2): ships, production
    home: int
    paths: Doubles  # (5, 40, 2): x, y of each group's comet at each of its ticks, before mirroring
    path_lengths: Ints  # (5,): 0: no comets
    comet_ships: Ints  # (5,)


def make_map(seed: int, comet_speed: float) -> StarMap:
    """Return the map that the engine makes of `seed`."""
    words = seeded(seed)
    angular_velocity = uniform(words, 0.025, 0.05)
    bodies, contents = np.empty((MAX_PLANETS, 3)), np.empty((MAX_PLANETS, 2), np.int64)
    count = place_planets(words, 2.0, bodies, contents)
    home = randint(words, 0, count // 4 - 1)
    paths, lengths = np.zeros((len(COMET_TICKS), MAX_PATH, 2)), np.zeros(len(COMET_TICKS), np.int64)
    ships = np.zeros(len(COMET_TICKS), np.int64)
    for group, tick in enumerate(COMET_TICKS):
        words = seeded(f"orbit_wars-comet-{seed}-{tick}")
        lengths[group] = place_comet(
            words, 2.0, tick, comet_speed, angular_velocity, bodies[:count], paths[group]
        )
        if lengths[group]:
            ships[group] = least_ships(words)
    return StarMap(angular_velocity, bodies[:count], contents[:count], home, paths, lengths, ships)


@compiled
def distance(x: float, y: float, other_x: float, other_y: float, two: float) -> float:
    return math.sqrt(math.pow(x - other_x, two) + math.pow(y - other_y, two))


@compiled
def mirrored(copy: int, x: float, y: float) -> tuple[float, float]:
    """Return the place of the first to fourth `copy` of (x, y): quarter turns about the centre."""
    if copy == 0:
        return y, x
    if copy == 1:
        return BOARD_SIZE - x, y
    if copy == 2:
        return x, BOARD_SIZE - y
    return BOARD_SIZE - y, BOARD_SIZE - x


@compiled
def _add_group(
    count: int,
    x: float,
    y: float,
    radius: float,
    ships: int,
    production: int,
    bodies: Doubles,
    contents: Ints,
) -> None:
    for copy in range(4):
        bodies[count + copy, 0], bodies[count + copy, 1] = mirrored(copy, x, y)
        bodies[count + copy, 2] = radius
        contents[count + copy] = ships, production


@compiled
def _has_room(
    count: int, x: float, y: float, radius: float, checks_orbits: bool, bodies: Doubles, two: float
) -> bool:
    """Return whether the four copies of a planet keep their distance from the `count` others."""
    for copy in range(4):
        new_x, new_y = mirrored(copy, x, y)
        orbit = distance(new_x, new_y, CENTER, CENTER, two)
        circles = orbit + radius < ORBIT_LIMIT
        for other in range(count):
            other_x, other_y, other_radius = bodies[other, 0], bodies[other, 1], bodies[other, 2]
            reach = other_radius + radius + _CLEARANCE
            if _is_nearer(other_x, other_y, new_x, new_y, reach, two):
                return False
            if checks_orbits:
                dx, dy = other_x - CENTER, other_y - CENTER
                other_orbit = math.sqrt(dx * dx + dy * dy)
                from_limit = other_orbit + other_radius - ORBIT_LIMIT
                if min(abs(from_limit), abs(abs(orbit - other_orbit) - reach)) < _NEAR:
                    other_orbit = distance(other_x, other_y, CENTER, CENTER, two)
                if circles != (other_orbit + other_radius < ORBIT_LIMIT) and abs(orbit - other_orbit) < reach:
                    return False
    return True


@compiled
def place_planets(words: Words, two: float, bodies: Doubles, contents: Ints) -> int:
    """Fill `bodies` and `contents` (MAX_PLANETS, …) with planets in groups of four; return how many."""
    num_groups = randint(words, 5, 10)
    count = _place_static(words, two, bodies, contents)
    has_orbit = False
    attempts = 0
    while (count < num_groups * 4 or not has_orbit) and attempts < _MAX_ATTEMPTS - 1:
        attempts += 1
        production = randint(words, 1, 5)
        radius = 1.0 + math.log(np.float64(production))
        x = uniform(words, CENTER + 15, BOARD_SIZE - radius - 5)
        y = uniform(words, CENTER + 15, BOARD_SIZE - radius - 5)
        orbit = distance(x, y, CENTER, CENTER, two)
        if orbit < SUN_RADIUS + radius + 10:
            continue
        is_static = orbit + radius >= ORBIT_LIMIT
        if is_static and (
            x + radius > BOARD_SIZE or x - radius < 0 or y + radius > BOARD_SIZE or y - radius < 0
        ):
            continue
        ships = randint(words, 5, 30)
        if _has_room(count, x, y, radius, True, bodies, two) and count + 4 <= len(bodies):
            has_orbit |= not is_static
            _add_group(count, x, y, radius, ships, production, bodies, contents)
            count += 4
    return count


@compiled
def _place_static(words: Words, two: float, bodies: Doubles, contents: Ints) -> int:
    """Place the three groups outside of all orbits; return how many planets they have."""
    count = 0
    for _ in range(_MAX_ATTEMPTS):
        if count >= _MIN_STATIC_GROUPS * 4:
            break
        production = randint(words, 1, 5)
        radius = 1.0 + math.log(np.float64(production))
        angle = uniform(words, 0.0, math.pi / 2)
        nearest = ORBIT_LIMIT - radius
        farthest = (BOARD_SIZE - CENTER - radius) / max(math.cos(angle), math.sin(angle))
        if nearest > farthest:
            continue
        orbit = uniform(words, nearest, farthest)
        x = CENTER + orbit * math.cos(angle)
        y = CENTER + orbit * math.sin(angle)
        if x + radius > BOARD_SIZE or x - radius < 0 or y + radius > BOARD_SIZE or y - radius < 0:
            continue
        if (BOARD_SIZE - x) - radius < 0 or (BOARD_SIZE - y) - radius < 0:
            continue
        if (x - CENTER) < radius + 5 or (y - CENTER) < radius + 5:
            continue
        ships = min(randint(words, 5, 99), randint(words, 5, 99))
        if _has_room(count, x, y, radius, False, bodies, two):
            _add_group(count, x, y, radius, ships, production, bodies, contents)
            count += 4
    return count


@compiled
def least_ships(words: Words) -> int:
    """Return the ships of a group of comets: the least of four numbers from 1 to 99."""
    least = 99
    for _ in range(4):
        least = min(least, randint(words, 1, 99))
    return least


@compiled
def place_comet(
    words: Words,
    two: float,
    tick: int,
    speed: float,
    angular_velocity: float,
    bodies: Doubles,
    path: Doubles,
) -> int:
    """Fill `path` (MAX_PATH, 2) with the places of a comet that appears at `tick`; return how many.

    0: none of 300 ellipses keeps its distance from the sun and the planets.
    """
    orbits = _orbits(bodies, two)
    coarse, dense = np.empty(_COARSE_CIRCLE.shape), np.empty(_CIRCLE.shape)
    lengths, places = np.empty(_DENSE), np.empty((_DENSE, 2))
    for _ in range(_COMET_ATTEMPTS):
        eccentricity = uniform(words, 0.75, 0.93)
        half_axis = uniform(words, 60.0, 150.0)
        if half_axis * (1 - eccentricity) < SUN_RADIUS + COMET_RADIUS:
            continue
        other_axis = half_axis * math.sqrt(1 - math.pow(eccentricity, two))
        turn = uniform(words, math.pi / 6, math.pi / 3)
        focus = half_axis * eccentricity
        _draw_ellipse(half_axis, other_axis, focus, turn, _COARSE_CIRCLE, coarse)
        if _surely_hits(coarse, speed, bodies, orbits):
            continue
        _draw_ellipse(half_axis, other_axis, focus, turn, _CIRCLE, dense)
        num_places = _even_steps(dense, lengths, speed, two, places)
        start, end = -1, -1
        for i in range(num_places):
            if 0 <= places[i, 0] <= BOARD_SIZE and 0 <= places[i, 1] <= BOARD_SIZE:
                start = i if start < 0 else start
                end = i
        length = end + 1 - start
        if start < 0 or not 5 <= length <= MAX_PATH:
            continue
        visible = places[start : end + 1]
        if _keeps_clear(visible, tick, angular_velocity, bodies, orbits, two):
            path[:length] = visible
            return length
    return 0


@compiled
def _orbits(bodies: Doubles, two: float) -> Doubles:
    """Return each planet's distance from the sun, and radius and angle of its orbit; 0: it stays (N, 3)."""
    orbits = np.zeros((len(bodies), 3))
    for i in range(len(bodies)):
        dx, dy = bodies[i, 0] - CENTER, bodies[i, 1] - CENTER
        radius = math.sqrt(math.pow(dx, two) + math.pow(dy, two))
        orbits[i, 0] = radius
        if radius + bodies[i, 2] < ORBIT_LIMIT:
            orbits[i, 1], orbits[i, 2] = radius, math.atan2(dy, dx)
    return orbits


@compiled
def _draw_ellipse(
    half_axis: float, other_axis: float, focus: float, turn: float, circle: Doubles, dense: Doubles
) -> None:
    """Fill `dense` (2, N) with x and y of the points of `circle` (2, N)."""
    cosine, sine = math.cos(turn), math.sin(turn)
    for i in range(dense.shape[1]):
        x = focus + half_axis * circle[0, i]
        y = other_axis * circle[1, i]
        dense[0, i] = CENTER + x * cosine - y * sine
        dense[1, i] = CENTER + x * sine + y * cosine


@compiled
def _surely_hits(curve: Doubles, speed: float, bodies: Doubles, orbits: Doubles) -> bool:
    """Return whether a comet on a coarse curve (2, N) surely meets the sun or a planet that stays.

    Half of the ellipses do, and a tenth of the time shows it.
    """
    length, target = 0.0, 0.0
    for i in range(curve.shape[1] - 1):
        dx, dy = curve[0, i + 1] - curve[0, i], curve[1, i + 1] - curve[1, i]
        step = math.sqrt(dx * dx + dy * dy)
        while target < length + step:
            along = (target - length) / step
            x, y = curve[0, i] + along * dx, curve[1, i] + along * dy
            target += speed
            is_visible = min(x, y) >= _COARSE_ERROR and max(x, y) <= BOARD_SIZE - _COARSE_ERROR
            if is_visible and _surely_meets(x, y, bodies, orbits):
                return True
        length += step
    return False


@compiled
def _surely_meets(x: float, y: float, bodies: Doubles, orbits: Doubles) -> bool:
    """Return whether a comet at (x, y), give or take the error, meets the sun or a planet that stays."""
    dx, dy, reach = x - CENTER, y - CENTER, SUN_RADIUS + COMET_RADIUS - _COARSE_ERROR
    from_sun = math.sqrt(dx * dx + dy * dy)
    if from_sun < reach:
        return True
    for i in range(len(bodies)):
        reach = bodies[i, 2] + COMET_RADIUS + 0.5 - _COARSE_ERROR
        if orbits[i, 1] == 0.0 and abs(from_sun - orbits[i, 0]) < reach:
            for copy in range(4):
                copy_x, copy_y = mirrored(copy, x, y)
                dx, dy = copy_x - bodies[i, 0], copy_y - bodies[i, 1]
                if dx * dx + dy * dy < reach * reach:
                    return True
    return False


@compiled
def _even_steps(dense: Doubles, lengths: Doubles, speed: float, two: float, places: Doubles) -> int:
    """Keep a point after each `speed` of the curve's length; return how many.

    Lengths are computed with x * x for pow(x, 2), which is many times as fast. Where rounding could decide,
    they are computed again.
    """
    for i in range(1, len(lengths)):
        dx, dy = dense[0, i] - dense[0, i - 1], dense[1, i] - dense[1, i - 1]
        lengths[i] = math.sqrt(dx * dx + dy * dy)
    count = _keep_steps(dense, lengths, speed, _NEAR, places)
    if count < 0:
        for i in range(1, len(lengths)):
            lengths[i] = distance(dense[0, i], dense[1, i], dense[0, i - 1], dense[1, i - 1], two)
        count = _keep_steps(dense, lengths, speed, 0.0, places)
    return count


@compiled
def _keep_steps(dense: Doubles, lengths: Doubles, speed: float, near: float, places: Doubles) -> int:
    """Return how many points are kept; -1 where the length comes nearer than `near` to one to keep."""
    places[0] = dense[0, 0], dense[1, 0]
    count, length, target, i = 1, 0.0, speed, 0
    while i + 1 < len(lengths):
        if near > 0.0:  # then another order of the additions makes no difference that counts
            ahead = 0.0
            for k in range(i + 1, min(i + 1 + _BLOCK, len(lengths))):
                ahead += lengths[k]
            if length + ahead < target - near:
                length, i = length + ahead, i + _BLOCK
                continue
        i += 1
        length += lengths[i]
        if abs(length - target) < near:
            return -1
        if length >= target:
            places[count] = dense[0, i], dense[1, i]
            count += 1
            target += speed
    return count


@compiled
def _is_nearer(x: float, y: float, other_x: float, other_y: float, limit: float, two: float) -> bool:
    """Return whether the distance is less than `limit`; pow decides only where rounding could."""
    dx, dy = x - other_x, y - other_y
    square, bound = dx * dx + dy * dy, limit * limit
    if abs(square - bound) > _NEAR * bound:
        return square < bound
    return distance(x, y, other_x, other_y, two) < limit


@compiled
def _keeps_clear(
    visible: Doubles, tick: int, angular_velocity: float, bodies: Doubles, orbits: Doubles, two: float
) -> bool:
    """Return whether comets on the path and its copies meet neither the sun nor a planet."""
    for k in range(len(visible)):
        x, y = visible[k, 0], visible[k, 1]
        if _is_nearer(x, y, CENTER, CENTER, SUN_RADIUS + COMET_RADIUS, two):
            return False
        from_sun = math.sqrt((x - CENTER) * (x - CENTER) + (y - CENTER) * (y - CENTER))
        for i in range(len(bodies)):
            body_x, body_y, radius = bodies[i, 0], bodies[i, 1], bodies[i, 2]
            reach = radius + (COMET_RADIUS + 0.5)
            if abs(from_sun - orbits[i, 0]) > reach + _NEAR:  # nor do the copies come nearer
                continue
            if orbits[i, 1] > 0.0:
                angle = orbits[i, 2] + angular_velocity * (tick - 1 + k)
                body_x = CENTER + orbits[i, 1] * math.cos(angle)
                body_y = CENTER + orbits[i, 1] * math.sin(angle)
                reach = radius + COMET_RADIUS
            for copy in range(4):
                copy_x, copy_y = mirrored(copy, x, y)
                if _is_nearer(copy_x, copy_y, body_x, body_y, reach, two):
                    return False
    return True
