"""Aggregates of scores over many tasks and few runs, with stratified bootstrap intervals.

What Agarwal et al. recommend in "Deep Reinforcement Learning at the Edge of the Statistical Precipice"
(NeurIPS 2021, arXiv 2108.13264): interquartile mean, optimality gap, performance profiles, probability of
improvement. Scores are to be normalised, so that tasks can be compared.

The scores of an algorithm are an array (runs, tasks), or a mapping from each task to its scores, where tasks
may have different numbers of runs. Every task has the same weight, however many runs it has.

Shape alphabet: T tasks, N scores of all of them, R resamples, K thresholds.
"""

# Not the authors' package rliable: it takes one matrix (runs, tasks), so every task needs as many runs, and
# brings seven more packages (arch, statsmodels, …).
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from ...trainers import Interval
from .score_table import METRIC_FUNCTIONS, Floats, Scores, ScoreTable

Metric = Literal["median", "iqm", "mean", "optimality_gap"]
METRICS: tuple[Metric, ...] = ("median", "iqm", "mean", "optimality_gap")
#: Runs of every task that an interval needs: one or two seeds do not show how far seeds differ.
LEAST_RUNS = 3


@dataclass(frozen=True, eq=False)
class Profile:
    """For each threshold the share of runs (or of tasks) that score more, with its interval."""

    thresholds: Floats  # (K,)
    share: Floats  # (K,)
    low: Floats  # (K,)
    high: Floats  # (K,)


def interquartile_mean(scores: Scores) -> float:
    """Mean of the middle half of the scores, pooled over tasks: of N, N // 4 are dropped at each end.

    Where all tasks have the same number of runs that is `scipy.stats.trim_mean(scores, 0.25, axis=None)`.
    Elsewhere the same share of the weight is dropped, a part of a score where the boundary lies in it.
    """
    return _point(scores, "iqm")


def optimality_gap(scores: Scores, gamma: float = 1.0) -> float:
    """By how much the scores fall short of `gamma` on average; more than `gamma` counts as `gamma`."""
    return _point(scores, "optimality_gap", gamma)


def mean_score(scores: Scores) -> float:
    """Mean over tasks of each task's mean."""
    return _point(scores, "mean")


def median_score(scores: Scores) -> float:
    """Median over tasks of each task's mean."""
    return _point(scores, "median")


def probability_of_improvement(scores: Scores, other: Scores) -> float:
    """Return the probability that a run of `scores` beats one of `other` on a random task; ties count half.

    Raises:
        ValueError: they have different tasks.
    """
    ours, theirs = ScoreTable.of(scores), ScoreTable.of(other)
    _check_same_tasks(("scores", ours), ("other", theirs))
    return float(_improvement(ours, ours.once, theirs, theirs.once)[0])


def bootstrap(
    scores: Scores,
    metric: Metric = "iqm",
    *,
    gamma: float = 1.0,
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
    least_runs: int = LEAST_RUNS,
) -> Interval:
    """A metric of one algorithm's scores with its stratified percentile bootstrap interval.

    Runs are drawn with replacement within each task; the tasks stay. Where a task has fewer than `least_runs`
    runs, the bounds are NaN: unknown.

    Args:
        gamma: of the optimality gap.
        least_runs: 1 where scores are of games or episodes of one agent, not of runs.

    Raises:
        ValueError: there are no scores, or one is not finite, or an option is out of its range.
    """
    return _bootstrap(ScoreTable.of(scores), metric, gamma, level, resamples, seed, least_runs)


def aggregate(
    scores: Mapping[str, Scores],
    metrics: Sequence[Metric] = METRICS,
    *,
    gamma: float = 1.0,
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
    least_runs: int = LEAST_RUNS,
) -> dict[Metric, dict[str, Interval]]:
    """For each metric and each algorithm of `scores` what `bootstrap` says."""
    tables = {name: ScoreTable.of(own, name) for name, own in scores.items()}
    return {
        metric: {
            name: _bootstrap(table, metric, gamma, level, resamples, seed, least_runs)
            for name, table in tables.items()
        }
        for metric in metrics
    }


def improvements(
    scores: Mapping[str, Scores],
    pairs: Sequence[tuple[str, str]] | None = None,
    *,
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
    least_runs: int = LEAST_RUNS,
) -> dict[tuple[str, str], Interval]:
    """`probability_of_improvement` of the first over the second of each pair, with its interval.

    Args:
        pairs: of names in `scores`; by default each algorithm and those after it.

    Raises:
        ValueError: the algorithms of a pair have different tasks, or as `bootstrap`.
        KeyError: an algorithm of `pairs` is not in `scores`.
    """
    _check_options(level, resamples)
    tables = {name: ScoreTable.of(own, name) for name, own in scores.items()}
    results = {}
    for first, second in combinations(tables, 2) if pairs is None else pairs:
        ours, theirs = tables[first], tables[second]
        _check_same_tasks((first, ours), (second, theirs))
        rng = np.random.default_rng(seed)
        both = zip(ours.resampled(resamples, rng), theirs.resampled(resamples, rng), strict=True)
        drawn = np.concatenate([_improvement(ours, one, theirs, other) for one, other in both])
        low, high = _bounds(drawn, level, all(one.has_runs(least_runs) for one in (ours, theirs)))
        point = float(_improvement(ours, ours.once, theirs, theirs.once)[0])
        results[first, second] = Interval(point, float(low), float(high))
    return results


def performance_profiles(
    scores: Mapping[str, Scores],
    thresholds: ArrayLike,
    of: Literal["runs", "averages"] = "runs",
    *,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
    least_runs: int = LEAST_RUNS,
) -> dict[str, Profile]:
    """For each algorithm the share of scores above each threshold, with pointwise intervals.

    Args:
        thresholds: (K,).
        of: "runs" is the run-score distribution, the mean over tasks of the share of a task's runs above the
            threshold; "averages" the average-score distribution, the share of tasks whose mean is above it.

    Raises:
        ValueError: as `bootstrap`; `thresholds` is not a list of finite numbers; there is no such `of`.
    """
    _check_options(level, resamples)
    limits = np.asarray(thresholds, np.float64)
    if limits.ndim != 1 or not np.isfinite(limits).all():
        raise ValueError(f"thresholds must be a list of finite numbers, got shape {limits.shape}: {limits}")
    if of not in ("runs", "averages"):
        raise ValueError(f"a profile is of 'runs' or 'averages', got {of!r}")
    shares = _shares_of_runs if of == "runs" else _shares_of_averages
    profiles = {}
    for name, own in scores.items():
        table = ScoreTable.of(own, name)
        rng = np.random.default_rng(seed)
        drawn = np.concatenate([shares(table, counts, limits) for counts in table.resampled(resamples, rng)])
        low, high = _bounds(drawn, level, table.has_runs(least_runs))
        profiles[name] = Profile(limits, shares(table, table.once, limits)[0], low, high)
    return profiles


def _improvement(ours: ScoreTable, our_counts: Floats, theirs: ScoreTable, their_counts: Floats) -> Floats:
    """(R,): the mean over tasks of the share of pairs of runs that are won, ties counted half."""
    total = np.zeros(len(our_counts))
    for task, length, start in zip(ours.tasks, ours.lengths, ours.starts, strict=True):
        index = theirs.tasks.index(task)
        mine = slice(start, start + length)
        their_start = theirs.starts[index]
        other = slice(their_start, their_start + theirs.lengths[index])
        difference = ours.values[mine, None] - theirs.values[None, other]
        won = (np.sign(difference) + 1) / 2
        pairs = np.einsum("ri,ij,rj->r", our_counts[:, mine], won, their_counts[:, other], optimize=True)
        total += pairs / won.size
    return total / len(ours.tasks)


def _shares_of_runs(table: ScoreTable, counts: Floats, thresholds: Floats) -> Floats:
    """(R, K)."""
    return (counts * table.weights) @ (table.values[:, None] > thresholds)


def _shares_of_averages(table: ScoreTable, counts: Floats, thresholds: Floats) -> Floats:
    """(R, K)."""
    means = table.means(counts)
    return np.stack([(means > threshold).mean(1) for threshold in thresholds], 1)


def _point(scores: Scores, metric: Metric, gamma: float = 1.0) -> float:
    table = ScoreTable.of(scores)
    return float(METRIC_FUNCTIONS[metric](table, table.once, gamma)[0])


def _bootstrap(
    table: ScoreTable,
    metric: Metric,
    gamma: float,
    level: float,
    resamples: int,
    seed: int,
    least_runs: int,
) -> Interval:
    _check_options(level, resamples)
    if metric not in METRIC_FUNCTIONS:
        raise ValueError(f"there is no metric {metric!r}; there are {', '.join(METRIC_FUNCTIONS)}")
    compute = METRIC_FUNCTIONS[metric]
    rng = np.random.default_rng(seed)
    drawn = np.concatenate([compute(table, counts, gamma) for counts in table.resampled(resamples, rng)])
    low, high = _bounds(drawn, level, table.has_runs(least_runs))
    return Interval(float(compute(table, table.once, gamma)[0]), float(low), float(high))


def _bounds(drawn: Floats, level: float, is_known: bool) -> Any:
    """Lower and upper percentiles over resamples (R, ...)."""
    if not is_known:
        return np.full((2, *drawn.shape[1:]), np.nan)
    return np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2], axis=0)


def _check_options(level: float, resamples: int) -> None:
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level}")
    if resamples < 1:
        raise ValueError(f"resamples must be positive, got {resamples}")


def _check_same_tasks(one: tuple[str, ScoreTable], other: tuple[str, ScoreTable]) -> None:
    (name, ours), (other_name, theirs) = one, other
    apart = sorted(set(ours.tasks) ^ set(theirs.tasks))
    if apart:
        raise ValueError(f"{name} and {other_name} have different tasks: only one has {', '.join(apart)}")
