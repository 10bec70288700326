"""Learning curves: read from run folders, put on a common grid of steps, averaged over seeds and tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from ...trainers import read_metrics
from .aggregates import Metric, Resampling, bootstrap

RETURN = "charts/episodic_return"
#: Up to here float64 has every whole number.
_MOST = 2.0**53


@dataclass(frozen=True, eq=False)
class Curve:
    """A number over the environment steps of one run, in the order of the steps."""

    steps: NDArray[np.int64]  # (n,)
    values: NDArray[np.float64]  # (n,)

    def mean_before(self, step: int, window: int) -> float:
        """Mean of the values in the `window` steps that end with `step`.

        Raises:
            ValueError: there are none.
        """
        within = (self.steps > step - window) & (self.steps <= step)
        if not within.any():
            reach = f"from {self.steps[0]:,} to {self.steps[-1]:,}" if len(self.steps) else "empty"
            raise ValueError(f"no value in the {window:,} steps up to {step:,}: the curve is {reach}")
        return float(self.values[within].mean())


@dataclass(frozen=True, eq=False)
class MeanCurve:
    """An aggregate of several curves with pointwise intervals, which are NaN where they can't be known."""

    steps: NDArray[np.int64]  # (n,), where each bin ends
    mean: NDArray[np.float64]  # (n,)
    low: NDArray[np.float64]  # (n,)
    high: NDArray[np.float64]  # (n,)


def metrics_file(run: str | Path) -> Path:
    """The `metrics.jsonl` or `metrics.jsonl.gz` of a run folder; any other path as it is.

    Raises:
        FileNotFoundError: the folder has neither.
        ValueError: it has both.
    """
    path = Path(run)
    if not path.is_dir():
        return path
    found = [file for file in (path / "metrics.jsonl", path / "metrics.jsonl.gz") if file.exists()]
    if not found:
        raise FileNotFoundError(f"{run} holds neither metrics.jsonl nor metrics.jsonl.gz")
    if len(found) > 1:
        raise ValueError(
            f"{run}: expected one file of metrics, got metrics.jsonl and metrics.jsonl.gz: join both into"
            " metrics.jsonl, and remove metrics.jsonl.gz"
        )
    return found[0]


def curve_of(lines: Sequence[Mapping[str, float]], name: str = RETURN) -> Curve:
    """The metric `name` of the lines of a `metrics.jsonl`.

    Lines without it (no episode had ended) are left out.

    Raises:
        ValueError: the steps don't increase, or one is no number of steps.
    """
    points = [(rounded_count(line["step"], "step"), line[name]) for line in lines if name in line]
    steps = np.array([step for step, _ in points], np.int64)
    if (np.diff(steps) <= 0).any():
        before = int(np.argmax(np.diff(steps) <= 0))
        raise ValueError(f"after step {steps[before]} comes step {steps[before + 1]}")
    return Curve(steps, np.array([value for _, value in points], np.float64))


def rounded_count(value: Any, name: str) -> int:
    """Return `value` rounded.

    Raises:
        ValueError: it is negative, no number, or more than float64 can count to.
    """
    if not isinstance(value, int | float) or not 0 <= value < _MOST:
        raise ValueError(f"{name}: expected a number from 0 to 2**53, got {value!r:.50}")
    return round(value)


def read_curve(run: str | Path, name: str = RETURN) -> Curve:
    """`curve_of` a run folder, or of its `metrics.jsonl` or `metrics.jsonl.gz`.

    Raises:
        FileNotFoundError: there are no metrics.
        ValueError: the file is damaged, there are two, or the steps don't increase.
    """
    path = metrics_file(run)
    metrics = read_metrics(path)
    try:
        return curve_of(metrics, name)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def common_bins(curves: Sequence[Curve], width: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The curves on one grid: the mean of each in each bin of `width` steps in which all of them have values.

    A bin ends with a multiple of `width`, which belongs to it: its value is about the `width` steps before.
    Of a bin at the end of a curve at least half must have been reached.

    Returns:
        Where the bins end (n,), and the means (curves, n).

    Raises:
        ValueError: there are no curves, or `width` is not positive.
    """
    if not curves:
        raise ValueError("curves: expected at least one, got none")
    if width < 1:
        raise ValueError(f"width: expected a positive number of steps, got {width}")
    bins = [-(-curve.steps // width) for curve in curves]
    shared = reduce(np.intersect1d, bins, np.unique(bins[0]))
    reached = min(int(curve.steps[-1]) if len(curve.steps) else 0 for curve in curves)
    shared = shared[shared * width - width / 2 <= reached]
    means = [_mean_in(shared, own, curve.values) for own, curve in zip(bins, curves, strict=True)]
    return shared * width, np.stack(means)


def _mean_in(
    chosen: NDArray[np.int64], bins: NDArray[np.int64], values: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Means of `values` by their bins, of the `chosen` ones."""
    kept = np.isin(bins, chosen)
    places = np.searchsorted(chosen, bins[kept])
    counts = np.bincount(places, minlength=len(chosen))
    return np.bincount(places, values[kept], len(chosen)) / counts


def range_curve(curves: Sequence[Curve], width: int) -> MeanCurve:
    """The mean over the runs of one task, between the worst and the best of them.

    Raises:
        ValueError: as `common_bins`.
    """
    steps, values = common_bins(curves, width)
    return MeanCurve(steps, values.mean(0), values.min(0), values.max(0))


def mean_curve(curves: Sequence[Curve], width: int, **options: Unpack[Resampling]) -> MeanCurve:
    """The mean over the runs of one task, with a bootstrap interval over runs.

    Args:
        width: of a bin, in steps; see `common_bins`.
        options: see `Resampling`; by default with 2,000 resamples.

    Raises:
        ValueError: as `common_bins`.
    """
    return aggregate_curve({"": curves}, width, "mean", **options)


def aggregate_curve(
    curves: Mapping[str, Sequence[Curve]], width: int, metric: Metric = "iqm", **options: Unpack[Resampling]
) -> MeanCurve:
    """A metric over the runs of several tasks at each step, with stratified bootstrap intervals.

    Args:
        curves: by task, of normalized scores.
        width: of a bin, in steps; see `common_bins`.
        options: see `Resampling`; by default with 2,000 resamples.

    Raises:
        ValueError: as `common_bins` and `bootstrap`.
    """
    options = {"resamples": 2000, **options}
    steps, values = common_bins([curve for own in curves.values() for curve in own], width)
    ends = np.cumsum([len(own) for own in curves.values()])[:-1]
    points = [
        bootstrap(dict(zip(curves, np.split(column, ends), strict=True)), metric, **options)
        for column in values.T
    ]
    bounds = np.array([(point.mean, point.low, point.high) for point in points]).reshape(-1, 3)
    return MeanCurve(steps, *bounds.T)
