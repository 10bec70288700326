"""Views and actions of players that send fleets: planets choose a target and a share of their ships."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ....ragged import RaggedArray
from ....ragged.compiled import compiled
from ...actions import ActionMask, Categorical, EntityActionSpace, SelectEntity
from ...batch.entity_batch import EntityBatch
from ...vector.native_arrays import Floats, Ints, all_true

#: The parts of a planet's ships that can be sent.
SHARES = (0.25, 0.5, 0.75, 1.0)
_SHARES = np.array(SHARES)
#: Columns of `owned` in all games.
_OWNER, _SHIPS = 0, 1


def sending_actions() -> EntityActionSpace:
    """Return the actions of a planet: `Target`, a planet, and `Share`, a part of its ships."""
    shares = Categorical([f"{share:.0%}" for share in SHARES])
    return EntityActionSpace({"Target": SelectEntity(), "Share": shares})


def sending_batch(
    features: Mapping[str, Sequence[str]],
    num_globals: int,
    offsets: Ints,
    write: Callable[[Floats, Floats, Floats, Ints, Ints], None],
) -> EntityBatch:
    """Return what players observe, with their actions.

    Args:
        features: of `Planet` and, unless fleets are a forecast, `Fleet`.
        num_globals: global features.
        offsets: of planets, fleets, actors and actees (4, L + 1), see `count_views`.
        write: writes planets, fleets, global features, actors and actees.
    """
    num_planets, num_fleets, num_actors, num_actees = offsets[:, -1].tolist()
    planets = np.empty((num_planets, len(features["Planet"])), np.float32)
    fleets = np.empty((num_fleets, len(features.get("Fleet", ()))), np.float32)
    global_rows = np.empty((offsets.shape[1] - 1, num_globals), np.float32)
    actors, actees = np.empty(num_actors, np.int64), np.empty(num_actees, np.int64)
    write(planets, fleets, global_rows, actors, actees)
    acting = RaggedArray.unchecked(actors, offsets[2])
    pairs = np.concatenate([[0], np.cumsum(np.diff(offsets[2]) * np.diff(offsets[3]))])
    target = ActionMask(
        acting,
        RaggedArray.unchecked(all_true(int(pairs[-1])), pairs),
        RaggedArray.unchecked(actees, offsets[3]),
    )
    share = ActionMask(acting, RaggedArray.unchecked(all_true((num_actors, len(SHARES))), offsets[2]))
    entities = {"Planet": RaggedArray.unchecked(planets, offsets[0])}
    if "Fleet" in features:
        entities["Fleet"] = RaggedArray.unchecked(fleets, offsets[1])
    return EntityBatch(entities, global_rows, {"Target": target, "Share": share})


@compiled
def can_send(owned: Ints, planet: int, player: int, min_ships: int) -> bool:
    """Return whether the player may choose what a planet sends; `owned` (P, 3): of one game."""
    return owned[planet, _OWNER] == player and owned[planet, _SHIPS] >= min_ships


@compiled
def count_views(
    owned: Ints,
    planet_counts: Ints,
    fleet_counts: Ints,
    max_fleets: int,
    games: Ints,
    players: Ints,
    shows_fleets: bool,
    min_ships: int,
    offsets: Ints,
) -> None:
    """Set the `offsets` (4, L + 1) of planets, fleets, actors and actees of the views (L,).

    `owned` (G, P, 3), `planet_counts` and `fleet_counts` (G,) are of all games. There are actors where every
    planet can send a fleet.
    """
    offsets[:, 0] = 0
    for row in range(len(games)):
        game, actors = games[row], 0
        count, flying = planet_counts[game], fleet_counts[game]
        if flying + count <= max_fleets:
            for planet in range(count):
                actors += can_send(owned[game], planet, players[row], min_ships)
        offsets[0, row + 1] = offsets[0, row] + count
        offsets[1, row + 1] = offsets[1, row] + (flying if shows_fleets else 0)
        offsets[2, row + 1] = offsets[2, row] + actors
        offsets[3, row + 1] = offsets[3, row] + (count if actors else 0)


@compiled
def chosen_ships(ships: int, share: int) -> int:
    """Return how many of a planet's ships a choice of `Share` sends."""
    return max(1, int(ships * _SHARES[share]))


@compiled
def share_of(ships: Ints, player: int) -> float:
    """Return a player's share of all players' `ships`."""
    total = ships.sum()
    return ships[player] / total if total else 0.0
