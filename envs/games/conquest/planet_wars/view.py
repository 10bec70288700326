"""Observations of the players of Planet Wars, and the orders that their choices come to."""

from __future__ import annotations

import math

import numpy as np

from .....ragged.compiled import compiled
from ....batch.entity_batch import EntityBatch
from ...parts import Floats, Ints
from ..sending import chosen_ships, sending_batch
from .maps import GROWTH, OWNER, SHIPS
from .rules import (
    DESTINATION,
    FLEET_OWNER,
    FLEET_SHIPS,
    NUM_PLAYERS,
    REMAINING,
    SOURCE,
    TRIP,
    Galaxies,
    send,
    sum_up,
)

_CENTRE = 15.0
_FORCE = ["ships", "log_ships", "mine", "enemy"]
FEATURES = {
    "Planet": ["x", "y", "growth", *_FORCE],
    "Fleet": ["x", "y", "destination_x", "destination_y", "turns_remaining", *_FORCE],
}
GLOBALS = ["turn", "my_ships", "enemy_ships", "my_growth", "enemy_growth"]


def seen_by(galaxies: Galaxies, games: Ints, players: Ints, min_ships: int) -> EntityBatch:
    """Return what `players` (L,), 1 or 2, of `games` (L,) observe."""
    offsets = np.empty((4, len(games) + 1), np.int64)
    _count_seen(galaxies, games, players, min_ships, offsets)
    num_planets, num_fleets, num_actors, num_actees = offsets[:, -1].tolist()
    planets = np.empty((num_planets, len(FEATURES["Planet"])), np.float32)
    fleets = np.empty((num_fleets, len(FEATURES["Fleet"])), np.float32)
    globals_ = np.empty((len(games), len(GLOBALS)), np.float32)
    actors, actees = np.empty(num_actors, np.int64), np.empty(num_actees, np.int64)
    _observe(galaxies, games, players, min_ships, offsets, planets, fleets, globals_, actors, actees)
    return sending_batch(offsets, planets, fleets, globals_, actors, actees)


@compiled
def _can_send(owned: Ints, player: int, min_ships: int) -> bool:
    return owned[OWNER] == player and owned[SHIPS] >= min_ships


@compiled
def _has_room(galaxies: Galaxies, game: int) -> bool:
    return galaxies.fleet_counts[game] + galaxies.planet_counts[game] <= galaxies.fleets.shape[1]


@compiled
def send_chosen(
    galaxies: Galaxies, game: int, player: int, targets: Ints, shares: Ints, min_ships: int
) -> None:
    """Carry out the choices of a player's planets, in the order in which the view lists them."""
    actor, owned = 0, galaxies.owned[game]
    for source in range(galaxies.planet_counts[game]):
        if actor < len(targets) and _can_send(owned[source], player, min_ships):
            ships = chosen_ships(owned[source, SHIPS], shares[actor])
            send(galaxies, game, player, source, targets[actor], ships)
            actor += 1


@compiled
def _count_seen(galaxies: Galaxies, games: Ints, players: Ints, min_ships: int, offsets: Ints) -> None:
    """Set the `offsets` (4, L + 1) of planets, fleets, actors and actees that each view has."""
    offsets[:, 0] = 0
    for row in range(len(games)):
        count, actors = galaxies.planet_counts[games[row]], 0
        if _has_room(galaxies, games[row]):
            owned = galaxies.owned[games[row]]
            for planet in range(count):
                actors += _can_send(owned[planet], players[row], min_ships)
        offsets[0, row + 1] = offsets[0, row] + count
        offsets[1, row + 1] = offsets[1, row] + galaxies.fleet_counts[games[row]]
        offsets[2, row + 1] = offsets[2, row] + actors
        offsets[3, row + 1] = offsets[3, row] + (count if actors else 0)


@compiled
def _show_force(rows: Floats, row: int, first: int, ships: int, owner: int, player: int) -> None:
    rows[row, first], rows[row, first + 1] = ships, math.log(1.0 + ships)
    rows[row, first + 2] = owner == player
    rows[row, first + 3] = owner == 3 - player


@compiled
def _observe(
    galaxies: Galaxies,
    games: Ints,
    players: Ints,
    min_ships: int,
    offsets: Ints,
    planets: Floats,
    fleets: Floats,
    global_rows: Floats,
    actors: Ints,
    actees: Ints,
) -> None:
    """Fill in the entities, the global features, and who can do what, of each view."""
    ships, growth = np.empty(NUM_PLAYERS + 1, np.int64), np.empty(NUM_PLAYERS + 1, np.int64)
    for row in range(len(games)):
        game, player = games[row], players[row]
        places, owned, flying = galaxies.places[game], galaxies.owned[game], galaxies.fleets[game]
        actor, acts = offsets[2, row], offsets[2, row] < offsets[2, row + 1]
        for planet in range(galaxies.planet_counts[game]):
            shown = offsets[0, row] + planet
            planets[shown, 0] = places[planet, 0] - _CENTRE
            planets[shown, 1] = places[planet, 1] - _CENTRE
            planets[shown, 2] = owned[planet, GROWTH]
            _show_force(planets, shown, 3, owned[planet, SHIPS], owned[planet, OWNER], player)
            if acts:
                actees[offsets[3, row] + planet] = planet
                if _can_send(owned[planet], player, min_ships):
                    actors[actor] = planet
                    actor += 1
        for i in range(galaxies.fleet_counts[game]):
            shown = offsets[1, row] + i
            source, destination = flying[i, SOURCE], flying[i, DESTINATION]
            left = flying[i, REMAINING] / max(1, flying[i, TRIP])
            for axis in range(2):
                start, end = places[source, axis] - _CENTRE, places[destination, axis] - _CENTRE
                fleets[shown, axis] = end + left * (start - end)
                fleets[shown, 2 + axis] = end
            fleets[shown, 4] = flying[i, REMAINING]
            _show_force(fleets, shown, 5, flying[i, FLEET_SHIPS], flying[i, FLEET_OWNER], player)
        sum_up(galaxies, game, ships, growth)
        global_rows[row, 0] = galaxies.turns[game]
        global_rows[row, 1], global_rows[row, 2] = ships[player], ships[3 - player]
        global_rows[row, 3], global_rows[row, 4] = growth[player], growth[3 - player]
