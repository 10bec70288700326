"""Games of lanes: episodes of several lanes that are one game."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import DatasetError
from .writer import LANE_GAMES


def read_lane_games(path: Path, manifest: Mapping[str, Any]) -> list[int] | None:
    """Return the game of each lane; None: each has its own.

    Raises:
        DatasetError: they are no numbers, one for each lane.
    """
    games = manifest.get(LANE_GAMES)
    is_list = isinstance(games, list) and all(type(game) is int for game in games)
    if games is not None and not (is_list and len(games) == manifest.get("num_envs")):
        raise DatasetError(f"{path}: {LANE_GAMES}: expected a number for each lane, got {games!r:.80}")
    return games


def number_games(
    episodes: NDArray[np.int64],
    lanes: NDArray[np.int64],
    recordings: NDArray[np.int64],
    is_final: NDArray[np.bool_],
    is_active: NDArray[np.bool_],
    tables: Sequence[Sequence[int] | None],
) -> NDArray[np.int64]:
    """Return the number of the game of each of N rows: that of its first episode.

    Lanes of a game begin it together, and the next one after all have ended. So episodes of its lanes belong
    to one game if they are on at the same time; steps at which a lane waits do not count.

    Args:
        episodes, lanes, recordings: numbers of each row (N,).
        is_final: rows with a last observation, which take no time (N,).
        is_active: rows at which the lane is in play (N,).
        tables: of each recording the game of each lane; None: each has its own.
    """
    numbers, places = np.unique(episodes, return_inverse=True)
    games = np.arange(len(numbers))
    times = _times(recordings * (lanes.max(initial=0) + 1) + lanes, ~is_final)
    rows = np.flatnonzero(is_active)
    first = np.full(len(numbers), np.iinfo(np.int64).max)
    last = np.full(len(numbers), -1)
    np.minimum.at(first, places[rows], times[rows])
    np.maximum.at(last, places[rows], times[rows])
    row_of = np.zeros(len(numbers), np.int64)
    row_of[places] = np.arange(len(places))
    current: dict[tuple[int, int], tuple[int, int]] = {}  # recording and game of lanes -> game, its last time
    for index in np.argsort(first, kind="stable").tolist():
        recording, lane = int(recordings[row_of[index]]), int(lanes[row_of[index]])
        table = tables[recording]
        if table is None or last[index] < 0:
            continue
        game, end = current.get((recording, table[lane]), (index, -1))
        if first[index] > end:  # the one of before is over
            game = index
        games[index] = game
        current[recording, table[lane]] = game, max(end, int(last[index]))
    return numbers[games][places]


def _times(groups: NDArray[np.int64], counts: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return how many rows of its group that count are before each row (N,)."""
    order = np.argsort(groups, kind="stable")
    before = np.cumsum(counts[order]) - counts[order]
    firsts = np.flatnonzero(np.diff(groups[order], prepend=-1))
    within = before - np.repeat(before[firsts], np.diff([*firsts, len(groups)]))
    times = np.empty(len(groups), np.int64)
    times[order] = within
    return times
