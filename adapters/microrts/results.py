"""What a step has brought: rewards, and whose game has ended."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from .records import HEADER

_kernel: Any = numba.njit(cache=True, error_model="numpy")

_IS_OVER, _TIME = HEADER.index("is_over"), HEADER.index("time")


@_kernel
def fill_results(
    headers: NDArray[np.int64],
    lane_game: NDArray[np.int64],
    max_steps: int,
    failed: NDArray[np.bool_],
    raw_rewards: NDArray[np.float64],
    weights: NDArray[np.float64],
    rewards: NDArray[np.float32],
    terminated: NDArray[np.bool_],
    truncated: NDArray[np.bool_],
) -> bool:
    """Weigh the rewards of all lanes, and say which games have ended.

    Args:
        headers: of the games (len(HEADER), games).
        failed: the games that their bot has ended (games,), which are truncated.
        raw_rewards: (lanes, 6).
        weights: (6,).
        rewards, terminated, truncated: filled (lanes,).

    Returns:
        whether any game has ended.
    """
    any_ended = False
    for lane in range(len(lane_game)):
        total = 0.0
        for k in range(len(weights)):
            total += raw_rewards[lane, k] * weights[k]
        rewards[lane] = total
        game = lane_game[lane]
        terminated[lane] = headers[_IS_OVER, game] != 0 and not failed[game]
        late = headers[_TIME, game] >= max_steps
        truncated[lane] = not terminated[lane] and (failed[game] or late)
        any_ended |= terminated[lane] or truncated[lane]
    return any_ended
