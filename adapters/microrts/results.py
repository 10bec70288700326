"""Results of a step: rewards, ends of games, and the visible units of each lane."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...ragged.compiled import compiled
from .java.records import HEADER
from .kernels.sort_kernels import sort_units

_IS_OVER, _TIME = HEADER.index("is_over"), HEADER.index("time")


@compiled
def sort_and_judge(
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
    failed: NDArray[np.bool_],
    weights: NDArray[np.float64],
    earned: NDArray[np.float64],
    raw_rewards: NDArray[np.float64],
    rewards: NDArray[np.float32],
    terminated: NDArray[np.bool_],
    truncated: NDArray[np.bool_],
) -> tuple[int, int, int, int, bool]:
    """`sort_units`; and weigh the rewards of all lanes, and say which games have ended.

    Args:
        failed: the games that their bot has ended (G,), which are truncated.
        weights: (6,).
        earned: the raw rewards (L, 6).
        raw_rewards: filled with these.
        rewards, terminated, truncated: filled (L,).

    Returns:
        what `sort_units` does, and whether any game has ended.
    """
    counts = sort_units(
        records, starts, headers, lanes, sight, width, max_steps, keys, units, offsets, globals_
    )
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
    return (*counts, any_ended)
