"""The values that stand for what comes after a cut: a truncation, or the end of a rollout.

Shape alphabet: E environments.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..policies.policy import Policy
from .idle import Shown
from .runs.guard import check_lanes


def final_values(
    policy: Policy,
    last_values: NDArray[np.float32],
    terminated: NDArray[np.bool_],
    truncated: NDArray[np.bool_],
    info: Mapping[str, Any],
) -> NDArray[np.float32]:
    """Return the values to bootstrap from at truncations (E,).

    That is the value of the last observation where the environments give it (`info["final_obs"]`), and
    otherwise of the last one before it at which the environment was not idle, which is in `last_values` (E,)
    already.

    Raises:
        NonFiniteError: a value is NaN or infinite.
    """
    cut_off = truncated & ~terminated
    if not cut_off.any() or "final_obs" not in info:
        return last_values
    lanes = np.flatnonzero(info["_final_obs"])  # final_obs holds these, in this order
    wanted = cut_off[lanes]
    if not wanted.any():
        return last_values
    values = last_values.copy()
    values[lanes[wanted]] = policy.value(info["final_obs"].gather(np.flatnonzero(wanted)))
    check_lanes("value of the final observation", values)
    return values


def next_values(policy: Policy, last_values: NDArray[np.float32], shown: Shown) -> NDArray[np.float32]:
    """Return the values to bootstrap from at the end of a rollout (E,).

    That is the value of what the environment shows; or, where it is idle, of what it showed when it last was
    not, as in `last_values` (E,): no network learns what it is worth to be idle.
    """
    if shown.active is None:
        return policy.value(shown.batch)
    values = last_values.copy()
    if shown.active.any():
        values[shown.active] = policy.value(shown.at_work())
    return values
