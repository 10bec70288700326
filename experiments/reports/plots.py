"""Pictures of training."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from itertools import cycle
from pathlib import Path
from typing import Literal

import matplotlib

matplotlib.use("Agg")  # no screen is needed

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from ...files import replace_file
from ...trainers import Interval
from ..microrts.published_microrts import Rates
from ..statistics.aggregates import Profile
from ..statistics.curves import Curve, MeanCurve
from .document import Picture, Row
from .measured_runs import MeasuredRun, curves_and_tails, steps_taken

#: Colours that are different for any colour vision (Okabe & Ito 2008).
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9")


@dataclass(frozen=True)
class CurvePanel:
    """Contents of one panel of `learning_curves`, by name in the legend."""

    curves: Mapping[str, MeanCurve]
    points: Mapping[str, Mapping[int, float]] = field(default_factory=dict)  # published values, by steps
    levels: Mapping[str, float] = field(default_factory=dict)  # drawn as lines across
    guides: Mapping[str, Mapping[float, float]] = field(default_factory=dict)  # dotted lines, without dots
    tails: Mapping[str, Sequence[Curve]] = field(default_factory=dict)  # single runs, drawn thinly

    @property
    def is_empty(self) -> bool:
        """Return True if no run has a curve to draw."""
        return not self.curves and not self.tails


def run_panel(networks: Mapping[str, Sequence[MeasuredRun]], by_time: bool = False) -> CurvePanel:
    """Return the panel of a case: `curves_and_tails` of its networks."""
    curves, tails = curves_and_tails(networks, by_time)
    return CurvePanel(curves, tails=tails)


def curve_pictures(
    folder: Path,
    by_steps: Mapping[str, CurvePanel],
    by_time: Mapping[str, CurvePanel],
    captions: tuple[str, str],
) -> list[Picture]:
    """Draw `learning_curves` of all cases over steps and over hours into `folder`, with these captions."""
    pictures = []
    ways: list[tuple[Literal["steps", "hours"], Mapping[str, CurvePanel], str, str]] = [
        ("steps", by_steps, captions[0], "Returns by environment steps"),
        ("hours", by_time, captions[1], "Returns by hours of training"),
    ]
    for over, panels, caption, title in ways:
        drawn = {case: panel for case, panel in panels.items() if not panel.is_empty}
        if drawn:
            learning_curves(folder / f"curves_{over}.png", drawn, title, over=over)
            pictures.append(Picture(f"curves_{over}.png", caption))
    return pictures


def outcome_bars(
    path: Path, panels: Mapping[str, Mapping[str, Mapping[str, tuple[Rates, Interval | None]]]]
) -> None:
    """Draw games won, tied and lost as stacked bars into a PNG file.

    There is a panel per map and agent, and a bar per bot.

    Args:
        panels: by map, agent and bot the rates in percent and, where known, the interval of the share of wins
            (of 1). The first agent of a map says which bots there are; others may lack some.
    """
    columns = max(len(agents) for agents in panels.values())
    heights = [0.32 * max(len(bots) for bots in agents.values()) + 1.1 for agents in panels.values()]
    figure = Figure(figsize=(2.6 + 2.3 * columns, sum(heights) + 0.3), layout="constrained")
    grid = figure.subplots(len(panels), columns, squeeze=False, height_ratios=heights)
    for row, (board, agents) in zip(grid, panels.items(), strict=True):
        names = list(next(iter(agents.values())))
        for axes, (agent, bots) in zip(row, agents.items(), strict=False):
            _outcome_panel(axes, names, bots)
            axes.set_title(agent, fontsize=8)
            axes.tick_params(labelleft=axes is row[0])
        row[0].set_ylabel(board)
        for axes in row[len(agents) :]:
            axes.set_visible(False)
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    save(figure, path)


def _outcome_panel(
    axes: Axes, names: Sequence[str], bots: Mapping[str, tuple[Rates, Interval | None]]
) -> None:
    """The bars of one agent, from the first bot down."""
    start = [0.0] * len(names)
    for part, colour in (("wins", "#009E73"), ("ties", "#BBBBBB"), ("losses", "#D55E00")):
        widths = [getattr(bots[name][0], part) or 0.0 if name in bots else 0.0 for name in names]
        axes.barh(range(len(names)), widths, left=start, color=colour, label=part)
        start = [left + width for left, width in zip(start, widths, strict=True)]
    for place, name in enumerate(names):
        rates, interval = bots.get(name, (None, None))
        if rates is None:
            axes.text(2, place, "not published", va="center", fontsize=7, color="grey")
        elif interval is not None:
            axes.plot([100 * interval.low, 100 * interval.high], [place, place], color="black", linewidth=1)
    axes.set(xlim=(0, 100), ylim=(len(names) - 0.4, -0.6), yticks=range(len(names)), yticklabels=names)
    axes.set_xlabel("% of games", fontsize=8)


def learning_curves(
    path: Path,
    panels: Mapping[str, CurvePanel],
    title: str,
    quantity: str = "return per episode",
    over: Literal["steps", "hours"] = "steps",
    unit: str = "environment steps",
) -> None:
    """Draw learning curves with their intervals into a PNG file: a panel per task, a colour per name.

    Published points are dots, levels are dashed lines: in the colour of their name, or black and grey where
    no curve has that name. One legend is for all.

    Args:
        over: what curves are by: environment steps, or "hours": seconds, drawn as hours.
        unit: the name of the steps.
    """
    columns = min(4, len(panels))
    rows = -(-len(panels) // columns)
    size = (1 + 3.2 * columns, 1.1 + 2.4 * rows) if len(panels) > 1 else (6.4, 4.2)
    figure = Figure(figsize=size, layout="constrained")
    grid = list(figure.subplots(rows, columns, squeeze=False).flat)
    colours = _panel_colours(panels.values())
    handles: dict[str, Artist] = {}
    for index, (axes, (task, panel)) in enumerate(zip(grid, panels.items(), strict=False)):
        for name, artist in _curve_panel(axes, panel, colours, 1 if over == "steps" else 3600).items():
            handles.setdefault(name, artist)
        axes.set_title(task, fontsize=9)
        if over == "steps":
            axes.xaxis.set_major_formatter(EngFormatter(sep=""))
        if index + columns >= len(panels):
            axes.set_xlabel(unit if over == "steps" else "hours of training", fontsize=8)
        axes.tick_params(labelsize=7)
        axes.grid(alpha=0.3)
    for axes in grid[len(panels) :]:
        axes.set_visible(False)
    figure.suptitle(title)
    figure.supylabel(quantity, fontsize=9)
    order = [name for name in colours if name in handles]
    figure.legend(
        [handles[name] for name in order],
        order,
        loc="outside lower center",
        ncols=min(len(order), max(3, columns + 1)) or 1,
        fontsize=9,
        frameon=False,
    )
    save(figure, path)


def _panel_colours(panels: Iterable[CurvePanel]) -> dict[str, str]:
    """By name, those of curves first."""
    drawn = dict.fromkeys(name for panel in panels for name in (*panel.curves, *panel.tails))
    dotted = dict.fromkeys(name for panel in panels for name in (*panel.points, *panel.guides))
    levels = dict.fromkeys(name for panel in panels for name in panel.levels)
    colours = {name: COLOURS[index % len(COLOURS)] for index, name in enumerate(drawn)}
    for names, shades in ((dotted, ("#222222", "#777777")), (levels, ("#888888", "#222222"))):
        new = [name for name in names if name not in colours]
        colours |= {name: shades[index % len(shades)] for index, name in enumerate(new)}
    return colours


def _curve_panel(axes: Axes, panel: CurvePanel, colours: Mapping[str, str], unit: int) -> dict[str, Artist]:
    """Draw a panel, with steps divided by `unit`; return the artist of each name in the legend."""
    handles: dict[str, Artist] = {}
    for name, curve in panel.curves.items():
        mark = "." if len(curve.steps) == 1 else None  # of one point there is no line to see
        (line,) = axes.plot(curve.steps / unit, curve.mean, color=colours[name], marker=mark)
        axes.fill_between(
            curve.steps / unit, curve.low, curve.high, color=colours[name], alpha=0.2, linewidth=0
        )
        handles[name] = line
    for name, tails in panel.tails.items():
        for tail in tails:
            (line,) = axes.plot(tail.steps / unit, tail.values, color=colours[name], linewidth=0.8, alpha=0.7)
            handles.setdefault(name, line)
    for name, points in panel.points.items():
        style = "o" if name in panel.guides else "o:"
        places = [step / unit for step in points]
        (dots,) = axes.plot(places, list(points.values()), style, color=colours[name], markersize=4)
        handles.setdefault(name, dots)
    for name, guide in panel.guides.items():
        places = [step / unit for step in guide]
        (line,) = axes.plot(places, list(guide.values()), ":", color=colours[name], linewidth=1)
        handles.setdefault(name, line)
    for name, level in panel.levels.items():
        handles.setdefault(name, axes.axhline(level, color=colours[name], linestyle="--", linewidth=1))
    return handles


def beside_published(path: Path, rows: Sequence[Row], names: Mapping[str, str]) -> None:
    """Draw normalized returns game by game into a PNG file, a black line for the published one.

    Args:
        rows: of the table of games, those with a normalized return.
        names: of the networks, in the order of their colours.
    """
    by_game: dict[str, list[Row]] = {}
    for row in rows:
        by_game.setdefault(row["game"], []).append(row)
    games = sorted(by_game, key=lambda game: max(row["normalised_mean"] for row in by_game[game]))
    colours = dict(zip(names, cycle(COLOURS)))
    height = 0.8 / len(names)
    figure = Figure(figsize=(7.5, 1.4 + 0.36 * len(games)), layout="constrained")
    axes = figure.subplots()
    handles: dict[str, Artist] = {}
    for place, game in enumerate(games):
        for index, row in enumerate(by_game[game]):
            middle = place + height * ((len(by_game[game]) - 1) / 2 - index)
            mean, network = row["normalised_mean"], row["network"]
            bar = axes.barh(middle, mean, 0.85 * height, color=colours[network])
            handles[names[network]] = bar.patches[0]
            if row["normalised_low"] is not None:
                ends = [row["normalised_low"], row["normalised_high"]]
                axes.plot(ends, [middle] * 2, color="#444444", linewidth=1)
            if row["published_normalised"] is not None:
                edges = [middle - height / 2, middle + height / 2]
                (line,) = axes.plot([row["published_normalised"]] * 2, edges, color="black", linewidth=2.5)
                handles["IMPALA, published, same steps"] = line
    axes.set_yticks(range(len(games)), [_game_label(game, by_game[game]) for game in games], fontsize=9)
    axes.axvline(0, color="grey", linewidth=0.8)
    axes.set_ylim(-0.6, len(games) - 0.4)
    axes.set_xlabel("normalized return")
    axes.grid(alpha=0.3, axis="x")
    figure.legend(handles.values(), handles, loc="outside upper center", ncols=len(handles), frameon=False)
    save(figure, path)


def _game_label(game: str, rows: Sequence[Row]) -> str:
    return f"{game} ({', '.join(dict.fromkeys(map(steps_taken, rows)))})"


def intervals(path: Path, panels: Mapping[str, Mapping[str, Interval]], title: str) -> None:
    """Draw estimates with their intervals into a PNG file: a panel per metric, a bar per algorithm or pair.

    A bar spans the interval; the mark in it is the estimate, alone where the bounds are NaN.
    """
    names = list(dict.fromkeys(name for panel in panels.values() for name in panel))
    figure = Figure(figsize=(2 + 2.6 * len(panels), 1.2 + 0.35 * len(names)), layout="constrained")
    for axes, (metric, panel) in zip(
        figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True
    ):
        for place, name in enumerate(names):
            if name in panel:
                estimate = panel[name]
                colour = COLOURS[place % len(COLOURS)]
                axes.barh(place, estimate.high - estimate.low, 0.6, estimate.low, color=colour, alpha=0.6)
                axes.plot([estimate.mean], [place], "|", color="black", markersize=13)
        axes.use_sticky_edges = False  # or else the longest bar ends at the frame
        axes.set(ylim=(len(names) - 0.5, -0.5), yticks=range(len(names)))
        axes.set_yticklabels(names if axes is figure.axes[0] else [])
        axes.set_title(metric, fontsize=9)
        axes.tick_params(labelsize=8)
        axes.grid(alpha=0.3, axis="x")
    figure.suptitle(title)
    save(figure, path)


def performance_profile(
    path: Path, profiles: Mapping[str, Profile], title: str, *, quantity: str = "runs"
) -> None:
    """Draw performance profiles with their intervals into a PNG file, a colour per algorithm."""
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    for index, (name, profile) in enumerate(profiles.items()):
        colour = COLOURS[index % len(COLOURS)]
        axes.plot(profile.thresholds, profile.share, color=colour, label=name)
        axes.fill_between(profile.thresholds, profile.low, profile.high, color=colour, alpha=0.2, linewidth=0)
    axes.set(title=title, xlabel="normalized score τ", ylabel=f"share of {quantity} with a score above τ")
    axes.set_ylim(-0.02, 1.02)
    axes.grid(alpha=0.3)
    axes.legend()
    save(figure, path)


def save(figure: Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = BytesIO()
    figure.savefig(content, format="png", dpi=120)
    replace_file(path, content.getvalue())
