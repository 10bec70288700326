"""What others have published about agents that play Procgen, as numbers; the ranges that normalise returns.

Sources:
    cobbe: Cobbe, Hesse, Hilton, Schulman, "Leveraging Procedural Generation to Benchmark Reinforcement
        Learning" (ICML 2020, arXiv 1912.01588), the tables of minimal and maximal returns.
    train-procgen: the runs of those authors, in the repository openai/train-procgen (results/): PPO with the
        IMPALA network, easy, all levels, 3 runs; mean return of the last 100 episodes (column eprewmean of
        easy-all-run{0,1,2}/progress-GAME.csv), averaged over the rows of the 0.5 M steps before.
    lapo: the returns of the random policy and of an expert (PPO, 50 M steps, easy, all levels) in the
        repository schmidtdominik/LAPO.
    dataset: the expert (PPO, 50 M steps, easy, all levels) of the data set EpicPinkPenguin/procgen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Mode = Literal["easy", "hard"]

#: Steps at which the runs of train-procgen were read off.
IMPALA_STEPS = (1_000_000, 2_000_000, 5_000_000, 10_000_000, 25_000_000, 50_000_000)
#: Before each of them, over which their returns are averaged.
IMPALA_WINDOW = 500_000

#: Minimal and maximal return of each game: what normalises to 0 and to 1 (cobbe).
RANGES: Mapping[Mode, Mapping[str, tuple[float, float]]] = {
    "easy": {
        "bigfish": (1, 40),
        "bossfight": (0.5, 13),
        "caveflyer": (3.5, 12),
        "chaser": (0.5, 13),
        "climber": (2, 12.6),
        "coinrun": (5, 10),
        "dodgeball": (1.5, 19),
        "fruitbot": (-1.5, 32.4),
        "heist": (3.5, 10),
        "jumper": (3, 10),
        "leaper": (3, 10),
        "maze": (5, 10),
        "miner": (1.5, 13),
        "ninja": (3.5, 10),
        "plunder": (4.5, 30),
        "starpilot": (2.5, 64),
    },
    "hard": {
        "bigfish": (0, 40),
        "bossfight": (0.5, 13),
        "caveflyer": (2, 13.4),
        "chaser": (0.5, 14.2),
        "climber": (1, 12.6),
        "coinrun": (5, 10),
        "dodgeball": (1.5, 19),
        "fruitbot": (-0.5, 27.2),
        "heist": (2, 10),
        "jumper": (1, 10),
        "leaper": (1.5, 10),
        "maze": (4, 10),
        "miner": (1.5, 20),
        "ninja": (2, 10),
        "plunder": (3, 30),
        "starpilot": (1.5, 35),
    },
}

#: Easy games for which the program of train-procgen has another range than the paper.
PROGRAM_EASY_RANGES: Mapping[str, tuple[float, float]] = {"jumper": (1, 10), "leaper": (1.5, 10)}


@dataclass(frozen=True)
class PublishedGame:
    """Returns per episode of one game, easy, all levels."""

    random: float  # lapo
    impala: Mapping[int, float]  # by steps of training; train-procgen
    impala_std: float  # over the 3 runs, at 25 M steps; train-procgen
    expert: float  # lapo
    dataset_expert: float  # dataset


def _game(random: float, impala: tuple[float, ...], std: float, *experts: float) -> PublishedGame:
    return PublishedGame(random, dict(zip(IMPALA_STEPS, impala, strict=True)), std, *experts)


PUBLISHED_PROCGEN: Mapping[str, PublishedGame] = {
    "bigfish": _game(0.9, (1.4, 3.1, 8.6, 12.4, 20.2, 23.7), 0.3, 36.3, 29.2),
    "bossfight": _game(0.05, (0.6, 4.5, 7.5, 7.9, 9.0, 9.2), 0.4, 11.6, 11.4),
    "caveflyer": _game(2.6, (3.7, 4.5, 5.3, 6.2, 7.3, 8.2), 0.3, 9.2, 9.5),
    "chaser": _game(0.7, (1.0, 1.3, 2.2, 3.2, 6.9, 8.1), 0.3, 10.0, 11.5),
    "climber": _game(2.2, (2.9, 3.3, 5.8, 7.1, 10.3, 10.9), 0.2, 10.2, 11.2),
    "coinrun": _game(2.7, (6.5, 8.1, 7.0, 8.4, 9.1, 9.5), 0.3, 9.9, 9.7),
    "dodgeball": _game(0.6, (1.5, 1.4, 1.3, 2.4, 6.5, 9.8), 1.2, 13.5, 16.8),
    "fruitbot": _game(-2.5, (5.4, 19.5, 25.5, 27.5, 29.0, 29.4), 0.3, 29.9, 29.9),
    "heist": _game(3.1, (2.9, 3.4, 3.5, 4.4, 7.1, 9.4), 0.3, 9.7, 10.0),
    "jumper": _game(3.4, (6.0, 6.2, 6.7, 7.2, 7.8, 8.3), 0.1, 8.5, 8.7),
    "leaper": _game(2.5, (3.1, 3.9, 5.1, 6.2, 7.3, 7.2), 0.1, 7.4, 7.7),
    "maze": _game(4.3, (5.5, 5.5, 6.0, 8.1, 9.9, 10.0), 0.0, 10.0, 10.0),
    "miner": _game(1.3, (2.1, 2.8, 5.5, 8.4, 11.1, 11.8), 0.1, 11.9, 12.6),
    "ninja": _game(2.6, (4.8, 4.7, 5.5, 5.8, 8.2, 9.4), 0.5, 9.5, 9.4),
    "plunder": _game(4.3, (3.9, 4.6, 5.6, 8.3, 14.6, 16.0), 1.7, 11.5, 26.0),
    "starpilot": _game(1.5, (6.7, 14.5, 26.1, 30.3, 33.0, 37.3), 1.0, 67.0, 55.3),
}

#: Mean normalised return over the 16 games, by steps, from returns that were not rounded (train-procgen).
IMPALA_MEAN_NORMALISED: Mapping[int, float] = {
    1_000_000: 0.088,
    2_000_000: 0.193,
    5_000_000: 0.297,
    10_000_000: 0.427,
    25_000_000: 0.636,
}

PROCGEN_SOURCES = {
    "cobbe": "Cobbe et al. 2020, arXiv 1912.01588",
    "train-procgen": "PPO with IMPALA, easy, all levels, mean of 3 runs: results/ in openai/train-procgen",
    "lapo": "schmidtdominik/LAPO; the expert is PPO after 50 M steps",
    "dataset": "EpicPinkPenguin/procgen; PPO after 50 M steps",
}


@dataclass(frozen=True)
class Reference:
    """What published runs are taken to have at some number of steps."""

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


def normalise(game: str, returns: ArrayLike, mode: Mode = "easy") -> NDArray[np.float64]:
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
