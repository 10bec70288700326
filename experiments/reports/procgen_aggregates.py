"""Normalized returns of Procgen's runs at common numbers of steps, and the report's part about all games."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..network_options import network_title
from ..procgen.published_procgen import (
    IMPALA_MEAN_NORMALIZED,
    IMPALA_STEPS,
    PROCGEN_SOURCES,
    PUBLISHED_PROCGEN,
    RANGES,
    Mode,
    impala_return,
    normalize,
)
from ..statistics.aggregates import LEAST_RUNS, Metric, bootstrap, improvements
from ..statistics.curves import Curve, MeanCurve, aggregate_curve
from .document import Picture, ReportColumn, ReportTable, Section, counted, interval_values
from .measured_runs import (
    MeasuredRun,
    RunTable,
    bin_width,
    format_number,
    rollout_size,
    short_steps,
    spread,
)
from .plots import CurvePanel, learning_curves

#: Steps at which runs are compared; published IMPALA is known at all of them.
MILESTONES = (1_000_000, 2_000_000, 5_000_000, 10_000_000, 25_000_000)

#: Of the bootstrap: enough for bounds that are right to their second digit.
RESAMPLES = 2000
_METRICS: tuple[Metric, ...] = ("mean", "iqm", "optimality_gap")

#: Game -> normalized returns, one for each run.
GameScores = dict[str, list[float]]


@dataclass(frozen=True)
class ComparedGame:
    """The game of a run, and the published numbers that its returns can be compared with."""

    name: str
    mode: Mode | None  # whose ranges normalize; None: there are none
    is_published: bool  # easy with all levels, as the published runs


def game_of(run: MeasuredRun) -> ComparedGame:
    """The game of a run, by its configuration."""
    env = run.record.config.env
    name = env.id.rpartition("/")[2]
    mode = env.kwargs.get("distribution_mode", "easy")
    known: Mode | None = mode if mode in RANGES and name in RANGES[mode] else None
    everything = known == "easy" and not env.kwargs.get("num_levels") and name in PUBLISHED_PROCGEN
    return ComparedGame(name, known, everything)


def normalized_returns(run: MeasuredRun, returns: ArrayLike) -> NDArray[np.float64] | None:
    """`returns` of a run, normalized by the ranges of its own game and mode; None where there are none."""
    game = game_of(run)
    return None if game.mode is None else normalize(game.name, returns, game.mode)


def common_game(runs: Sequence[MeasuredRun]) -> ComparedGame:
    """The game of several runs of one case, with published numbers if each run can be compared with them."""
    games = list(map(game_of, runs))
    return replace(games[0], is_published=all(game.is_published for game in games))


def scores_at(step: int, table: RunTable, network: str) -> GameScores:
    """By case, the normalized returns at `step` of those runs of `network` that have reached it."""
    scores: GameScores = {}
    for case, networks in table.items():
        for run in networks.get(network, ()):
            if not run.reached(step):
                continue
            score = normalized_returns(run, run.return_at(step))
            if score is not None:
                scores.setdefault(case, []).append(float(score))
    return scores


def published_mean(step: int, games: Sequence[ComparedGame]) -> float | None:
    """Published IMPALA's mean normalized return over `games` at a published step, or at 0: the random policy.

    None where one of them was trained in another way than the published runs. Of all games it is the mean of
    returns that were not rounded, where that is known.
    """
    names = {game.name for game in games if game.is_published}
    if step in IMPALA_MEAN_NORMALIZED and names == set(PUBLISHED_PROCGEN):
        return IMPALA_MEAN_NORMALIZED[step]
    values = []
    for game in games:
        found = impala_return(game.name, step) if game.is_published else None
        if found is None:
            return None
        values.append(float(normalize(game.name, found.value)))
    return float(np.mean(values))


def aggregate_rows(table: RunTable) -> list[dict[str, Any]]:
    """A row for each of `MILESTONES` and each network that has reached it in some game."""
    rows = []
    for step in MILESTONES:
        for network in _networks(table):
            scores = scores_at(step, table, network)
            if not scores:
                continue
            row: dict[str, Any] = {
                "steps": step,
                "network": network,
                "games": len(scores),
                "runs": sum(map(len, scores.values())),
            }
            for metric in _METRICS:
                row |= interval_values(metric, bootstrap(scores, metric, resamples=RESAMPLES))
            games = [common_game(table[case][network]) for case in scores]
            row["published_mean"] = published_mean(step, games)
            row["published_mean_16"] = IMPALA_MEAN_NORMALIZED[step]
            row["names"] = " ".join(scores)
            rows.append(row)
    return rows


def improvement_rows(table: RunTable) -> list[dict[str, Any]]:
    """For each of `MILESTONES` how probably a run of one network beats one of another, on games of both."""
    rows = []
    for step in MILESTONES:
        for first, second in combinations(_networks(table), 2):
            ours, theirs = scores_at(step, table, first), scores_at(step, table, second)
            common = [case for case in ours if case in theirs]
            if not common:
                continue
            scores = {
                name: {case: own[case] for case in common} for name, own in ((first, ours), (second, theirs))
            }
            row: dict[str, Any] = {"steps": step, "first": first, "second": second, "games": len(common)}
            row |= interval_values("probability", improvements(scores, resamples=RESAMPLES)[first, second])
            for name, own in (("first", first), ("second", second)):
                row[f"{name}_runs"] = sum(map(len, scores[own].values()))
                row |= interval_values(f"{name}_mean", bootstrap(scores[own], "mean", resamples=RESAMPLES))
            row["names"] = " ".join(common)
            rows.append(row)
    return rows


def _networks(table: RunTable) -> list[str]:
    return list(dict.fromkeys(network for networks in table.values() for network in networks))


@dataclass(frozen=True)
class AggregateCurves:
    """Mean normalized return over the same games for each network, beside the published mean over them."""

    games: Sequence[str]
    curves: Mapping[str, MeanCurve]  # by the network's name
    points: Mapping[int, float]  # published
    guide: Mapping[float, float]  # through them, from the random policy on


def aggregate_curves(table: RunTable) -> list[AggregateCurves]:
    """One for each set of games that networks have come equally far in, to the milestone."""
    reached: dict[frozenset[str], int] = {}
    for step in MILESTONES:
        for network in _networks(table):
            if games := frozenset(scores_at(step, table, network)):
                reached[games] = step
    results = []
    for games in sorted(reached, key=len, reverse=True):
        cases = [case for case in table if case in games]
        curves = {}
        for network in _networks(table):
            runs = _runs_as_far(table, network, cases)
            if runs:
                curves[network_title(network)] = _aggregate(runs)
        end = max((int(curve.steps[-1]) for curve in curves.values() if len(curve.steps)), default=0)
        known = [common_game([run for runs in table[case].values() for run in runs]) for case in cases]
        results.append(AggregateCurves(cases, curves, *_published_curve(known, end)))
    return results


def _runs_as_far(table: RunTable, network: str, cases: Sequence[str]) -> dict[str, list[MeasuredRun]]:
    """The runs that reached the last milestone that `network` has reached in all of `cases`."""
    for step in reversed(MILESTONES):
        runs = {case: [run for run in table[case].get(network, ()) if run.reached(step)] for case in cases}
        if all(runs.values()):
            return runs
    return {}


def _aggregate(runs: Mapping[str, Sequence[MeasuredRun]]) -> MeanCurve:
    curves = {}
    for case, own in runs.items():
        scores = [(run.returns.steps, normalized_returns(run, run.returns.values)) for run in own]
        curves[case] = [Curve(steps, values) for steps, values in scores if values is not None]
    everything = [run for own in runs.values() for run in own]
    shortest = min((run.returns for run in everything), key=lambda curve: int(curve.steps[-1]))
    width = max(2 * bin_width([shortest], max(map(rollout_size, everything))), 1)
    return aggregate_curve(curves, width, "mean", resamples=RESAMPLES)


def _published_curve(games: Sequence[ComparedGame], end: int) -> tuple[dict[int, float], dict[float, float]]:
    """The published mean over `games` at its points up to `end`, and the line through them."""
    found = {step: published_mean(step, games) for step in (0, *IMPALA_STEPS)}
    known = {step: mean for step, mean in found.items() if mean is not None}
    if not known or end == 0:
        return {}, {}
    points = {step: mean for step, mean in known.items() if 0 < step <= end}
    line = {float(step): known[step] for step in (0, *points)}
    if end <= max(known):
        line[float(end)] = float(np.interp(end, list(known), list(known.values())))
    return points, line


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
        mean, beside = spread(best, "mean", 3), format_number(best["published_mean"], 3)
        if best["mean_low"] is None:
            mean += f" (without an interval: a game has fewer than {LEAST_RUNS} runs)"
        lines.append(
            f"{network_title(network)} at {where}: mean normalized return {mean};"
            f" {PUBLISHED}, on the same games: {beside}."
        )
    return lines


def names_of(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The networks of a table, each once."""
    return list(dict.fromkeys(row["network"] for row in rows))


_AGGREGATE_COLUMNS = (
    ReportColumn("steps", lambda row: short_steps(row["steps"])),
    ReportColumn("network", lambda row: network_title(row["network"]), is_text=True),
    ReportColumn("games", lambda row: str(row["games"])),
    ReportColumn("runs", lambda row: str(row["runs"])),
    ReportColumn("mean", lambda row: spread(row, "mean", 3)),
    ReportColumn("IMPALA, published, same games", lambda row: format_number(row["published_mean"], 3)),
    ReportColumn("IMPALA, published, 16 games", lambda row: format_number(row["published_mean_16"], 3)),
    ReportColumn("interquartile mean", lambda row: spread(row, "iqm", 3)),
    ReportColumn("optimality gap", lambda row: spread(row, "optimality_gap", 3)),
)

_IMPROVEMENT_COLUMNS = (
    ReportColumn("steps", lambda row: short_steps(row["steps"])),
    ReportColumn(
        "networks", lambda row: f"{network_title(row['first'])} over {network_title(row['second'])}", True
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
    learning_curves(folder / "aggregate.png", panels, "Mean normalized return", "mean normalized return")
    caption = (
        "Mean over games of normalized returns, each network as far as all its runs came. Bands: 95 %"
        f" bootstrap over seeds, where every game has at least {LEAST_RUNS} runs. Dots:"
        f" {PROCGEN_SOURCES['train-procgen']}, over the same games."
    )
    notes = (
        "Each row is about the games in which a run of the network has reached so many steps. Brackets: 95"
        " % stratified bootstrap over seeds (fixed seed). There are none where a game has fewer than"
        f" {LEAST_RUNS} runs. They say nothing about other games.",
        "The names of the games are in the CSV file.",
    )
    tables = [ReportTable("aggregates", "Normalized returns at equal steps", rows, _AGGREGATE_COLUMNS, notes)]
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
