"""The rules of Planet Wars, equal to those of the published engine, and its bots.

Shape alphabet: G games, P planets, F fleets (rows).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .....ragged.compiled import compiled
from ....randomness import below, uniform
from ....vector.native_arrays import Doubles, Ints, Words
from .maps import GROWTH, MAX_PLANETS, OWNER, SHIPS

#: Names of bots; their places are the numbers that kernels know them by.
BOTS = ("nearest_enemy", "random")
NUM_PLAYERS = 2
#: Columns of `Galaxies.fleets`.
FLEET_OWNER, FLEET_SHIPS, SOURCE, DESTINATION, TRIP, REMAINING = range(6)


class Galaxies(NamedTuple):
    """The state of G games. Owners are 0 (neutral), 1 and 2."""

    places: Doubles  # (G, P, 2): x, y
    owned: Ints  # (G, P, 3): owner, ships, growth
    trips: Ints  # (G, P, P): turns of a flight
    planet_counts: Ints  # (G,)
    fleets: Ints  # (G, F, 6): owner, ships, source, destination, turns in all, turns that remain
    fleet_counts: Ints  # (G,)
    turns: Ints  # (G,): played


def empty_galaxies(num_games: int, max_fleets: int) -> Galaxies:
    """Return the state of `num_games` games without planets."""
    return Galaxies(
        places=np.zeros((num_games, MAX_PLANETS, 2)),
        owned=np.zeros((num_games, MAX_PLANETS, 3), np.int64),
        trips=np.ones((num_games, MAX_PLANETS, MAX_PLANETS), np.int64),
        planet_counts=np.zeros(num_games, np.int64),
        fleets=np.zeros((num_games, max_fleets, 6), np.int64),
        fleet_counts=np.zeros(num_games, np.int64),
        turns=np.zeros(num_games, np.int64),
    )


@compiled
def set_trips(places: Doubles, trips: Ints) -> None:
    """Set the turns (P, P) of the flights between planets at `places` (N, 2)."""
    for i in range(len(places)):
        for j in range(len(places)):
            length = math.hypot(places[i, 0] - places[j, 0], places[i, 1] - places[j, 1])
            trips[i, j] = math.ceil(length)


@compiled
def send(galaxies: Galaxies, game: int, player: int, source: int, destination: int, ships: int) -> bool:
    """Send ships; return whether the player may: the planet is theirs and has so many."""
    count = galaxies.planet_counts[game]
    if not (0 <= source < count and 0 <= destination < count) or source == destination:
        return False
    owned, fleets = galaxies.owned[game], galaxies.fleets[game]
    if owned[source, OWNER] != player or not 0 < ships <= owned[source, SHIPS]:
        return False
    row, trip = galaxies.fleet_counts[game], galaxies.trips[game, source, destination]
    if row == len(fleets):
        return False
    owned[source, SHIPS] -= ships
    for other in range(row):  # of this turn: they become one
        is_same = fleets[other, FLEET_OWNER] == player and fleets[other, REMAINING] == trip
        if is_same and fleets[other, SOURCE] == source and fleets[other, DESTINATION] == destination:
            fleets[other, FLEET_SHIPS] += ships
            return True
    fleets[row, FLEET_OWNER], fleets[row, FLEET_SHIPS] = player, ships
    fleets[row, SOURCE], fleets[row, DESTINATION] = source, destination
    fleets[row, TRIP], fleets[row, REMAINING] = trip, trip
    galaxies.fleet_counts[game] += 1
    return True


@compiled
def advance(galaxies: Galaxies, game: int) -> None:
    """Play what follows the launches: flight, growth and battles."""
    owned, fleets, count = galaxies.owned[game], galaxies.fleets[game], galaxies.planet_counts[game]
    forces = np.zeros((count, NUM_PLAYERS + 1), np.int64)
    is_met = np.zeros(count, np.bool_)
    kept = 0
    for row in range(galaxies.fleet_counts[game]):
        fleets[row, REMAINING] -= 1
        if fleets[row, REMAINING] <= 0:
            forces[fleets[row, DESTINATION], fleets[row, FLEET_OWNER]] += fleets[row, FLEET_SHIPS]
            is_met[fleets[row, DESTINATION]] = True
        else:
            for column in range(fleets.shape[1]):  # a slice would take many times as long
                fleets[kept, column] = fleets[row, column]
            kept += 1
    galaxies.fleet_counts[game] = kept
    for planet in range(count):
        if owned[planet, OWNER] > 0:
            owned[planet, SHIPS] += owned[planet, GROWTH]
        if is_met[planet]:
            forces[planet, owned[planet, OWNER]] += owned[planet, SHIPS]
            _fight(owned[planet], forces[planet])
    galaxies.turns[game] += 1


@compiled
def _fight(owned: Ints, forces: Ints) -> None:
    """Let the greatest force win, less the second; equal ones leave the owner without ships."""
    winner, most, second = 0, 0, 0
    for owner in range(len(forces)):
        if forces[owner] > most:
            winner, most, second = owner, forces[owner], most
        elif forces[owner] > second:
            second = forces[owner]
    owned[SHIPS] = most - second
    if most > second:
        owned[OWNER] = winner


@compiled
def sum_up(galaxies: Galaxies, game: int, ships: Ints, growth: Ints) -> int:
    """Set `ships` and `growth` (3,) of each owner; return how many players have a planet or a fleet."""
    ships[:], growth[:] = 0, 0
    is_alive = np.zeros(len(ships), np.bool_)
    owned, fleets = galaxies.owned[game], galaxies.fleets[game]
    for planet in range(galaxies.planet_counts[game]):
        ships[owned[planet, OWNER]] += owned[planet, SHIPS]
        growth[owned[planet, OWNER]] += owned[planet, GROWTH]
        is_alive[owned[planet, OWNER]] = True
    for row in range(galaxies.fleet_counts[game]):
        ships[fleets[row, FLEET_OWNER]] += fleets[row, FLEET_SHIPS]
        is_alive[fleets[row, FLEET_OWNER]] = True
    return is_alive[1:].sum()


@compiled
def is_alive(galaxies: Galaxies, game: int, player: int) -> bool:
    for planet in range(galaxies.planet_counts[game]):
        if galaxies.owned[game, planet, OWNER] == player:
            return True
    for row in range(galaxies.fleet_counts[game]):
        if galaxies.fleets[game, row, FLEET_OWNER] == player:
            return True
    return False


@compiled
def play_bot(bot: int, galaxies: Galaxies, game: int, player: int, state: Words) -> None:
    """Send half of each planet's ships: to the nearest that isn't the player's, or sometimes anywhere."""
    count, owned = galaxies.planet_counts[game], galaxies.owned[game]
    for source in range(count):
        if owned[source, OWNER] != player or owned[source, SHIPS] < 2:
            continue
        target = -1
        if bot == 0:
            target = _nearest_other(galaxies.places[game], owned[:count], player, source)
        elif uniform(state) <= 0.3:
            target = (source + 1 + below(state, count - 1)) % count
        if target >= 0:
            send(galaxies, game, player, source, target, owned[source, SHIPS] // 2)


@compiled
def _nearest_other(places: Doubles, owned: Ints, player: int, source: int) -> int:
    nearest, least = -1, math.inf
    for planet in range(len(owned)):
        length = math.hypot(places[source, 0] - places[planet, 0], places[source, 1] - places[planet, 1])
        if owned[planet, OWNER] != player and length < least:
            nearest, least = planet, length
    return nearest
