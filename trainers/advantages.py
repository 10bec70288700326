"""Generalized advantage estimation with the right bootstrap at every kind of end.

Shape alphabet: T steps, E environments.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ragged.compiled import compiled


def generalized_advantages(
    rewards: NDArray[Any],
    values: NDArray[Any],
    next_values: NDArray[Any],
    final_values: NDArray[Any],
    terminated: NDArray[np.bool_],
    truncated: NDArray[np.bool_],
    gamma: float,
    gae_lambda: float,
    active: NDArray[np.bool_] | None = None,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Advantages Â and returns Â + V of a rollout (Schulman et al. 2016, arXiv:1506.02438).

        δₜ = rₜ + γ V′ₜ − V(sₜ)
        Âₜ = δₜ + γ λ Âₜ₊₁      where the episode goes on after step t, else Âₜ = δₜ

        V′ₜ = 0                 where the episode terminated at step t (also if it was truncated as well),
              final_valuesₜ     where it was only truncated: the value of the state that it was cut off in,
              V(sₜ₊₁)           otherwise; for the last step of the rollout that is next_values.

    Steps at which an environment is idle (see `EntityVectorEnv`) are left out: t counts its active steps
    alone, and so does the discounting. To the last active step before them belong their rewards, which are
    added to its own, and the first end that comes at it or after it. What comes after that end and before the
    next active step belongs to none, and what comes before the first active step of a rollout belongs to an
    earlier one and is not seen here.

    Args:
        rewards, values, final_values: float (T, E); `final_values` is read only at truncations.
        next_values: float (E,), V of the observations after the rollout's last step.
        terminated, truncated: bool (T, E).
        gamma, gae_lambda: γ and λ.
        active: bool (T, E), false where an environment was idle; None: it never was.

    Returns:
        advantages and returns (T, E) of the dtype of `values`, 0 at idle steps; sums are kept in float64.

    Raises:
        ValueError: the shapes don't agree.
    """
    shape = np.shape(rewards)
    parts = {"values": values, "final_values": final_values, "terminated": terminated, "truncated": truncated}
    if active is not None:
        parts["active"] = active
    for name, array in parts.items():
        if np.shape(array) != shape:
            raise ValueError(f"{name}: expected the shape of the rewards, {shape}, got {np.shape(array)}")
    if np.shape(next_values) != shape[1:]:
        raise ValueError(f"next_values: expected shape {shape[1:]}, got {np.shape(next_values)}")
    advantages = np.zeros_like(values)
    returns = np.zeros_like(values)
    _scan(
        *(rewards, values, next_values, final_values, terminated, truncated),
        *(gamma, gae_lambda, active, advantages, returns),
    )
    return advantages, returns


@compiled
def _scan(  # type: ignore[no-untyped-def]
    rewards, values, next_values, final_values, terminated, truncated, gamma, gae_lambda, active,
    advantages, returns,
):  # fmt: skip
    num_steps, num_envs = rewards.shape
    following = next_values.astype(np.float64)
    advantage = np.zeros(num_envs)
    late = np.zeros(num_envs)  # rewards of idle steps that an earlier active one will get
    for t in range(num_steps - 1, -1, -1):
        for env in range(num_envs):
            if terminated[t, env] or truncated[t, env]:
                following[env] = 0.0 if terminated[t, env] else final_values[t, env]
                advantage[env] = 0.0
                late[env] = 0.0  # of the next episode, before its first active step
            if active is not None and not active[t, env]:
                late[env] += rewards[t, env]
                continue
            value = np.float64(values[t, env])
            delta = rewards[t, env] + late[env] + gamma * following[env] - value
            late[env] = 0.0
            advantage[env] = delta + gamma * gae_lambda * advantage[env]
            advantages[t, env] = advantage[env]
            returns[t, env] = advantage[env] + value
            following[env] = value
