"""Fleets as a forecast: what planets will be if nobody launches anything more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...vector.native_arrays import Ints

#: What `fleets` can be.
FLEETS = ("entities", "forecast")
#: How far the forecast looks ahead, in ticks or turns.
HORIZONS = (5, 10, 20, 40)


def horizons_of(fleets: str) -> Ints:
    """Return how far to look ahead (H,)."""
    return np.array(HORIZONS if fleets == "forecast" else (), np.int64)


def with_forecast(
    entities: Mapping[str, Sequence[str]], force: Sequence[str], fleets: str
) -> dict[str, list[str]]:
    """Return the features of a game's entities; `force`: those that say who has how many ships.

    With a forecast `Planet` has all of `force` again for each horizon, and `Fleet` is gone.
    """
    if fleets != "forecast":
        return {name: list(names) for name, names in entities.items()}
    ahead = [f"{name}_in_{ticks}" for ticks in HORIZONS for name in force]
    return {"Planet": [*entities["Planet"], *ahead]}
