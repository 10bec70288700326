"""Confidence intervals of means and shares."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from ...envs.errors import whole_number


@dataclass(frozen=True)
class Interval:
    """A mean and the bounds of its confidence interval; NaN where there is none, as of a single value."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        bounds = self.bounds(", ")
        return f"{self.mean:.2f} [{bounds}]" if bounds else f"{self.mean:.2f}"

    def bounds(self, between: str) -> str:
        """Return both bounds as text, with two digits; "" where there is no interval."""
        return "" if math.isnan(self.low) else f"{self.low:.2f}{between}{self.high:.2f}"


def bootstrap_interval(
    values: ArrayLike,
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
    groups: ArrayLike | None = None,
) -> Interval:
    """Mean of `values` (n,) with its percentile bootstrap confidence interval (Efron 1979).

    A single value has no interval: its bounds are NaN.

    Args:
        groups: (n,) a number for each value, equal for values that depend on each other, such as the returns
            of the players of a game: whole groups are drawn (the cluster bootstrap, Davison and Hinkley 1997,
            section 3.8). None: values are independent.

    Raises:
        ValueError: there are no values, or one is not finite, or `level` is not between 0 and 1, or there are
            no `resamples`, or `groups` has another length.
        TypeError: `resamples` is no whole number.
    """
    values = np.asarray(values, np.float64)
    if values.ndim != 1 or len(values) == 0 or not np.isfinite(values).all():
        raise ValueError(f"values: expected a list of finite numbers, got shape {values.shape}: {values}")
    _check_level(level)
    whole_number("bootstrap_interval: resamples", resamples)
    group_of = np.arange(len(values)) if groups is None else np.unique(groups, return_inverse=True)[1]
    if group_of.shape != values.shape:
        raise ValueError(f"groups: expected one of each of {len(values)} values, got shape {group_of.shape}")
    sums, counts = np.bincount(group_of, values), np.bincount(group_of)
    if len(sums) == 1:
        return Interval(float(values.mean()), math.nan, math.nan)
    rng = np.random.default_rng(seed)
    size = max(1, 2**17 // len(sums))  # resamples that fit into the processor's cache
    means = []
    for done in range(0, resamples, size):
        drawn = rng.integers(0, len(sums), (min(size, resamples - done), len(sums)))
        means.append(sums[drawn].mean(1) / counts[drawn].mean(1))
    low, high = np.quantile(np.concatenate(means), [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(values.mean()), float(low), float(high))


def wilson_interval(successes: float, trials: float, level: float = 0.95) -> Interval:
    """The share `successes / trials` with its score confidence interval (Wilson 1927).

    An effective number of trials need not be whole.

    Raises:
        ValueError: there are no trials, more successes than trials or fewer than none, or `level` is not
            between 0 and 1.
    """
    if trials < 1 or not 0 <= successes <= trials:
        raise ValueError(
            f"successes: expected 0 to {trials} of at least one trial, got {successes} of {trials}"
        )
    _check_level(level)
    z = NormalDist().inv_cdf((1 + level) / 2)
    share = successes / trials
    centre = (share + z**2 / (2 * trials)) / (1 + z**2 / trials)
    half = z * math.sqrt(share * (1 - share) / trials + (z / (2 * trials)) ** 2) / (1 + z**2 / trials)
    # Rounding must not leave the share outside, nor the bounds outside of 0 and 1.
    return Interval(share, max(0.0, min(share, centre - half)), min(1.0, max(share, centre + half)))


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise ValueError(f"level: expected a number between 0 and 1, got {level}")
