"""Pictures of training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # no screen is needed

from matplotlib.figure import Figure

from ..trainers import Interval


def learning_curve(
    path: Path, metrics: Sequence[Mapping[str, float]], marks: Mapping[str, Interval], title: str
) -> None:
    """Draw training return over environment steps, with evaluations as bands, into a PNG file.

    Args:
        metrics: lines of a run's `metrics.jsonl`.
        marks: evaluated mean returns with their intervals, by the name in the legend.
    """
    points = [
        (line["step"], line["charts/episodic_return"]) for line in metrics if "charts/episodic_return" in line
    ]
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    axes.plot(
        *zip(*points, strict=True) if points else ((), ()),
        color="#0072B2",
        label="training, last 100 episodes",
    )
    for (name, interval), colour in zip(marks.items(), ("#CC79A7", "#E69F00", "#009E73"), strict=False):
        axes.axhline(interval.mean, color=colour, linestyle="--", label=f"{name}: {interval}")
        axes.axhspan(interval.low, interval.high, color=colour, alpha=0.2, linewidth=0)
    axes.set(title=title, xlabel="environment steps", ylabel="return per episode")
    axes.xaxis.set_major_formatter(
        lambda steps, _: f"{steps / 1e6:g}M" if steps >= 1e6 else f"{steps / 1e3:g}k"
    )
    axes.grid(alpha=0.3)
    axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
