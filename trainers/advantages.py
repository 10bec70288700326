"""Generalized advantage estimation, and the values that it bootstraps from at every kind of end.

Shape alphabet: T steps, E environments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..envs import EntityBatch
from ..envs.vector.infos import final_observations
from ..ragged.compiled import compiled
from .lanes import Shown
from .runs.guard import check_lanes


class ValueEstimator(Protocol):
    """Interface of what estimates values, such as a `Policy`."""

    def value(self, batch: EntityBatch) -> NDArray[np.float32]:
        """Return the predicted return of each step (B,)."""
        ...


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
    ratios: NDArray[Any] | None = None,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Advantages Â and returns Â + V of a rollout (Schulman et al. 2016, arXiv:1506.02438).

        δₜ = rₜ + γ V′ₜ − V(sₜ)
        Âₜ = δₜ + γ λ Âₜ₊₁      where the episode continues after step t, else Âₜ = δₜ

        V′ₜ = 0                 where the episode terminated at step t (also if it was truncated as well),
              final_valuesₜ     where it was only truncated: the value of the state that it was cut off in,
              V(sₜ₊₁)           otherwise; for the last step of the rollout that is next_values.

    Steps at which an environment is inactive (see `EntityVectorEnv`) are left out: t counts its active steps
    alone, and so does the discounting. Rewards and the first episode end received while inactive are credited
    to the preceding active step; anything between that end and the next active step is dropped, as is what
    comes before the first active step of a rollout.

    With `ratios` wₜ = π(aₜ|sₜ) / μ(aₜ|sₜ), of a policy π that learns from the actions of an earlier policy μ,
    they are those of V-trace with λ (Espeholt et al. 2018, arXiv:1802.01561, equation 1 and remark 2), with
    ρ̄ = c̄ = 1 and V of π:

        vₜ − V(sₜ) = min(1, wₜ) (δₜ + γ λ (vₜ₊₁ − V(sₜ₊₁)))      the returns are vₜ
        Âₜ = δₜ + γ λ (vₜ₊₁ − V(sₜ₊₁))

    Âₜ has no factor wₜ: the ratio of PPO's loss, which is taken to μ, has it already. With wₜ = 1 these are
    the advantages and returns above, bit for bit. IMPACT (Luo et al. 2020, arXiv:1912.00167) clips the ratio
    to a target network instead.

    Args:
        rewards, values, final_values: float (T, E); `final_values` is read only at truncations.
        next_values: float (E,), V of the observations after the rollout's last step.
        terminated, truncated: bool (T, E).
        gamma, gae_lambda: γ and λ.
        active: bool (T, E), false where an environment was inactive; None: it never was.
        ratios: float (T, E), of the probabilities of all actors' actions together; None: 1.

    Returns:
        advantages and returns (T, E) of the dtype of `values`, 0 at inactive steps; sums are kept in float64.

    Raises:
        ValueError: the shapes don't agree.
    """
    shape = np.shape(rewards)
    parts = {"values": values, "final_values": final_values, "terminated": terminated, "truncated": truncated}
    if active is not None:
        parts["active"] = active
    if ratios is not None:
        parts["ratios"] = ratios
    for name, array in parts.items():
        if np.shape(array) != shape:
            raise ValueError(f"{name}: expected the shape of the rewards, {shape}, got {np.shape(array)}")
    if np.shape(next_values) != shape[1:]:
        raise ValueError(f"next_values: expected shape {shape[1:]}, got {np.shape(next_values)}")
    advantages = np.zeros_like(values)
    returns = np.zeros_like(values)
    _scan(
        rewards,
        values,
        next_values,
        final_values,
        terminated,
        truncated,
        gamma,
        gae_lambda,
        active,
        ratios,
        advantages,
        returns,
    )
    return advantages, returns


@compiled
def _scan(  # type: ignore[no-untyped-def]
    rewards, values, next_values, final_values, terminated, truncated, gamma, gae_lambda, active, ratios,
    advantages, returns,
):  # fmt: skip
    num_steps, num_envs = rewards.shape
    following = next_values.astype(np.float64)
    correction = np.zeros(num_envs)  # v - V of the step behind
    late = np.zeros(num_envs)  # rewards of inactive steps that an earlier active one will get
    for t in range(num_steps - 1, -1, -1):
        for env in range(num_envs):
            if terminated[t, env] or truncated[t, env]:
                following[env] = 0.0 if terminated[t, env] else final_values[t, env]
                correction[env] = 0.0
                late[env] = 0.0  # of the next episode, before its first active step
            if active is not None and not active[t, env]:
                late[env] += rewards[t, env]
                continue
            value = np.float64(values[t, env])
            delta = rewards[t, env] + late[env] + gamma * following[env] - value
            late[env] = 0.0
            advantage = delta + gamma * gae_lambda * correction[env]
            correction[env] = advantage if ratios is None else min(1.0, ratios[t, env]) * advantage
            advantages[t, env] = advantage
            returns[t, env] = correction[env] + value
            following[env] = value


def final_values(
    policy: ValueEstimator,
    last_values: NDArray[np.float32],
    terminated: NDArray[np.bool_],
    truncated: NDArray[np.bool_],
    info: Mapping[str, Any],
) -> NDArray[np.float32]:
    """Return the values to bootstrap from at truncations (E,).

    That is the value of the last observation where the environments give it (`info["final_obs"]`), and
    otherwise of the last one before it at which the environment was active, which is in `last_values` (E,)
    already.

    Raises:
        NonFiniteError: a value is NaN or infinite.
        ObservationError: see `final_observations`.
    """
    cut_off = truncated & ~terminated
    if not cut_off.any() or (found := final_observations(info)) is None:
        return last_values
    lanes, final = found
    wanted = cut_off[lanes]
    if not wanted.any():
        return last_values
    values = last_values.copy()
    values[lanes[wanted]] = policy.value(final.gather(np.flatnonzero(wanted)))
    check_lanes("value of the final observation", values)
    return values


def next_values(
    policy: ValueEstimator, last_values: NDArray[np.float32], shown: Shown
) -> NDArray[np.float32]:
    """Return the values to bootstrap from at the end of a rollout (E,).

    That is the value of the current observation or, of an inactive environment, of its last active one, as in
    `last_values` (E,): the value of an inactive observation is never trained.
    """
    if shown.active is None:
        return policy.value(shown.batch)
    values = last_values.copy()
    if shown.active.any():
        values[shown.active] = policy.value(shown.active_steps())
    return values


#: How many numbers there are, their mean, and the sum of their squared distances from it.
Moments = tuple[int, float, float]


def moments(numbers: NDArray[Any]) -> Moments:
    """Return the moments of `numbers` (B,) in float64; (0, 0, 0) without numbers."""
    if not len(numbers):
        return 0, 0.0, 0.0
    exact = np.asarray(numbers, np.float64)
    mean = float(exact.mean())
    return len(exact), mean, float(np.square(exact - mean).sum())


def explained_variance(
    values: NDArray[Any],
    returns: NDArray[Any],
    moments_of: Callable[[NDArray[Any]], Moments] = moments,
) -> float | None:
    """1 − Var(returns − values) / Var(returns): 1 is perfect, 0 a constant's; None: returns don't vary."""
    (_, _, total), (_, _, residual) = moments_of(returns), moments_of(returns - values)
    return 1.0 - residual / total if total else None
