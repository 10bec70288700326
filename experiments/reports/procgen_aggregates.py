"""The part of Procgen's report about all games together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..procgen.published_procgen import PROCGEN_SOURCES
from ..statistics.aggregates import LEAST_RUNS
from .document import Picture, ReportColumn, ReportTable, Section
from .measured_runs import RunTable, network_name, number, short_steps, spread
from .plots import CurvePanel, learning_curves
from .procgen_scores import AggregateCurves, aggregate_curves, improvement_rows

PUBLISHED = "IMPALA, published"


def headlines(over_games: Sequence[Mapping[str, Any]]) -> list[str]:
    """For each network what it comes to over the most games, as far as it came in all of these."""
    lines = []
    for network in names_of(over_games):
        best = max(
            (row for row in over_games if row["network"] == network),
            key=lambda row: (row["games"], row["steps"]),
        )
        where = f"{short_steps(best['steps'])} steps, {counted(best['games'], 'game')}"
        mean, beside = spread(best, "mean", 3), number(best["published_mean"], 3)
        if not np.isfinite(best["mean_low"]):
            mean += f" (without an interval: a game has fewer than {LEAST_RUNS} runs)"
        lines.append(
            f"{network_name(network)} at {where}: mean normalised return {mean};"
            f" {PUBLISHED}, on the same games: {beside}."
        )
    return lines


def counted(number: int, name: str) -> str:
    """1 game, 2 games."""
    return f"{number} {name}{'' if number == 1 else 's'}"


def names_of(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The networks of a table, each once."""
    return list(dict.fromkeys(row["network"] for row in rows))


_AGGREGATE_COLUMNS = (
    ReportColumn("steps", lambda row: short_steps(row["steps"])),
    ReportColumn("network", lambda row: network_name(row["network"]), is_text=True),
    ReportColumn("games", lambda row: str(row["games"])),
    ReportColumn("runs", lambda row: str(row["runs"])),
    ReportColumn("mean", lambda row: spread(row, "mean", 3)),
    ReportColumn("IMPALA, published, same games", lambda row: number(row["published_mean"], 3)),
    ReportColumn("IMPALA, published, 16 games", lambda row: number(row["published_mean_16"], 3)),
    ReportColumn("interquartile mean", lambda row: spread(row, "iqm", 3)),
    ReportColumn("optimality gap", lambda row: spread(row, "optimality_gap", 3)),
)

_IMPROVEMENT_COLUMNS = (
    ReportColumn("steps", lambda row: short_steps(row["steps"])),
    ReportColumn(
        "networks", lambda row: f"{network_name(row['first'])} over {network_name(row['second'])}", True
    ),
    ReportColumn("games", lambda row: str(row["games"])),
    ReportColumn("runs", lambda row: f"{row['first_runs']} and {row['second_runs']}"),
    ReportColumn("probability of improvement", lambda row: spread(row, "probability")),
    ReportColumn("mean of the first", lambda row: spread(row, "first_mean", 3)),
    ReportColumn("mean of the second", lambda row: spread(row, "second_mean", 3)),
)


def aggregate_section(table: RunTable, rows: Sequence[Mapping[str, Any]], folder: Path) -> Section:
    """Return the section of `aggregate_rows`, with curves; draw the picture into `folder`."""
    if not rows:
        return Section(
            "Over games", ["No run has reached 1 million steps, the first number at which runs are compared."]
        )
    panels = {_panel_name(part): _aggregate_panel(part) for part in aggregate_curves(table)}
    learning_curves(folder / "aggregate.png", panels, "Mean normalised return", "mean normalised return")
    caption = (
        "Mean over games of normalised returns, each network as far as all its runs came. Bands: 95 %"
        f" bootstrap over seeds, where every game has at least {LEAST_RUNS} runs. Dots:"
        f" {PROCGEN_SOURCES['train-procgen']}, over the same games."
    )
    notes = (
        "Each row is about the games in which a run of the network has reached so many steps. Brackets: 95"
        " % stratified bootstrap over seeds (fixed seed). There are none where a game has fewer than"
        f" {LEAST_RUNS} runs. They say nothing about other games.",
        "The names of the games are in the CSV file.",
    )
    tables = [ReportTable("aggregates", "Normalised returns at equal steps", rows, _AGGREGATE_COLUMNS, notes)]
    if pairs := improvement_rows(table):
        note = "Over the games in which both have reached so many steps; ties count half."
        tables.append(
            ReportTable("improvement", "Probability of improvement", pairs, _IMPROVEMENT_COLUMNS, (note,))
        )
    return Section("Over games", pictures=[Picture("aggregate.png", caption)], tables=tables)


def _panel_name(part: AggregateCurves) -> str:
    if len(part.games) > 4:
        return f"{len(part.games)} games"
    return ", ".join(part.games)


def _aggregate_panel(part: AggregateCurves) -> CurvePanel:
    return CurvePanel(
        part.curves,
        {PUBLISHED: part.points} if part.guide else {},
        guides={PUBLISHED: part.guide} if part.guide else {},
    )
