"""The maps of Planet Wars: planets from a seed, equal to those of the published engine."""

from __future__ import annotations

import math

import numpy as np

from .....ragged.compiled import compiled
from ....vector.native_arrays import Doubles, Ints, Words
from ..python_random import randint, seeded, uniform, unit

#: Planets at most.
MAX_PLANETS = 32
OWNER, SHIPS, GROWTH = range(3)

_FEWEST, _MOST = 15, 30  # planets
_MOST_CENTRAL = 5
_HOME_SHIPS, _HOME_GROWTH = 100, 5
_MOST_SHIPS, _MOST_GROWTH = 100, 5  # of neutral planets
_NEAREST, _NEAREST_HOMES = 2, 4
_RADIUS = 15.0
#: Distances are no nearer to a whole number, so that rounding never decides how long a flight takes.
_AMBIGUOUS = 0.002
_MAX_TRIES = 1000


def make_map(seed: int) -> tuple[Doubles, Ints]:
    """Return places (P, 2) and owner, ships and growth (P, 3) of the planets that the engine makes of `seed`.

    Owner 0 is neutral; the players are 1 and 2.

    Raises:
        ValueError: the engine makes no map of this seed.
    """
    places, owned = np.empty((MAX_PLANETS, 2)), np.empty((MAX_PLANETS, 3), np.int64)
    count = place_planets(seeded(seed), places, owned)
    if count < 0:
        raise ValueError(f"game seed {seed}: expected one of which the engine makes a map")
    return places[:count], owned[:count]


@compiled
def _draw_radius(words: Words, least: float) -> float:
    radius = least - 1
    while radius < least:
        radius = math.sqrt(unit(words)) * _RADIUS
    return radius


@compiled
def _at(radius: float, degrees: float) -> tuple[float, float]:
    angle = degrees * (math.pi / 180.0)
    return radius * math.cos(angle), radius * math.sin(angle)


@compiled
def _is_ambiguous(length: float) -> bool:
    return abs(length - np.rint(length)) < _AMBIGUOUS


@compiled
def _is_refused(x: float, y: float, places: Doubles) -> bool:
    """Return whether a planet would be too near to one of `places`, or at an ambiguous distance."""
    for i in range(len(places)):
        length = math.hypot(places[i, 0] - x, places[i, 1] - y)
        if math.ceil(length) < _NEAREST or _is_ambiguous(length):
            return True
    return False


@compiled
def _is_pair_refused(x: float, y: float, other_x: float, other_y: float, places: Doubles) -> bool:
    length = math.hypot(x - other_x, y - other_y)
    if math.ceil(length) < _NEAREST or _is_ambiguous(length):
        return True
    return _is_refused(x, y, places) or _is_refused(other_x, other_y, places)


@compiled
def _add(
    count: int, x: float, y: float, owner: int, ships: int, growth: int, places: Doubles, owned: Ints
) -> int:
    places[count, 0], places[count, 1] = x, y
    owned[count, OWNER], owned[count, SHIPS], owned[count, GROWTH] = owner, ships, growth
    return count + 1


@compiled
def place_planets(words: Words, places: Doubles, owned: Ints) -> int:
    """Fill `places` and `owned` (MAX_PLANETS, …) with planets; return how many, -1: none are found."""
    total = randint(words, _FEWEST, _MOST)
    is_radial = randint(words, 0, 1) == 1
    if is_radial and total % 2 == 0:
        total = total + 1 if total < _MOST else _FEWEST
    ships, growth = randint(words, 1, _MOST_SHIPS), randint(words, 0, _MOST_GROWTH)
    count = _add(0, 0.0, 0.0, 0, ships, growth, places, owned)
    tries, first_turn, second_turn = 0, 0.0, 0.0
    while tries < _MAX_TRIES:
        tries += 1
        radius = _draw_radius(words, _NEAREST)
        first_turn = uniform(words, 0.0, 360.0)
        if is_radial:
            second_turn = first_turn + 180 if first_turn < 180 else first_turn - 180
        else:
            second_turn = uniform(words, 0.0, 360.0)
        (x, y), (other_x, other_y) = _at(radius, first_turn), _at(radius, second_turn)
        if _is_pair_refused(x, y, other_x, other_y, places[:count]):
            continue
        home_distance = math.ceil(math.hypot(x - other_x, y - other_y))
        if home_distance >= _NEAREST_HOMES:
            break
    else:
        return -1
    count = _add(count, x, y, 1, _HOME_SHIPS, _HOME_GROWTH, places, owned)
    count = _add(count, other_x, other_y, 2, _HOME_SHIPS, _HOME_GROWTH, places, owned)
    count = _place_central(words, total, is_radial, (first_turn + second_turn) / 2, places, owned)
    sign = 1 if is_radial else -1
    for i in range((total - count) // 2 if count > 0 else 0):
        most = _MOST_SHIPS if i else max(min(_MOST_SHIPS, 5 * home_distance - 1), 1)
        ships, growth = randint(words, 1, most), randint(words, 1, _MOST_GROWTH)
        for attempt in range(_MAX_TRIES + 1):
            if attempt == _MAX_TRIES:
                return -1
            radius = _draw_radius(words, _NEAREST)
            turn = uniform(words, 0.0, 360.0)
            x, y = _at(radius, first_turn + turn)
            other_x, other_y = _at(radius, second_turn + sign * turn)
            if not _is_pair_refused(x, y, other_x, other_y, places[:count]):
                break
        count = _add(count, x, y, 0, ships, growth, places, owned)
        count = _add(count, other_x, other_y, 0, ships, growth, places, owned)
    for i in range(count):
        places[i, 0] += _RADIUS
        places[i, 1] += _RADIUS
    return count


@compiled
def _place_central(
    words: Words, total: int, is_radial: bool, axis: float, places: Doubles, owned: Ints
) -> int:
    """Place neutral planets as far from one home as from the other, after the first three planets."""
    count = 3
    if is_radial:
        for _ in range(randint(words, 0, _MOST_CENTRAL // 2)):
            ships, growth = randint(words, 1, _MOST_SHIPS), randint(words, 1, _MOST_GROWTH)
            for attempt in range(_MAX_TRIES + 1):
                if attempt == _MAX_TRIES:
                    return -1
                radius = _draw_radius(words, _NEAREST)
                (x, y), (other_x, other_y) = _at(radius, axis), _at(radius, axis + 180)
                if not _is_pair_refused(x, y, other_x, other_y, places[:count]):
                    break
            count = _add(count, x, y, 0, ships, growth, places, owned)
            count = _add(count, other_x, other_y, 0, ships, growth, places, owned)
        return count
    fewest = (total - count) % 2
    number = fewest + 2 * randint(words, 0, (_MOST_CENTRAL - fewest) // 2)
    if randint(words, 0, 1) == 1:
        axis += 180
    for _ in range(number):
        ships, growth = randint(words, 1, _MOST_SHIPS), randint(words, 1, _MOST_GROWTH)
        for attempt in range(_MAX_TRIES + 1):
            if attempt == _MAX_TRIES:
                return -1
            x, y = _at(_draw_radius(words, 0.0), axis)
            if not _is_refused(x, y, places[:count]) and not _is_ambiguous(math.hypot(x, y)):
                break
        count = _add(count, x, y, 0, ships, growth, places, owned)
    return count
