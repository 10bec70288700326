"""Scores of one algorithm, and metrics of many resamples of them at once.

Shape alphabet: T tasks, N scores of all of them, R resamples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

#: (runs, tasks), or the scores of each task.
Scores = ArrayLike | Mapping[str, ArrayLike]
Floats = NDArray[np.float64]

#: Resamples that are in memory at a time.
_BLOCK = 1000


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """The scores of one algorithm, task after task.

    A resample is how often it has each score, `counts` (R, N): then metrics of all resamples are products of
    matrices. The scores themselves are those with counts of one.
    """

    tasks: tuple[str, ...]
    values: Floats  # (N,)
    lengths: NDArray[np.int64]  # (T,)

    @staticmethod
    def of(scores: Scores, name: str = "scores") -> ScoreTable:
        """Raises ValueError where there are no scores, or one is not finite; `name` is in the message."""
        if isinstance(scores, Mapping):
            columns = {task: np.asarray(values, np.float64) for task, values in scores.items()}
        else:
            matrix = np.asarray(scores, np.float64)
            if matrix.ndim != 2:
                raise ValueError(f"{name}: need an array (runs, tasks), got shape {matrix.shape}")
            columns = {f"task {index}": column for index, column in enumerate(matrix.T)}
        if not columns:
            raise ValueError(f"{name}: there are no tasks")
        for task, values in columns.items():
            if values.ndim != 1 or len(values) == 0 or not np.isfinite(values).all():
                raise ValueError(
                    f"{name}: {task}: need a list of finite scores, got shape {values.shape}: {values}"
                )
        lengths = np.array([len(values) for values in columns.values()])
        return ScoreTable(tuple(columns), np.concatenate(list(columns.values())), lengths)

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

    def has_runs(self, least: int) -> bool:
        """Return whether every task has at least so many runs."""
        return bool((self.lengths >= least).all())

    def means(self, counts: Floats) -> Floats:
        """(R, T): the mean of each task."""
        return np.add.reduceat(counts * self.values, self.starts, axis=1) / self.lengths

    def resampled(self, resamples: int, rng: np.random.Generator) -> Iterator[Floats]:
        """Counts (R, N) of runs drawn within each task, a block of resamples after the other."""
        for start in range(0, resamples, _BLOCK):
            size = min(_BLOCK, resamples - start)
            parts = [rng.multinomial(n, np.full(n, 1 / n), size) for n in self.lengths]
            yield np.concatenate(parts, 1).astype(np.float64)


def _iqm(table: ScoreTable, counts: Floats, gamma: float) -> Floats:
    order = np.argsort(table.values)
    shares = (counts * table.weights)[:, order]
    upper = np.cumsum(shares, 1)
    cut = len(order) // 4 / len(order)
    kept = np.minimum(upper, 1 - cut) - np.maximum(upper - shares, cut)
    return np.maximum(kept, 0) @ table.values[order] / (1 - 2 * cut)


def _optimality_gap(table: ScoreTable, counts: Floats, gamma: float) -> Floats:
    return gamma - counts @ (table.weights * np.minimum(table.values, gamma))


def _mean(table: ScoreTable, counts: Floats, gamma: float) -> Floats:
    return counts @ (table.weights * table.values)


def _median(table: ScoreTable, counts: Floats, gamma: float) -> Floats:
    return np.median(table.means(counts), axis=1)


#: Each takes the counts (R, N) and gives a number per resample (R,).
METRIC_FUNCTIONS: Mapping[str, Callable[[ScoreTable, Floats, float], Floats]] = {
    "median": _median,
    "iqm": _iqm,
    "mean": _mean,
    "optimality_gap": _optimality_gap,
}
