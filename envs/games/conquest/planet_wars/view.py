"""Observations of the players of Planet Wars, and the launches of their choices."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from .....ragged.compiled import compiled
from ....batch.entity_batch import EntityBatch
from ....vector.native_arrays import Floats, Ints
from ..forecast import with_forecast
from ..sending import can_send, chosen_ships, count_views, sending_batch
from .foresight import GalaxiesAhead, look_ahead, room_ahead
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
_FEATURES = {
    "Planet": ["x", "y", "growth", *_FORCE],
    "Fleet": ["x", "y", "destination_x", "destination_y", "turns_remaining", *_FORCE],
}
GLOBALS = ["turn", "my_ships", "enemy_ships", "my_growth", "enemy_growth"]


def features(fleets: str) -> dict[str, list[str]]:
    """Return the names of the features of each entity type; `fleets`: see `ConquestVectorEnv`."""
    return with_forecast(_FEATURES, _FORCE, fleets)


def seen_by(galaxies: Galaxies, games: Ints, players: Ints, min_ships: int, fleets: str) -> EntityBatch:
    """Return what `players` (L,), 1 or 2, of `games` (L,) observe; `fleets`: see `ConquestVectorEnv`."""
    names = features(fleets)
    offsets = np.empty((4, len(games) + 1), np.int64)
    max_fleets = galaxies.fleets.shape[1]
    count_views(
        *(galaxies.owned, galaxies.planet_counts, galaxies.fleet_counts, max_fleets),
        *(games, players, "Fleet" in names, min_ships, offsets),
    )
    ahead = room_ahead(fleets, max_fleets)
    write = partial(_observe, galaxies, games, players, ahead, min_ships, offsets)
    return sending_batch(names, len(GLOBALS), offsets, write)


@compiled
def send_chosen(
    galaxies: Galaxies, game: int, player: int, targets: Ints, shares: Ints, min_ships: int
) -> None:
    """Carry out the choices of a player's planets, in the order in which the view lists them."""
    actor, owned = 0, galaxies.owned[game]
    for source in range(galaxies.planet_counts[game]):
        if actor < len(targets) and can_send(owned, source, player, min_ships):
            ships = chosen_ships(owned[source, SHIPS], shares[actor])
            send(galaxies, game, player, source, targets[actor], ships)
            actor += 1


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
    ahead: GalaxiesAhead,
    min_ships: int,
    offsets: Ints,
    planets: Floats,
    fleets: Floats,
    global_rows: Floats,
    actors: Ints,
    actees: Ints,
) -> None:
    """Fill in the entities, the global features, actors and actees of each view."""
    ships, growth = np.empty(NUM_PLAYERS + 1, np.int64), np.empty(NUM_PLAYERS + 1, np.int64)
    last_game = -1
    for row in range(len(games)):
        game, player = games[row], players[row]
        if game != last_game:  # the players of a game are neighbours
            look_ahead(galaxies, game, ahead)
            last_game = game
        places, owned, flying = galaxies.places[game], galaxies.owned[game], galaxies.fleets[game]
        actor, acts = offsets[2, row], offsets[2, row] < offsets[2, row + 1]
        for planet in range(galaxies.planet_counts[game]):
            shown = offsets[0, row] + planet
            planets[shown, 0] = places[planet, 0] - _CENTRE
            planets[shown, 1] = places[planet, 1] - _CENTRE
            planets[shown, 2] = owned[planet, GROWTH]
            _show_force(planets, shown, 3, owned[planet, SHIPS], owned[planet, OWNER], player)
            for i in range(len(ahead.horizons)):
                owner, ships_then = ahead.owned[i, planet]
                _show_force(planets, shown, 7 + 4 * i, ships_then, owner, player)
            if acts:
                actees[offsets[3, row] + planet] = planet
                if can_send(owned, planet, player, min_ships):
                    actors[actor] = planet
                    actor += 1
        for i in range(offsets[1, row + 1] - offsets[1, row]):
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
