"""Fleets as a forecast: the owners and ships of planets without further launches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...vector.native_arrays import Ints

#: Values of `fleets`.
FLEETS = ("entities", "forecast")
#: Horizons of the forecast, in ticks or turns.
HORIZONS = (5, 10, 20, 40)


def horizons_of(fleets: str) -> Ints:
    """Return the horizons (H,)."""
    return np.array(HORIZONS if fleets == "forecast" else (), np.int64)


def with_forecast(
    entities: Mapping[str, Sequence[str]], force: Sequence[str], fleets: str
) -> dict[str, list[str]]:
    """Return the features of a game's entities; `force`: those of owner and ships.

    With a forecast `Planet` has all of `force` again for each horizon, and `Fleet` is gone.
    """
    if fleets != "forecast":
        return {name: list(names) for name, names in entities.items()}
    ahead = [f"{name}_in_{ticks}" for ticks in HORIZONS for name in force]
    return {"Planet": [*entities["Planet"], *ahead]}
