"""The report of an ablation: each variant beside the baseline, game by game."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...trainers import Interval
from ..errors import UserError
from ..statistics.aggregates import LEAST_RUNS, bootstrap
from .document import (
    Document,
    Picture,
    ReportColumn,
    ReportTable,
    Row,
    Section,
    interval_values,
    range_values,
)
from .measured_runs import (
    MeasuredRun,
    RunTable,
    format_number,
    origin_section,
    progress,
    short_steps,
    spread,
    state,
    steps_taken,
)
from .network_costs import CostCounter, millions
from .plots import learning_curves, run_panel

#: Game -> variant -> its runs.
Variants = Mapping[str, Mapping[str, Sequence[MeasuredRun]]]

_RESAMPLES = 2000


def ablation_report(
    table: RunTable, folder: Path, baseline: str | None, study: str | None = None
) -> Document:
    """Draw the pictures into `folder`, and say what they and the tables are.

    Args:
        baseline: the variant that the others are compared with; it may have no runs yet.
        study: what the ablation is called.

    Raises:
        UserError: no baseline is named.
    """
    if baseline is None:
        raise UserError("experiment.yaml: expected the variant to compare with, got none. Add baseline: …")
    games = variants_by_game(table, baseline)
    lead = [f"Every variant beside {baseline}."]
    if not any(baseline in variants for variants in games.values()):
        lead = [f"There are no runs of {baseline} yet, beside which every variant is to be."]
    sections = [
        _curve_section(games, baseline, folder),
        Section("Results", tables=[variant_table(games, baseline)]),
        origin_section(table),
    ]
    return Document(f"Ablation: {study or baseline}", lead, sections)


def variant_table(games: Variants, baseline: str, case: str = "game") -> ReportTable:
    """Return the results of all variants, and their differences to the baseline at equal steps.

    Args:
        case: what a game is called in the heading.
    """
    rows = variant_rows(games, baseline)
    window = next(run.window for variants in games.values() for runs in variants.values() for run in runs)
    notes = (
        f"Returns are means over the last 100 episodes of training, averaged over the last"
        f" {short_steps(window)} steps; brackets go from the worst seed to the best.",
        f"The difference to {baseline} is at the same number of steps: the most that all compared seeds have"
        f" reached. These are the finished seeds of a side if it has at least {LEAST_RUNS}, otherwise those"
        " that have reached half of the steps of its furthest. Their number is shown where it is not all."
        f" Brackets: 95 % bootstrap over seeds, where both have at least {LEAST_RUNS}.",
        "Where variants differ in the game itself, such as its size, the difference is also one of"
        " difficulty: `entitize eval RUN` then compares them in the same games.",
        "Multiply-adds are of one step with the mean number of entities while the random policy plays.",
        *(
            f"{row['game']}, {row['variant']}, not counted: {row['not_counted']}"
            for row in rows
            if "not_counted" in row
        ),
    )
    return ReportTable("variants", "Variants", rows, _columns(baseline, case), notes)


def variants_by_game(table: RunTable, baseline: str) -> dict[str, dict[str, list[MeasuredRun]]]:
    """Runs by game and variant.

    These are case and network, as `entitize experiment ablation` makes them. Where a case has the name of the
    baseline and no network has, variants are the cases, and games are what they are trained in.
    """
    by_network = baseline not in table or any(baseline in networks for networks in table.values())
    games: dict[str, dict[str, list[MeasuredRun]]] = {}
    for case, networks in table.items():
        for network, runs in networks.items():
            for run in runs:
                game = case if by_network else run.record.config.env.id.rpartition("/")[2]
                variant = network if by_network else case
                games.setdefault(game, {}).setdefault(variant, []).append(run)
    return games


# -- curves --------------------------------------------------------------------------------------------------


def _curve_section(games: Variants, baseline: str, folder: Path) -> Section:
    """A picture for each game; in a panel for each variant, the baseline too."""
    pictures, silent = [], []
    for game, variants in games.items():
        panels = {}
        for variant, runs in variants.items():
            if variant == baseline and len(variants) > 1:
                continue
            pair = {baseline: variants.get(baseline, ()), "variant": runs}
            panel = run_panel({baseline: runs} if variant == baseline else pair)
            if not panel.is_empty:
                panels[variant] = panel
        if not panels:
            silent.append(game)
            continue
        file = f"{game}.png"
        learning_curves(folder / file, panels, game)
        caption = (
            f"{game}: each variant beside {baseline}. Lines are means over seeds, bands from the worst seed"
            " to the best; a thin line is one seed alone."
        )
        pictures.append(Picture(file, caption))
    words = [f"No episode has ended yet in {', '.join(silent)}."] if silent else []
    return Section("Learning curves", words, pictures)


# -- the table -----------------------------------------------------------------------------------------------


def variant_rows(games: Variants, baseline: str) -> list[dict[str, Any]]:
    """A row for each game and variant, the baseline first."""
    counter = CostCounter()
    rows = []
    for game, variants in games.items():
        order = sorted(variants, key=lambda name: name != baseline)
        for variant in order:
            runs = variants[variant]
            row: dict[str, Any] = {"game": game, "variant": variant, **progress(runs)}
            finals = [run.final() for run in runs if run.has_returns]
            row |= range_values("return", finals)
            row["compared_at"] = None
            if variant != baseline:
                row |= _difference_to(runs, variants.get(baseline, ()))
            rows.append({**row, **counter.of(runs[0].record.config)})
    return rows


def _difference_to(runs: Sequence[MeasuredRun], others: Sequence[MeasuredRun]) -> dict[str, Any]:
    """Return the difference of the mean returns at the most steps that all compared seeds have reached."""
    compared = _compared_seeds(runs), _compared_seeds(others)
    step = min((run.steps for own in compared for run in own), default=0)
    ours, theirs = ([run.return_at(step) for run in own if run.reached(step)] for own in compared)
    if not ours or not theirs:
        return {}
    return {
        "compared_at": step,
        "compared_seeds": len(ours),
        "compared_baseline_seeds": len(theirs),
        "baseline_seeds": len(others),
        **interval_values("difference", _bootstrap_difference(ours, theirs)),
    }


def _compared_seeds(runs: Sequence[MeasuredRun]) -> list[MeasuredRun]:
    """Return the seeds of a variant that are compared, so that one that has hardly begun holds up no other.

    These are the finished ones if there are at least `LEAST_RUNS`. Otherwise they are those that have reached
    at least half of the steps of the furthest. Seeds without returns are left out.
    """
    started = [run for run in runs if run.has_returns]
    finished = [run for run in started if run.record.is_done]
    if len(finished) >= LEAST_RUNS:
        return finished
    furthest = max((run.steps for run in started), default=0)
    return [run for run in started if 2 * run.steps >= furthest]


def _bootstrap_difference(ours: Sequence[float], theirs: Sequence[float]) -> Interval:
    """The difference of two means, with an interval over draws of both: twice the mean of two strata."""
    if min(len(ours), len(theirs)) < LEAST_RUNS:
        return Interval(float(np.mean(ours) - np.mean(theirs)), np.nan, np.nan)
    half = bootstrap(
        {"ours": list(ours), "theirs": [-value for value in theirs]}, "mean", resamples=_RESAMPLES
    )
    return Interval(2 * half.mean, 2 * half.low, 2 * half.high)


def _compared_at(row: Row) -> str:
    """Return the steps of the comparison as text, with the numbers of seeds where these are not all."""
    if row["compared_at"] is None:
        return "–"
    ours, theirs = row["compared_seeds"], row["compared_baseline_seeds"]
    steps = short_steps(row["compared_at"])
    if (ours, theirs) == (row["seeds"], row["baseline_seeds"]):
        return steps
    return f"{steps} ({ours} of {row['seeds']} seeds, baseline {theirs} of {row['baseline_seeds']})"


def _columns(baseline: str, case: str) -> list[ReportColumn]:
    return [
        ReportColumn(case, lambda row: row["game"], is_text=True),
        ReportColumn("variant", lambda row: row["variant"], is_text=True),
        ReportColumn("return [seeds from, to]", lambda row: spread(row, "return")),
        ReportColumn(f"difference to {baseline}", lambda row: spread(row, "difference")),
        ReportColumn("compared at", _compared_at),
        ReportColumn("steps", steps_taken),
        ReportColumn("seeds", lambda row: str(row["seeds"])),
        ReportColumn("hours", lambda row: format_number(row["hours"])),
        ReportColumn("samples/s", lambda row: format_number(row["samples_per_second"], 0)),
        ReportColumn("parameters", lambda row: format_number(row.get("parameters"), 0)),
        ReportColumn("million multiply-adds", lambda row: millions(row.get("multiply_adds"))),
        ReportColumn("entities, mean", lambda row: format_number(row.get("mean_entities"), 1)),
        ReportColumn("state", state, is_text=True),
    ]
