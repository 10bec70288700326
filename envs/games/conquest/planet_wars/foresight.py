"""The future of a game without further launches: the rules, played ahead on a copy."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .....ragged.compiled import compiled
from ....vector.native_arrays import Ints
from ..forecast import horizons_of
from .maps import MAX_PLANETS, OWNER, SHIPS
from .rules import Galaxies, advance, empty_galaxies


class GalaxiesAhead(NamedTuple):
    """Memory to play ahead in; without horizons nothing is played."""

    horizons: Ints  # (H,): turns
    galaxies: Galaxies  # one game
    owned: Ints  # (H, P, 2): owner and ships of each planet after so many turns


def room_ahead(fleets: str, max_fleets: int) -> GalaxiesAhead:
    """Return the room that games with at most `max_fleets` need; `fleets`: see `ConquestVectorEnv`."""
    horizons = horizons_of(fleets)
    galaxies = empty_galaxies(1, max_fleets if len(horizons) else 0)
    return GalaxiesAhead(horizons, galaxies, np.zeros((len(horizons), MAX_PLANETS, 2), np.int64))


@compiled
def look_ahead(galaxies: Galaxies, game: int, ahead: GalaxiesAhead) -> None:
    """Set `ahead.owned`."""
    copy, played = ahead.galaxies, 0
    if len(ahead.horizons):  # what `advance` reads
        count, flying = galaxies.planet_counts[game], galaxies.fleet_counts[game]
        copy.owned[0] = galaxies.owned[game]
        copy.fleets[0, :flying] = galaxies.fleets[game, :flying]
        copy.planet_counts[0], copy.fleet_counts[0] = count, flying
    for i in range(len(ahead.horizons)):
        for _ in range(ahead.horizons[i] - played):
            advance(copy, 0)
        played = ahead.horizons[i]
        for planet in range(copy.planet_counts[0]):
            ahead.owned[i, planet, 0] = copy.owned[0, planet, OWNER]
            ahead.owned[i, planet, 1] = copy.owned[0, planet, SHIPS]
