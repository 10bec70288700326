"""Learning curves of the runs of one case, as reports draw them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..statistics.curves import Curve, MeanCurve, range_curve
from .measured_runs import MeasuredRun, bin_width, network_name, rollout_size


def curves_and_tails(
    networks: Mapping[str, Sequence[MeasuredRun]], by_time: bool = False
) -> tuple[dict[str, MeanCurve], dict[str, list[Curve]]]:
    """By the network's name mean and range over seeds as far as all came, and what single seeds have beyond.

    Args:
        by_time: over seconds of training, not over steps.
    """
    curves: dict[str, MeanCurve] = {}
    tails: dict[str, list[Curve]] = {}
    for network, runs in networks.items():
        shown = [run for run in runs if run.has_returns]
        own = [run.timed if by_time else run.returns for run in shown]
        if not shown or not all(len(curve.steps) for curve in own):
            continue
        width = bin_width(own, max(_update_width(run, by_time) for run in shown))
        mean = range_curve(own, width)
        name = network_name(network)
        reached = int(mean.steps[-1]) if len(mean.steps) else 0
        if len(mean.steps):
            curves[name] = mean
        parts = [_from(range_curve([curve], width), reached) for curve in own]
        if beyond := [part for part in parts if len(part.steps) > 1]:
            tails[name] = beyond
    return curves, tails


def _update_width(run: MeasuredRun, by_time: bool) -> int:
    """Steps, or seconds (rounded up, with something to spare), between two lines of a run's metrics."""
    if not by_time:
        return rollout_size(run)
    return int(1.5 * run.seconds * rollout_size(run) / max(run.steps, 1)) + 1


def _from(curve: MeanCurve, start: int) -> Curve:
    later = curve.steps >= start
    return Curve(curve.steps[later], curve.mean[later])
