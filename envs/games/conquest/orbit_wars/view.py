"""Observations of the players of Orbit Wars, and the launches of their choices.

Every player observes the board turned so that the homes look alike: the map has fourfold symmetry.
"""

from __future__ import annotations

import math

import numpy as np

from .....ragged.compiled import compiled
from ....vector.native_arrays import Doubles, Floats, Ints
from ..forecast import with_forecast
from ..sending import can_send, chosen_ships, count_views
from .aim import aim, comet_after, planet_after
from .foresight import BoardsAhead, look_ahead
from .maps import CENTER
from .rules import (
    CREW_OWNER,
    CREW_SHIPS,
    OWNER,
    PRODUCTION,
    RADIUS,
    SHIPS,
    SPEED_X,
    SPEED_Y,
    Boards,
    X,
    Y,
    count_ships,
    fleet_speed,
    launch,
    num_slots,
)

#: Quarter turns of each player's home against that of player 0, by the number of players.
TURNS = {2: np.array([0, 2]), 4: np.array([0, 1, 3, 2])}
#: log(1 + ships) of small fleets and garrisons.
_LOGS = np.log1p(np.arange(1024)).astype(np.float32)

_BODY = ["x", "y", "vx", "vy"]
_FORCE = ["ships", "log_ships", "mine"]
GLOBALS = ["tick", "angular_velocity", "my_ships", "enemy_ships", "my_production", "enemy_production"]


def features(num_players: int, fleets: str) -> dict[str, list[str]]:
    """Return the names of the features of each entity type; `fleets`: see `ConquestVectorEnv`."""
    enemies = ["enemy"] if num_players == 2 else [f"enemy{i}" for i in range(1, num_players)]
    force = [*_FORCE, *enemies]
    planet = [*_BODY, "radius", "production", "comet_ticks", *force]
    return with_forecast({"Planet": planet, "Fleet": [*_BODY, *force]}, force, fleets)


@compiled
def count_seen(
    boards: Boards, games: Ints, players: Ints, shows_fleets: bool, min_ships: int, offsets: Ints
) -> None:
    """Set the `offsets` (4, L + 1) of what `players` of `games` (L,) observe, see `count_views`."""
    counts = np.empty(len(boards.ticks), np.int64)
    for game in range(len(counts)):
        counts[game] = num_slots(boards, game)
    max_fleets = boards.fleets.shape[1]
    count_views(
        boards.owned,
        counts,
        boards.fleet_counts,
        max_fleets,
        games,
        players,
        shows_fleets,
        min_ships,
        offsets,
    )


@compiled
def _turned(turn: int, x: float, y: float) -> tuple[float, float]:
    """Turn back a vector by `turn` quarters."""
    if turn == 0:
        return x, y
    if turn == 1:
        return y, -x
    if turn == 2:
        return -x, -y
    return -y, x


@compiled
def _show_force(rows: Floats, row: int, first: int, ships: int, owner: int, columns: Ints) -> None:
    """Write ships and owner from column `first` on; `columns` (K,): see `_owner_columns`."""
    rows[row, first] = ships
    rows[row, first + 1] = _LOGS[ships] if ships < len(_LOGS) else math.log(1.0 + ships)
    for player in range(len(columns)):
        rows[row, first + 2 + columns[player]] = player == owner


@compiled
def _owner_columns(player: int, turns: Ints) -> Ints:
    """Return the column of each owner's flag as `player` sees it, counted from `mine` (K,)."""
    columns = (turns - turns[player]) % 4
    return columns if len(turns) > 2 else columns // 2


@compiled
def observe(
    boards: Boards,
    games: Ints,
    players: Ints,
    turns: Ints,
    ahead: BoardsAhead,
    min_ships: int,
    offsets: Ints,
    planets: Floats,
    fleets: Floats,
    global_rows: Floats,
    actors: Ints,
    actees: Ints,
) -> None:
    """Fill in the entities, the global features, actors and actees of each view."""
    ships, production = np.empty(len(turns), np.int64), np.empty(len(turns), np.int64)
    velocities = np.empty((2, boards.planets.shape[1]))
    last_game = -1
    for row in range(len(games)):
        game, player = games[row], players[row]
        if game != last_game:  # the players of a game are neighbours
            count_ships(boards, game, ships, production)
            _set_velocities(boards, game, velocities)
            look_ahead(boards, game, ahead)
            last_game = game
        seen = planets[offsets[0, row] : offsets[0, row + 1]]
        columns, owned = _owner_columns(player, turns), boards.owned[game]
        _show_planets(boards, game, turns[player], velocities, seen)
        for slot in range(len(seen)):
            _show_force(seen, slot, 7, owned[slot, SHIPS], owned[slot, OWNER], columns)
            for i in range(len(ahead.horizons)):
                owner, ships_then = ahead.owned[i, slot]
                _show_force(seen, slot, 7 + (i + 1) * (2 + len(columns)), ships_then, owner, columns)
        actor = offsets[2, row]
        if actor < offsets[2, row + 1]:
            for slot in range(len(seen)):
                actees[offsets[3, row] + slot] = slot
                if can_send(owned, slot, player, min_ships):
                    actors[actor] = slot
                    actor += 1
        _show_fleets(
            boards.fleets[game],
            boards.crews[game],
            turns[player],
            columns,
            fleets[offsets[1, row] : offsets[1, row + 1]],
        )
        shown = global_rows[row]
        shown[0], shown[1] = boards.ticks[game], boards.velocities[game]
        shown[2], shown[3] = ships[player], ships.sum() - ships[player]
        shown[4], shown[5] = production[player], production.sum() - production[player]


@compiled
def _set_velocities(boards: Boards, game: int, velocities: Doubles) -> None:
    """Set how far planets and comets move in the coming tick, x and y (2, P)."""
    bodies, count, age = boards.planets[game], boards.planet_counts[game], boards.comet_ages[game]
    group = max(0, boards.comet_groups[game])
    path, length = boards.paths[game, group], boards.path_lengths[game, group]
    for slot in range(num_slots(boards, game)):
        if slot < count:
            x, y = planet_after(bodies[slot], boards.velocities[game], boards.ticks[game], 1.0)
        else:
            x, y, _ = comet_after(path, length, age, slot - count, 1.0)
        velocities[0, slot], velocities[1, slot] = x - bodies[slot, X], y - bodies[slot, Y]


@compiled
def _show_planets(boards: Boards, game: int, turn: int, velocities: Doubles, rows: Floats) -> None:
    bodies, owned, count = boards.planets[game], boards.owned[game], boards.planet_counts[game]
    comet_ticks = boards.path_lengths[game, max(0, boards.comet_groups[game])] - boards.comet_ages[game]
    for slot in range(len(rows)):
        body, row = bodies[slot], rows[slot]
        row[0], row[1] = _turned(turn, body[X] - CENTER, body[Y] - CENTER)
        row[2], row[3] = _turned(turn, velocities[0, slot], velocities[1, slot])
        row[4], row[5] = body[RADIUS], owned[slot, PRODUCTION]
        row[6] = comet_ticks if slot >= count else 0.0


@compiled
def _show_fleets(fleets: Doubles, crews: Ints, turn: int, columns: Ints, rows: Floats) -> None:
    for i in range(len(rows)):
        rows[i, 0], rows[i, 1] = _turned(turn, fleets[i, X] - CENTER, fleets[i, Y] - CENTER)
        rows[i, 2], rows[i, 3] = _turned(turn, fleets[i, SPEED_X], fleets[i, SPEED_Y])
        _show_force(rows, i, 4, crews[i, CREW_SHIPS], crews[i, CREW_OWNER], columns)


@compiled
def order_launches(
    boards: Boards,
    game: int,
    player: int,
    targets: Ints,
    shares: Ints,
    min_ships: int,
    max_speed: float,
    one_and_a_half: float,
    moves: Doubles,
) -> int:
    """Turn the choices of a player's actors into moves (origin, heading, ships); return how many.

    `moves` (P, 3) float64. A planet that selects itself sends nothing, and so does one whose target can't be
    reached.
    """
    count, actor = 0, 0
    owned = boards.owned[game]
    for origin in range(num_slots(boards, game)):
        if actor == len(targets) or not can_send(owned, origin, player, min_ships):
            continue
        target, ships = targets[actor], chosen_ships(owned[origin, SHIPS], shares[actor])
        actor += 1
        if target == origin:
            continue
        heading, is_reachable = aim(
            boards, game, origin, target, fleet_speed(ships, max_speed, one_and_a_half)
        )
        if is_reachable:
            moves[count, 0], moves[count, 1], moves[count, 2] = origin, heading, ships
            count += 1
    return count


@compiled
def carry_out(
    boards: Boards, game: int, player: int, moves: Doubles, max_speed: float, one_and_a_half: float
) -> None:
    """Launch the fleets of `moves` (M, 3)."""
    for i in range(len(moves)):
        launch(
            boards, game, player, int(moves[i, 0]), moves[i, 1], int(moves[i, 2]), max_speed, one_and_a_half
        )
