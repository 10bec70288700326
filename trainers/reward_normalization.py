"""Reward normalization: rewards divided by the standard deviation of their discounted sum.

Shape alphabet: T steps, E environments.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ragged.compiled import compiled

#: A normalized reward is no larger.
CLIP = 10.0
#: Is added to the variance.
EPSILON = 1e-8
#: How many numbers of mean 0 and variance 1 the statistics begin with.
PRIOR_COUNT = 1e-4

# The statistics: an array of these.
_MEAN, _VARIANCE, _COUNT = range(3)


class RewardNormalizer:
    """r ↦ clip(r / √(Var(R) + 1e-8), ±10), with the running variance of every lane's discounted sum R.

        R ← γ R + r at each step, then 0 where the episode ended, terminated or truncated

    This is what VecNormalize does to rewards in OpenAI's Baselines (Procgen's published curves were made
    with it, Cobbe et al. 2020) and in Stable-Baselines3: a step's rewards enter the variance before they are
    divided by it. Rewards are not centred, so that what is good stays good. `NormalizeReward` of Gymnasium
    differs in two things: it does not clip, and at a termination it counts r alone.

    Steps at which a lane is inactive (see `EntityVectorEnv`) do not count: their reward is added to R without
    a discount, is divided like the others, and gives the variance no number.
    """

    def __init__(self, num_envs: int, gamma: float) -> None:
        self.gamma = gamma
        self._statistics = np.array([0.0, 1.0, PRIOR_COUNT])
        self._sums = np.zeros(num_envs)  # R (E,) float64

    @property
    def deviation(self) -> float:
        """The divisor of rewards."""
        return float(np.sqrt(self._statistics[_VARIANCE] + EPSILON))

    def normalize(
        self, rewards: NDArray[np.float32], ended: NDArray[np.bool_], active: NDArray[np.bool_] | None = None
    ) -> NDArray[np.float32]:
        """A rollout's normalized rewards (T, E), of which the statistics take in one step after the other.

        Args:
            rewards: finite, (T, E).
            ended: (T, E), where an episode ended.
            active: (T, E), where an environment was active; None: everywhere.
        """
        normalized = np.empty(rewards.shape, np.float32)
        _normalize(rewards, ended, active, self.gamma, self._statistics, self._sums, normalized)
        return normalized

    def forget_running(self, lanes: NDArray[np.bool_] | None = None) -> None:
        """Let `lanes` (E,) start new episodes; None: all."""
        self._sums[slice(None) if lanes is None else lanes] = 0

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything as arrays, for `restore`."""
        return {"reward_statistics": self._statistics, "reward_sums": self._sums}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Go on from `state()`; running sums only if there are as many environments as there were.

        From the state of a trainer that did not normalize rewards, begin anew.
        """
        self._statistics[:] = state.get("reward_statistics", (0.0, 1.0, PRIOR_COUNT))
        sums = state.get("reward_sums")
        self._sums[:] = 0 if sums is None or len(sums) != len(self._sums) else sums


@compiled(nogil=True)
def _normalize(rewards, ended, active, gamma, statistics, sums, normalized):  # type: ignore[no-untyped-def]
    num_steps, num_envs = rewards.shape
    for t in range(num_steps):
        count = 0
        total = 0.0
        for env in range(num_envs):
            if active is None or active[t, env]:
                sums[env] = gamma * sums[env] + rewards[t, env]
                count += 1
                total += sums[env]
            else:
                sums[env] += rewards[t, env]
        if count:
            mean = total / count
            squares = 0.0
            for env in range(num_envs):
                if active is None or active[t, env]:
                    squares += (sums[env] - mean) ** 2
            _join(statistics, count, mean, squares)
        deviation = np.sqrt(statistics[_VARIANCE] + EPSILON)
        for env in range(num_envs):
            normalized[t, env] = min(max(rewards[t, env] / deviation, -CLIP), CLIP)
            if ended[t, env]:
                sums[env] = 0.0


@compiled(nogil=True)
def _join(statistics, count, mean, squares):  # type: ignore[no-untyped-def]
    """Take in `count` numbers of which mean and sum of squared deviations are known; see `InputNorm`."""
    before = statistics[_COUNT]
    after = before + count
    delta = mean - statistics[_MEAN]
    squares += statistics[_VARIANCE] * before + delta * delta * before * count / after
    statistics[_MEAN] += delta * count / after
    statistics[_VARIANCE] = squares / after
    statistics[_COUNT] = after
