"""Published returns of agents that play Procgen, and the ranges that normalize returns.

The numbers and their sources are in `published_procgen.yaml`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..config_file import read_yaml

Mode = Literal["easy", "hard"]


@dataclass(frozen=True)
class PublishedGame:
    """Returns per episode of one game, easy, all levels."""

    random: float  # lapo
    impala: Mapping[int, float]  # by steps of training; train-procgen
    impala_std: float  # over the 3 runs, at 25 M steps; train-procgen
    expert: float  # lapo
    dataset_expert: float  # dataset


_FILE: dict[str, Any] = read_yaml(Path(__file__).with_suffix(".yaml"))

PROCGEN_SOURCES: Mapping[str, str] = _FILE["sources"]
#: Steps at which the runs of train-procgen were read.
IMPALA_STEPS: tuple[int, ...] = tuple(_FILE["impala_steps"])
#: The steps before each of them over which returns are averaged.
IMPALA_WINDOW: int = _FILE["impala_window"]
#: Mean normalized return over the 16 games, by steps, from returns that were not rounded.
IMPALA_MEAN_NORMALIZED: Mapping[int, float] = _FILE["impala_mean_normalized"]
#: Minimal and maximal return of each game: what normalizes to 0 and to 1.
RANGES: Mapping[Mode, Mapping[str, tuple[float, float]]] = {
    mode: {game: (low, high) for game, (low, high) in ranges.items()}
    for mode, ranges in _FILE["ranges"].items()
}
#: Easy games for which the program of train-procgen has another range than the paper.
PROGRAM_EASY_RANGES: Mapping[str, tuple[float, float]] = {
    game: (low, high) for game, (low, high) in _FILE["program_easy_ranges"].items()
}
PUBLISHED_PROCGEN: Mapping[str, PublishedGame] = {
    name: PublishedGame(**{**game, "impala": dict(zip(IMPALA_STEPS, game["impala"], strict=True))})
    for name, game in _FILE["games"].items()
}


@dataclass(frozen=True)
class Reference:
    """The published return at some number of steps, or its interpolation."""

    value: float
    is_interpolated: bool  # or else it was published for exactly these steps


def impala_return(game: str, steps: int) -> Reference | None:
    """Published IMPALA's return after `steps` steps of training, easy, all levels.

    Between two published points on the straight line through them; before the first one, on that from the
    random policy at 0 steps. Learning slows down, so on average over games the line is below the true curve;
    in a single game it may be above.

    Returns:
        None beyond the last published point.

    Raises:
        ValueError: there is no such game.
    """
    if game not in PUBLISHED_PROCGEN:
        raise ValueError(f"nothing is published of {game!r}; the games are {', '.join(PUBLISHED_PROCGEN)}")
    known = {0: PUBLISHED_PROCGEN[game].random, **PUBLISHED_PROCGEN[game].impala}
    if steps > max(known):
        return None
    value = float(np.interp(steps, list(known), list(known.values())))
    return Reference(value, steps not in PUBLISHED_PROCGEN[game].impala)


def normalize(game: str, returns: ArrayLike, mode: Mode = "easy") -> NDArray[np.float64]:
    """Returns of `game`, any shape, with its range of `mode` mapped to 0 and 1; not clipped.

    Raises:
        ValueError: there is no such game, or no such mode.
    """
    if mode not in RANGES:
        raise ValueError(f"Procgen's ranges are of the modes {', '.join(RANGES)}, not {mode!r}")
    if game not in RANGES[mode]:
        raise ValueError(f"no range is known of {game!r}; the games are {', '.join(RANGES[mode])}")
    low, high = RANGES[mode][game]
    return (np.asarray(returns, np.float64) - low) / (high - low)
