"""Pictures of a search."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import log10
from pathlib import Path

from matplotlib import colormaps
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ..reports.plots import COLOURS, save

#: Labels on the axis of a range.
_TICKS = 5


@dataclass(frozen=True)
class ParallelAxis:
    """One parameter in parallel coordinates."""

    name: str
    places: Sequence[float]  # of the trials, on the axis
    ends: tuple[float, float]  # of the axis
    ticks: Mapping[float, str]  # labels by place

    @classmethod
    def of_range(
        cls, name: str, values: Sequence[float], low: float, high: float, is_log: bool
    ) -> ParallelAxis:
        """Return the axis of a range of numbers."""

        def place(value: float) -> float:
            return log10(value) if is_log else float(value)

        ends = place(low), place(high)
        at = [ends[0] + (ends[1] - ends[0]) * index / (_TICKS - 1) for index in range(_TICKS)]
        ticks = {where: f"{10**where if is_log else where:.3g}" for where in at}
        return cls(name, [place(value) for value in values], ends, ticks)

    def share(self, place: float) -> float:
        """Return where a place is between the ends, from 0 to 1."""
        return (place - self.ends[0]) / (self.ends[1] - self.ends[0])


def history(path: Path, values: Mapping[int, float], pruned: Collection[int]) -> None:
    """Draw the objective of each trial, and the best so far, into a PNG file."""
    figure = Figure(figsize=(6.4, 3.8), layout="constrained")
    axes = figure.subplots()
    done = {number: value for number, value in sorted(values.items()) if number not in pruned}
    best = [max(list(done.values())[: index + 1]) for index in range(len(done))]
    axes.plot(list(done), list(done.values()), "o", color=COLOURS[0], markersize=4, label="done")
    axes.plot(list(done), best, color=COLOURS[1], drawstyle="steps-post", label="best so far")
    if crossed := {number: value for number, value in values.items() if number in pruned}:
        axes.plot(list(crossed), list(crossed.values()), "x", color="#888888", label="pruned")
    axes.set(xlabel="trial", ylabel="objective")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8)
    save(figure, path)


def importances(path: Path, found: Mapping[str, float]) -> None:
    """Draw the importance of each parameter as a bar into a PNG file."""
    figure = Figure(figsize=(6.4, 0.9 + 0.35 * len(found)), layout="constrained")
    axes = figure.subplots()
    axes.barh(range(len(found)), list(found.values()), color=COLOURS[0])
    axes.set(yticks=range(len(found)), yticklabels=list(found), ylim=(len(found) - 0.5, -0.5))
    axes.set_xlabel("importance")
    axes.grid(alpha=0.3, axis="x")
    save(figure, path)


def parallel(path: Path, axes: Sequence[ParallelAxis], values: Sequence[float | None]) -> None:
    """Draw a line per trial through the values of its parameters into a PNG file, coloured by `values`.

    Trials without a value are thin and grey.
    """
    known = [value for value in values if value is not None]
    figure = Figure(figsize=(2.2 + 1.7 * len(axes), 4.2), layout="constrained")
    plot = figure.subplots()
    norm, colours = Normalize(min(known), max(known)), colormaps["viridis"]
    mark = "o" if len(axes) == 1 else None
    for index, value in enumerate(values):
        heights = [axis.share(axis.places[index]) for axis in axes]
        if value is None:
            plot.plot(range(len(axes)), heights, color="#aaaaaa", linewidth=0.6, marker=mark, zorder=1)
            continue
        plot.plot(range(len(axes)), heights, color=colours(norm(value)), marker=mark, alpha=0.8, zorder=2)
    for place, axis in enumerate(axes):
        plot.axvline(place, color="#444444", linewidth=0.8)
        for where, label in axis.ticks.items():
            plot.text(place, axis.share(where), f" {label}", fontsize=7, va="center")
    plot.set(xlim=(-0.2, len(axes) - 0.4), ylim=(-0.04, 1.04), yticks=[])
    plot.set_xticks(range(len(axes)), [axis.name for axis in axes], fontsize=8)
    plot.spines[:].set_visible(False)
    figure.colorbar(ScalarMappable(norm, colours), ax=plot, label="objective")
    save(figure, path)
