"""Visible units of each lane, sorted, and results of a step, for all lanes at once.

Shape alphabet: G games, L lanes, U units seen by all lanes together, A units that may be given orders.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ....ragged.compiled import compiled
from ..java.records import HEADER, UNIT

_HEADER_SIZE = len(HEADER)
_COUNT = HEADER.index("count")
_RESOURCES_0 = HEADER.index("resources_0")
_IS_OVER, _TIME = HEADER.index("is_over"), HEADER.index("time")

_RECORD_SIZE = len(UNIT)
_PLAYER, _TYPE, _X, _Y = (UNIT.index(name) for name in ("player", "type", "x", "y"))
_ACTION = UNIT.index("action")


@compiled
def read_headers(records: NDArray[np.int32], starts: NDArray[np.int64], headers: NDArray[np.int64]) -> None:
    """Copy the games' headers from `records` into `headers`, and their positions into `starts` (G + 1,)."""
    place = 0
    for game in range(len(starts) - 1):
        starts[game] = place
        for k in range(_HEADER_SIZE):
            headers[k, game] = records[place + k]
        place += _HEADER_SIZE + records[place + _COUNT] * _RECORD_SIZE
    starts[-1] = place


@compiled
def _is_seen(
    records: NDArray[np.int32], first: int, last: int, player: int, unit: int, sight: NDArray[np.int32]
) -> bool:
    """Return true if a unit of `player` among the records `first` to `last` sees the unit at `unit`."""
    for watcher in range(first, last, _RECORD_SIZE):
        if records[watcher + _PLAYER] == player:
            dx = records[watcher + _X] - records[unit + _X]
            dy = records[watcher + _Y] - records[unit + _Y]
            radius = sight[records[watcher + _TYPE]]
            if dx * dx + dy * dy <= radius * radius:
                return True
    return False


@compiled
def sort_units(
    records: NDArray[np.int32],
    starts: NDArray[np.int64],
    headers: NDArray[np.int64],
    lanes: NDArray[np.int64],
    sight: NDArray[np.int32],
    width: int,
    max_steps: int,
    keys: NDArray[np.int64],
    units: NDArray[np.int64],
    offsets: NDArray[np.int64],
    globals_: NDArray[np.float32],
) -> tuple[int, int, int, int]:
    """Sort the visible units of each lane: own, then enemy, then resources, each in the order of their cells.

    Args:
        starts, headers: filled as by `read_headers`.
        lanes: each lane's game and player (2, L).
        sight: how far each unit type sees, in cells (7,); empty: everything is seen.
        width: of the widest map: a cell is y * width + x.
        keys: room for a number per cell, and one more.
        units: room for all units that lanes may see; filled with the places of their records, lane by lane.
        offsets: filled with where each lane's own units, enemy's, resources and own units that may be given
            orders start (4, L + 1).
        globals_: filled with the lanes' global features (L, 3), or (L, 2) without the enemy's resources.

    Returns:
        how many there are of each of the four in `offsets`.
    """
    read_headers(records, starts, headers)
    cells = len(keys) - 1
    total = 0
    offsets[:, 0] = 0
    for lane in range(lanes.shape[1]):
        game, player = lanes[0, lane], lanes[1, lane]
        start = starts[game]
        globals_[lane, 0] = records[start + _TIME] / max_steps
        globals_[lane, 1] = records[start + _RESOURCES_0 + player]
        if globals_.shape[1] > 2:
            globals_[lane, 2] = records[start + _RESOURCES_0 + 1 - player]
        for kind in range(4):
            offsets[kind, lane + 1] = offsets[kind, lane]
        first, last = start + _HEADER_SIZE, starts[game + 1]
        count = 0
        for unit in range(first, last, _RECORD_SIZE):
            owner = records[unit + _PLAYER]
            kind = 0 if owner == player else (2 if owner < 0 else 1)
            if kind and len(sight) and not _is_seen(records, first, last, player, unit, sight):
                continue
            offsets[kind, lane + 1] += 1
            if kind == 0 and records[unit + _ACTION] < 0:
                offsets[3, lane + 1] += 1
            key = kind * cells + records[unit + _Y] * width + records[unit + _X]
            at = count
            while at and keys[at - 1] > key:  # there are few units, and they hardly move
                keys[at], units[total + at] = keys[at - 1], units[total + at - 1]
                at -= 1
            keys[at], units[total + at] = key, unit
            count += 1
        total += count
    return offsets[0, -1], offsets[1, -1], offsets[2, -1], offsets[3, -1]


@compiled
def judge(
    headers: NDArray[np.int64],
    lanes: NDArray[np.int64],
    max_steps: int,
    failed: NDArray[np.bool_],
    weights: NDArray[np.float64],
    earned: NDArray[np.float64],
    raw_rewards: NDArray[np.float64],
    rewards: NDArray[np.float32],
    terminated: NDArray[np.bool_],
    truncated: NDArray[np.bool_],
) -> bool:
    """Weigh the rewards of all lanes, and find the games that have ended.

    Args:
        headers, lanes: as for `sort_units`.
        failed: the games that their bot has ended (G,), which are truncated.
        weights: (6,).
        earned: the raw rewards (L, 6).
        raw_rewards: filled with these.
        rewards, terminated, truncated: filled (L,).

    Returns:
        whether any game has ended.
    """
    any_ended = False
    for lane in range(lanes.shape[1]):
        total = 0.0
        for k in range(len(weights)):
            raw_rewards[lane, k] = earned[lane, k]
            total += earned[lane, k] * weights[k]
        rewards[lane] = total
        game = lanes[0, lane]
        terminated[lane] = headers[_IS_OVER, game] != 0 and not failed[game]
        late = headers[_TIME, game] >= max_steps
        truncated[lane] = not terminated[lane] and (failed[game] or late)
        any_ended |= terminated[lane] or truncated[lane]
    return any_ended
