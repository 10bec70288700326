"""Counting episodes in vector environments: how many each lane plays, and which ends count.

Shape alphabet: E lanes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..errors import whole_number


def episode_quota(episodes: int, num_envs: int) -> NDArray[np.int64]:
    """Return the number of `episodes` for each lane (E,), as even as possible.

    Taking the first `episodes` that happen to finish would favour short ones.

    Raises:
        TypeError, ValueError: `episodes` is no whole number, or less than 1.
    """
    episodes = whole_number("episodes", episodes)
    quota = np.full(num_envs, episodes // num_envs)
    quota[: episodes % num_envs] += 1
    return quota


def count_step(
    lengths: NDArray[np.int64], ended: NDArray[np.bool_], active: NDArray[np.bool_] | None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Count a step into the lengths (E,) of running episodes, in place.

    The length of an episode is the number of its steps at which the lane was active. An end without such a
    step since the last end, as where a game is over whose dead agents' episodes had ended, ends no episode.

    Args:
        ended: (E,).
        active: (E,), which lanes were not inactive at the step; None: all.

    Returns:
        the lanes whose episodes ended, and their lengths.
    """
    lengths += 1 if active is None else active
    lanes = np.flatnonzero(ended & (lengths > 0))
    counts = lengths[lanes]
    lengths[ended] = 0
    return lanes, counts
