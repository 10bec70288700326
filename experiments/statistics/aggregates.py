"""Aggregates of scores over many tasks and few runs, with stratified bootstrap intervals.

What Agarwal et al. recommend in "Deep Reinforcement Learning at the Edge of the Statistical Precipice"
(NeurIPS 2021, arXiv 2108.13264): interquartile mean, optimality gap, performance profiles, probability of
improvement. Scores are to be normalized, so that tasks can be compared.

The scores of an algorithm are an array (runs, tasks), or a mapping from each task to its scores, where tasks
may have different numbers of runs. Every task has the same weight, however many runs it has.

Shape alphabet: T tasks, N scores of all of them, R resamples, K thresholds.
"""

# Not the authors' package rliable: it takes one matrix (runs, tasks), so every task needs as many runs, and
# brings seven more packages (arch, statsmodels, …).
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...envs.errors import one_of
from ...trainers import Interval

#: (runs, tasks), or the scores of each task.
Scores = ArrayLike | Mapping[str, ArrayLike]
Floats = NDArray[np.float64]
Metric = Literal["median", "iqm", "mean", "optimality_gap"]
METRICS: tuple[Metric, ...] = ("median", "iqm", "mean", "optimality_gap")
#: Runs of every task that an interval needs: one or two seeds do not show how far seeds differ.
LEAST_RUNS = 3
#: Resamples that are in memory at a time.
_BLOCK = 1000


class Resampling(TypedDict, total=False):
    """Options of an interval."""

    level: float
    """Level of confidence (default: 0.95)."""
    resamples: int
    """Number of resamples (default: 10,000)."""
    seed: int
    """Seed of the resamples (default: 0)."""
    least_runs: int
    """Below so many runs of a task the bounds are NaN, unknown (default: `LEAST_RUNS`); 1 where scores are of
    games or episodes of one agent, not of runs."""


@dataclass(frozen=True, eq=False)
class Profile:
    """For each threshold the share of runs (or of tasks) that score more, with its interval."""

    thresholds: Floats  # (K,)
    share: Floats  # (K,)
    low: Floats  # (K,)
    high: Floats  # (K,)


def metric_of(scores: Scores, metric: Metric, gamma: float = 1.0) -> float:
    """Return a metric of one algorithm's scores.

        mean            mean over tasks of each task's mean
        median          median over tasks of each task's mean
        optimality_gap  mean amount by which scores fall short of `gamma`; more than `gamma` counts as `gamma`
        iqm             mean of the middle half of the scores, pooled over tasks: of N, N // 4 are dropped at
                        each end

    Where all tasks have the same number of runs, iqm is `scipy.stats.trim_mean(scores, 0.25, axis=None)`.
    Elsewhere the same share of the weight is dropped, a part of a score where the boundary lies in it.

    Raises:
        ValueError: there are no scores, one is not finite, or there is no such metric.
    """
    table = _ScoreTable.of(scores)
    return float(_metric_function(metric, gamma)(table, table.once)[0])


def probability_of_improvement(scores: Scores, other: Scores) -> float:
    """Return the probability that a run of `scores` beats one of `other` on a random task; ties count half.

    Raises:
        ValueError: they have different tasks.
    """
    ours, theirs = _ScoreTable.of(scores), _ScoreTable.of(other)
    _check_same_tasks(("scores", ours), ("other", theirs))
    return float(_improvement(ours, ours.once, theirs, theirs.once)[0])


def bootstrap(
    scores: Scores, metric: Metric = "iqm", *, gamma: float = 1.0, **options: Unpack[Resampling]
) -> Interval:
    """Return a metric of one algorithm's scores with its stratified percentile bootstrap interval.

    Runs are drawn with replacement within each task; the tasks stay.

    Args:
        gamma: of the optimality gap.
        options: see `Resampling`.

    Raises:
        ValueError: there are no scores, or one is not finite, or an option is out of its range.
    """
    return aggregate({"scores": scores}, [metric], gamma=gamma, **options)[metric]["scores"]


def aggregate(
    scores: Mapping[str, Scores],
    metrics: Sequence[Metric] = METRICS,
    *,
    gamma: float = 1.0,
    **options: Unpack[Resampling],
) -> dict[Metric, dict[str, Interval]]:
    """Return the interval of `bootstrap` for each metric and each algorithm of `scores`."""
    tables = {name: _ScoreTable.of(own, name) for name, own in scores.items()}
    return {
        metric: {
            name: Interval(*map(float, _estimate([table], _metric_function(metric, gamma), **options)))
            for name, table in tables.items()
        }
        for metric in metrics
    }


def improvements(
    scores: Mapping[str, Scores],
    pairs: Sequence[tuple[str, str]] | None = None,
    **options: Unpack[Resampling],
) -> dict[tuple[str, str], Interval]:
    """Return `probability_of_improvement` of the first over the second of each pair, with its interval.

    Args:
        pairs: of names in `scores`; by default each algorithm and those after it.
        options: see `Resampling`.

    Raises:
        ValueError: the algorithms of a pair have different tasks, or as `bootstrap`.
        KeyError: an algorithm of `pairs` is not in `scores`.
    """
    tables = {name: _ScoreTable.of(own, name) for name, own in scores.items()}
    _check_resampling(**options)
    results = {}
    for first, second in combinations(tables, 2) if pairs is None else pairs:
        ours, theirs = tables[first], tables[second]
        _check_same_tasks((first, ours), (second, theirs))
        results[first, second] = Interval(*map(float, _estimate([ours, theirs], _improvement, **options)))
    return results


def performance_profiles(
    scores: Mapping[str, Scores],
    thresholds: ArrayLike,
    of: Literal["runs", "averages"] = "runs",
    **options: Unpack[Resampling],
) -> dict[str, Profile]:
    """Return for each algorithm the share of scores above each threshold, with pointwise intervals.

    Args:
        thresholds: (K,).
        of: "runs" is the run-score distribution, the mean over tasks of the share of a task's runs above the
            threshold; "averages" the average-score distribution, the share of tasks whose mean is above it.
        options: see `Resampling`; by default with 2,000 resamples.

    Raises:
        ValueError: as `bootstrap`; `thresholds` is not a list of finite numbers; there is no such `of`.
    """
    limits = np.asarray(thresholds, np.float64)
    if limits.ndim != 1 or not np.isfinite(limits).all():
        raise ValueError(f"thresholds: expected a list of finite numbers, got shape {limits.shape}: {limits}")
    one_of("profiles: of", of, ("runs", "averages"))

    def shares(table: _ScoreTable, counts: Floats) -> Floats:  # (R, K)
        if of == "runs":
            return (counts * table.weights) @ (table.values[:, None] > limits)
        return (table.means(counts)[:, :, None] > limits).mean(1)

    options = {"resamples": 2000, **options}
    tables = {name: _ScoreTable.of(own, name) for name, own in scores.items()}
    return {name: Profile(limits, *_estimate([table], shares, **options)) for name, table in tables.items()}


@dataclass(frozen=True, eq=False)
class _ScoreTable:
    """The scores of one algorithm, task after task.

    A resample is how often it has each score, `counts` (R, N): then metrics of all resamples are products of
    matrices. The scores themselves are those with counts of one.
    """

    tasks: tuple[str, ...]
    values: Floats  # (N,)
    lengths: NDArray[np.int64]  # (T,)

    @staticmethod
    def of(scores: Scores, name: str = "scores") -> _ScoreTable:
        """Raise ValueError where there are no scores, or one is not finite; `name` is in the message."""
        if isinstance(scores, Mapping):
            columns = {task: np.asarray(values, np.float64) for task, values in scores.items()}
        else:
            matrix = np.asarray(scores, np.float64)
            if matrix.ndim != 2:
                raise ValueError(f"{name}: expected an array (runs, tasks), got shape {matrix.shape}")
            columns = {f"task {index}": column for index, column in enumerate(matrix.T)}
        if not columns:
            raise ValueError(f"{name}: expected at least one task, got no tasks")
        for task, values in columns.items():
            if values.ndim != 1 or len(values) == 0 or not np.isfinite(values).all():
                raise ValueError(
                    f"{name}: {task}: expected a list of finite scores, got shape {values.shape}: {values}"
                )
        lengths = np.array([len(values) for values in columns.values()])
        return _ScoreTable(tuple(columns), np.concatenate(list(columns.values())), lengths)

    @property
    def starts(self) -> NDArray[np.int64]:
        """(T,): where each task begins in `values`."""
        return np.cumsum(self.lengths) - self.lengths

    @property
    def weights(self) -> Floats:
        """(N,): of each score; those of a task sum to 1/T."""
        return np.repeat(1 / (len(self.lengths) * self.lengths), self.lengths)

    @property
    def once(self) -> Floats:
        """(1, N): the counts of the scores themselves."""
        return np.ones((1, len(self.values)))

    def means(self, counts: Floats) -> Floats:
        """(R, T): the mean of each task."""
        return np.add.reduceat(counts * self.values, self.starts, axis=1) / self.lengths

    def resampled(self, resamples: int, rng: np.random.Generator) -> Iterator[Floats]:
        """Counts (R, N) of runs drawn within each task, a block of resamples after the other."""
        for start in range(0, resamples, _BLOCK):
            size = min(_BLOCK, resamples - start)
            parts = [rng.multinomial(n, np.full(n, 1 / n), size) for n in self.lengths]
            yield np.concatenate(parts, 1).astype(np.float64)


def _metric_function(metric: Metric, gamma: float) -> Callable[[_ScoreTable, Floats], Floats]:
    """Return the function from counts (R, N) to the metric of each resample (R,)."""
    functions: dict[str, Callable[[_ScoreTable, Floats], Floats]] = {
        "median": lambda table, counts: np.median(table.means(counts), axis=1),
        "iqm": _interquartile_mean,
        "mean": lambda table, counts: counts @ (table.weights * table.values),
        "optimality_gap": lambda table, counts: (
            gamma - counts @ (table.weights * np.minimum(table.values, gamma))
        ),
    }
    one_of("metric", metric, functions)
    return functions[metric]


def _interquartile_mean(table: _ScoreTable, counts: Floats) -> Floats:
    order = np.argsort(table.values)
    shares = (counts * table.weights)[:, order]
    upper = np.cumsum(shares, 1)
    cut = len(order) // 4 / len(order)
    kept = np.minimum(upper, 1 - cut) - np.maximum(upper - shares, cut)
    return np.maximum(kept, 0) @ table.values[order] / (1 - 2 * cut)


def _improvement(ours: _ScoreTable, our_counts: Floats, theirs: _ScoreTable, their_counts: Floats) -> Floats:
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


def _estimate(
    tables: Sequence[_ScoreTable], compute: Callable[..., Floats], **options: Unpack[Resampling]
) -> Any:
    """Return `compute` of the scores with its lower and upper percentile over resamples, each (...).

    `compute` takes each table followed by its counts (R, N), and returns (R, ...).
    """
    level, resamples = _check_resampling(**options)
    rng = np.random.default_rng(options.get("seed", 0))

    def computed(*counts: Floats) -> Floats:
        return compute(*(part for pair in zip(tables, counts, strict=True) for part in pair))

    blocks = zip(*(table.resampled(resamples, rng) for table in tables), strict=True)
    drawn = np.concatenate([computed(*counts) for counts in blocks])
    least = options.get("least_runs", LEAST_RUNS)
    bounds: Any = np.full((2, *drawn.shape[1:]), np.nan)
    if all((table.lengths >= least).all() for table in tables):
        bounds = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return computed(*(table.once for table in tables))[0], *bounds


def _check_resampling(**options: Unpack[Resampling]) -> tuple[float, int]:
    """Return level and resamples.

    Raises:
        ValueError: one is out of its range.
        TypeError: there is no such option.
    """
    if unknown := sorted(options.keys() - Resampling.__annotations__.keys()):
        known = ", ".join(Resampling.__annotations__)
        raise TypeError(f"unknown option {unknown[0]!r}: expected {known}")
    level, resamples = options.get("level", 0.95), options.get("resamples", 10_000)
    if not 0 < level < 1:
        raise ValueError(f"level: expected a number between 0 and 1, got {level}")
    if resamples < 1:
        raise ValueError(f"resamples: expected at least 1, got {resamples}")
    return level, resamples


def _check_same_tasks(one: tuple[str, _ScoreTable], other: tuple[str, _ScoreTable]) -> None:
    (name, ours), (other_name, theirs) = one, other
    apart = sorted(set(ours.tasks) ^ set(theirs.tasks))
    if apart:
        raise ValueError(f"{name} and {other_name}: expected the same tasks; only one has {', '.join(apart)}")
