"""The rules of Orbit Wars: launches, ticks and results, equal to those of the published engine.

Shape alphabet: G games, P planets (slots), F fleets (slots), K players. A planet's slot is its id. Comets
take the four slots after the planets of the map.

As in `maps`, numbers are computed by the engine's operations in its order, and `two` is the exponent 2.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .....ragged.compiled import compiled
from ....vector.native_arrays import Doubles, Flags, Ints
from .maps import (
    BOARD_SIZE,
    CENTER,
    COMET_PRODUCTION,
    COMET_RADIUS,
    COMET_TICKS,
    COMETS_PER_GROUP,
    MAX_PATH,
    MAX_PLANETS,
    ORBIT_LIMIT,
    SUN_RADIUS,
    distance,
    mirrored,
)

NEUTRAL = -1
NO_COMETS = -1
#: Planets and comets of a game at most.
MAX_SLOTS = MAX_PLANETS + COMETS_PER_GROUP

# Columns of `Boards.planets`, `owned`, `fleets` and `crews`.
X, Y, RADIUS, ORBIT, ANGLE = range(5)
OWNER, SHIPS, PRODUCTION = range(3)
HEADING, SPEED_X, SPEED_Y = range(2, 5)
CREW_OWNER, CREW_SHIPS, CREW_FROM, CREW_ID = range(4)

_TICKS = np.array(COMET_TICKS)
#: Two things are farther apart than this if rounding cannot decide whether they meet.
_MARGIN = 1e-3


class Boards(NamedTuple):
    """The state of G games."""

    planets: Doubles  # (G, P, 5): x, y, radius; radius and first angle of the orbit (0, 0: stays)
    owned: Ints  # (G, P, 3): owner (-1: neutral), ships, production
    planet_counts: Ints  # (G,): planets, comets not counted
    velocities: Doubles  # (G,): radians per tick
    fleets: Doubles  # (G, F, 5): x, y, heading in radians, x and y per tick
    crews: Ints  # (G, F, 4): owner, ships, planet that it comes from, id
    fleet_counts: Ints  # (G,)
    next_ids: Ints  # (G,): of the next fleet
    paths: Doubles  # (G, 5, 40, 2): see `maps.StarMap`
    path_lengths: Ints  # (G, 5)
    comet_ships: Ints  # (G, 5)
    comet_groups: Ints  # (G,): which group of comets is there; -1: none
    comet_ages: Ints  # (G,): place on their path
    ticks: Ints  # (G,): ticks played


def empty_boards(num_games: int, max_fleets: int) -> Boards:
    """Return boards for `num_games` games without planets."""
    groups = len(COMET_TICKS)
    return Boards(
        planets=np.zeros((num_games, MAX_SLOTS, 5)),
        owned=np.zeros((num_games, MAX_SLOTS, 3), np.int64),
        planet_counts=np.zeros(num_games, np.int64),
        velocities=np.zeros(num_games),
        fleets=np.zeros((num_games, max_fleets, 5)),
        crews=np.zeros((num_games, max_fleets, 4), np.int64),
        fleet_counts=np.zeros(num_games, np.int64),
        next_ids=np.zeros(num_games, np.int64),
        paths=np.zeros((num_games, groups, MAX_PATH, 2)),
        path_lengths=np.zeros((num_games, groups), np.int64),
        comet_ships=np.zeros((num_games, groups), np.int64),
        comet_groups=np.full(num_games, NO_COMETS),
        comet_ages=np.zeros(num_games, np.int64),
        ticks=np.zeros(num_games, np.int64),
    )


@compiled
def num_slots(boards: Boards, game: int) -> int:
    """Return how many planets and comets there are."""
    has_comets = boards.comet_groups[game] != NO_COMETS
    return boards.planet_counts[game] + (COMETS_PER_GROUP if has_comets else 0)


@compiled
def set_orbits(boards: Boards, game: int, two: float) -> None:
    """Set the orbits of a game's planets from where they are at the start."""
    for i in range(boards.planet_counts[game]):
        body = boards.planets[game, i]
        dx, dy = body[X] - CENTER, body[Y] - CENTER
        radius = math.sqrt(math.pow(dx, two) + math.pow(dy, two))
        circles = radius + body[RADIUS] < ORBIT_LIMIT
        body[ORBIT] = radius if circles else 0.0
        body[ANGLE] = math.atan2(dy, dx) if circles else 0.0


@compiled
def fleet_speed(ships: int, max_speed: float, one_and_a_half: float) -> float:
    """Return how far a fleet flies in a tick."""
    share = math.log(np.float64(ships)) / math.log(1000.0)
    return min(1.0 + (max_speed - 1.0) * math.pow(share, one_and_a_half), max_speed)


@compiled
def add_fleet(
    boards: Boards,
    game: int,
    owner: int,
    origin: int,
    x: float,
    y: float,
    heading: float,
    ships: int,
    speed: float,
) -> None:
    row = boards.fleet_counts[game]
    fleet, crew = boards.fleets[game, row], boards.crews[game, row]
    fleet[X], fleet[Y], fleet[HEADING] = x, y, heading
    fleet[SPEED_X], fleet[SPEED_Y] = math.cos(heading) * speed, math.sin(heading) * speed
    crew[CREW_OWNER], crew[CREW_SHIPS], crew[CREW_FROM] = owner, ships, origin
    crew[CREW_ID] = boards.next_ids[game]
    boards.fleet_counts[game] += 1
    boards.next_ids[game] += 1


@compiled
def launch(
    boards: Boards,
    game: int,
    player: int,
    origin: int,
    heading: float,
    ships: int,
    max_speed: float,
    one_and_a_half: float,
) -> bool:
    """Launch a fleet; return whether the player may: it is their planet, with so many ships."""  # fmt: skip
    if not 0 <= origin < num_slots(boards, game) or boards.owned[game, origin, OWNER] != player:
        return False
    if not 0 < ships <= boards.owned[game, origin, SHIPS]:
        return False
    if boards.fleet_counts[game] == boards.fleets.shape[1]:
        return False
    boards.owned[game, origin, SHIPS] -= ships
    body = boards.planets[game, origin]
    x = body[X] + math.cos(heading) * (body[RADIUS] + 0.1)
    y = body[Y] + math.sin(heading) * (body[RADIUS] + 0.1)
    speed = fleet_speed(ships, max_speed, one_and_a_half)
    add_fleet(boards, game, player, origin, x, y, heading, ships, speed)
    return True


@compiled
def spawn_comets(boards: Boards, game: int) -> None:
    """Make the comets that appear in the coming tick, outside of the board: before launches."""
    for group in range(len(_TICKS)):
        if boards.ticks[game] + 1 == _TICKS[group] and boards.path_lengths[game, group]:
            boards.comet_groups[game], boards.comet_ages[game] = group, -1
            first = boards.planet_counts[game]
            for slot in range(first, first + COMETS_PER_GROUP):
                boards.planets[game, slot] = 0.0
                boards.planets[game, slot, :3] = -99.0, -99.0, COMET_RADIUS
                boards.owned[game, slot] = NEUTRAL, boards.comet_ships[game, group], COMET_PRODUCTION


@compiled
def tick(boards: Boards, game: int, two: float) -> None:
    """Play what follows the launches: production, flight, and battles."""
    slots = num_slots(boards, game)
    owned = boards.owned[game]
    for i in range(slots):
        if owned[i, OWNER] != NEUTRAL:
            owned[i, SHIPS] += owned[i, PRODUCTION]
    planets, moved = boards.planets[game], np.empty((2, slots))
    collides = np.ones(slots, np.bool_)
    comets_left = _move_planets(boards, game, moved, collides)
    arrived = np.zeros((slots, 4), np.int64)
    _fly(boards, game, moved, collides, arrived, two)
    for i in range(slots):
        planets[i, X], planets[i, Y] = moved[0, i], moved[1, i]
    if comets_left:
        boards.comet_groups[game] = NO_COMETS
    for i in range(num_slots(boards, game)):
        _fight(owned, arrived, i)
    boards.ticks[game] += 1


@compiled
def _move_planets(boards: Boards, game: int, moved: Doubles, collides: Flags) -> bool:
    """Set where planets are after the tick, x and y (2, P); return whether the comets leave with it.

    Comets that have just been made appear at its end: fleets do not meet them in it.
    """
    count, planets = boards.planet_counts[game], boards.planets[game]
    for i in range(count):
        x, y, orbit = planets[i, X], planets[i, Y], planets[i, ORBIT]
        if orbit > 0.0:
            angle = planets[i, ANGLE] + boards.velocities[game] * boards.ticks[game]
            x, y = CENTER + orbit * math.cos(angle), CENTER + orbit * math.sin(angle)
        moved[0, i], moved[1, i] = x, y
    group = boards.comet_groups[game]
    if group == NO_COMETS:
        return False
    boards.comet_ages[game] += 1
    age = boards.comet_ages[game]
    leaves = age >= boards.path_lengths[game, group]
    for copy in range(COMETS_PER_GROUP):
        slot = count + copy
        x, y = planets[slot, X], planets[slot, Y]
        if not leaves:
            collides[slot] = x >= 0.0
            x, y = mirrored(copy, boards.paths[game, group, age, 0], boards.paths[game, group, age, 1])
        moved[0, slot], moved[1, slot] = x, y
    return leaves


@compiled
def _fly(boards: Boards, game: int, moved: Doubles, collides: Flags, arrived: Ints, two: float) -> None:
    """Move the fleets; add the ships that meet a planet to `arrived` (P, 4) and take lost fleets away."""
    planets, fleets, crews = boards.planets[game], boards.fleets[game], boards.crews[game]
    kept = 0
    # Each planet, and how far it reaches in this tick: in arrays of their own, so that the test of all of
    # them is a few instructions.
    new_xs, new_ys = moved
    slots = len(new_xs)
    xs, ys, reaches = np.empty(slots), np.empty(slots), np.empty(slots)
    for i in range(slots):
        xs[i], ys[i] = planets[i, X], planets[i, Y]
        reaches[i] = planets[i, RADIUS] + max(abs(new_xs[i] - xs[i]), abs(new_ys[i] - ys[i])) + _MARGIN
    for row in range(boards.fleet_counts[game]):
        old_x, old_y = fleets[row, X], fleets[row, Y]
        x, y = old_x + fleets[row, SPEED_X], old_y + fleets[row, SPEED_Y]
        fleets[row, X], fleets[row, Y] = x, y
        way = max(abs(fleets[row, SPEED_X]), abs(fleets[row, SPEED_Y]))
        is_lost = False
        if _is_near(old_x, old_y, way, xs, ys, reaches):
            for i in range(slots):
                reach = reaches[i] + way
                if abs(old_x - xs[i]) > reach or abs(old_y - ys[i]) > reach or not collides[i]:
                    continue
                from_x, from_y = old_x - xs[i], old_y - ys[i]
                way_x, way_y = (x - old_x) - (new_xs[i] - xs[i]), (y - old_y) - (new_ys[i] - ys[i])
                if _meets(from_x, from_y, way_x, way_y, planets[i, RADIUS]):
                    arrived[i, crews[row, CREW_OWNER]] += crews[row, CREW_SHIPS]
                    is_lost = True
                    break
        is_lost = is_lost or not (0 <= x <= BOARD_SIZE and 0 <= y <= BOARD_SIZE)
        if is_lost or _is_burnt(old_x, old_y, x, y, way, two):
            continue
        if kept < row:
            for column in range(fleets.shape[1]):  # slices would take many times as long
                fleets[kept, column] = fleets[row, column]
            for column in range(crews.shape[1]):
                crews[kept, column] = crews[row, column]
        kept += 1
    boards.fleet_counts[game] = kept


@compiled
def _is_near(x: float, y: float, way: float, xs: Doubles, ys: Doubles, reaches: Doubles) -> bool:
    """Return whether a fleet may meet one of the planets."""
    is_near = False
    for i in range(len(xs)):
        reach = reaches[i] + way
        is_near |= (abs(x - xs[i]) <= reach) & (abs(y - ys[i]) <= reach)
    return is_near


@compiled
def _meets(dx: float, dy: float, way_x: float, way_y: float, radius: float) -> bool:
    """Return whether a fleet touches a planet in this tick; it starts at (dx, dy) as the planet sees it."""
    a = way_x * way_x + way_y * way_y
    b = 2.0 * (dx * way_x + dy * way_y)
    c = dx * dx + dy * dy - radius * radius
    if a < 1e-12:
        return c <= 0.0
    under_root = b * b - 4.0 * a * c
    if under_root < 0.0:
        return False
    root = math.sqrt(under_root)
    return (-b + root) / (2.0 * a) >= 0.0 and (-b - root) / (2.0 * a) <= 1.0


@compiled
def _is_burnt(x: float, y: float, new_x: float, new_y: float, way: float, two: float) -> bool:
    """Return whether a fleet flies through the sun."""
    reach = SUN_RADIUS + way + _MARGIN
    if abs(x - CENTER) > reach or abs(y - CENTER) > reach:
        return False
    return distance_to_segment(CENTER, CENTER, x, y, new_x, new_y, two) < SUN_RADIUS


@compiled
def distance_to_segment(
    x: float, y: float, from_x: float, from_y: float, to_x: float, to_y: float, two: float
) -> float:
    length = math.pow(from_x - to_x, two) + math.pow(from_y - to_y, two)
    if length == 0.0:
        return distance(x, y, from_x, from_y, two)
    along = ((x - from_x) * (to_x - from_x) + (y - from_y) * (to_y - from_y)) / length
    along = max(0.0, min(1.0, along))
    return distance(x, y, from_x + along * (to_x - from_x), from_y + along * (to_y - from_y), two)


@compiled
def _fight(owned: Ints, arrived: Ints, slot: int) -> None:
    """Let the ships that arrived at a planet fight each other, then its garrison."""
    top, second, winner = 0, 0, NEUTRAL
    for player in range(arrived.shape[1]):
        ships = arrived[slot, player]
        if ships > top:
            top, second, winner = ships, top, player
        elif ships > second:
            second = ships
    survivors = top - second
    if survivors == 0:
        return
    if owned[slot, OWNER] == winner:
        owned[slot, SHIPS] += survivors
    else:
        owned[slot, SHIPS] -= survivors
        if owned[slot, SHIPS] < 0:
            owned[slot, OWNER], owned[slot, SHIPS] = winner, -owned[slot, SHIPS]


@compiled
def count_ships(boards: Boards, game: int, ships: Ints, production: Ints) -> int:
    """Set each player's `ships` and `production` (K,); return how many players have a planet or a fleet."""
    ships[:], production[:] = 0, 0
    is_alive = np.zeros(len(ships), np.bool_)
    for i in range(num_slots(boards, game)):
        owner = boards.owned[game, i, OWNER]
        if owner != NEUTRAL:
            is_alive[owner] = True
            ships[owner] += boards.owned[game, i, SHIPS]
            production[owner] += boards.owned[game, i, PRODUCTION]
    for row in range(boards.fleet_counts[game]):
        owner = boards.crews[game, row, CREW_OWNER]
        is_alive[owner] = True
        ships[owner] += boards.crews[game, row, CREW_SHIPS]
    return is_alive.sum()
