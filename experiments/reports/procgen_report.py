"""The report of an experiment on Procgen: RogueNet beside IMPALA, ours and published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..network_options import network_title
from ..networks import RANDOM
from ..procgen.published_procgen import (
    IMPALA_STEPS,
    PROCGEN_SOURCES,
    PUBLISHED_PROCGEN,
    Reference,
    impala_return,
    normalize,
)
from .document import Document, Picture, ReportColumn, ReportTable, Section, counted, range_values
from .measured_runs import (
    WINDOW,
    MeasuredRun,
    RunTable,
    format_number,
    origin_section,
    progress,
    rollout_size,
    short_steps,
    spread,
    state,
    steps_taken,
)
from .network_costs import CostCounter, cost_section
from .plots import CurvePanel, beside_published, curve_pictures, learning_curves, run_panel
from .procgen_aggregates import (
    PUBLISHED,
    aggregate_rows,
    aggregate_section,
    common_game,
    game_of,
    headlines,
    names_of,
    normalized_returns,
)

_RANDOM_SOURCE = PROCGEN_SOURCES["lapo"].partition(";")[0]

_PROTOCOL = (
    "Returns are means over the last 100 episodes of training, with sampled actions, averaged over the last"
    " 0.5 million steps; so are the published ones. Shorter runs have the mean of all their steps, in which"
    " short episodes end first, and are not compared."
)

_INTERPOLATED = (
    "~: between published points (1, 2, 5, 10, 25, 50 million steps), on the straight line through them;"
    " before the first, on that from the random policy. Learning slows down, so on average over games such a"
    " line is too low; in a single game it may be too high."
)


def procgen_report(table: RunTable, folder: Path) -> Document:
    """Draw the pictures into `folder`, and say what they and the tables are."""
    rows, over_games = game_rows(table), aggregate_rows(table)
    sections = [
        _curve_section(table, folder),
        _game_section(rows, folder),
        aggregate_section(table, over_games, folder),
        cost_section(table, CostCounter()),
        origin_section(table),
    ]
    lead = [*headlines(over_games), *_lead(table, rows)]
    return Document("Procgen: RogueNet beside IMPALA", lead, sections)


def _lead(table: RunTable, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = []
    for network in dict.fromkeys(row["network"] for row in rows):
        own = [row for row in rows if row["network"] == network]
        beside = [row for row in own if row["difference_mean"] is not None]
        better = sum(row["difference_mean"] > 0 for row in beside)
        runs = sum(row["seeds"] for row in own)
        sentence = f"{network_title(network)}: {counted(runs, 'run')} in {counted(len(own), 'game')}"
        steps = [row["steps_max"] for row in own]
        sentence += f", {steps_taken({'steps_min': min(steps), 'steps_max': max(steps)})} steps."
        if beside:
            games = counted(len(beside), "game")
            sentence += f" Above published IMPALA at as many steps in {better} of {games}"
            between = sum(row["published_interpolated"] for row in beside)
            sentence += f"; in {between} of these that is between published points (~)." if between else "."
        lines.append(sentence)
    unfinished = [
        f"{case}/{network}/{run.record.seed} ({short_steps(run.steps)})"
        for case, networks in table.items()
        for network, runs in networks.items()
        for run in runs
        if not run.record.is_done
    ]
    if unfinished:
        lines.append(f"Unfinished, shown with the steps that they have: {', '.join(unfinished)}.")
    played = {game_of(run).name for networks in table.values() for runs in networks.values() for run in runs}
    if absent := [name for name in PUBLISHED_PROCGEN if name not in played]:
        lines.append(f"Of the 16 games there are no runs of {', '.join(absent)}.")
    return lines


# -- learning curves -----------------------------------------------------------------------------------------


def _curve_section(table: RunTable, folder: Path) -> Section:
    by_steps = {case: steps_panel(networks) for case, networks in table.items()}
    by_time = {case: hours_panel(networks) for case, networks in table.items()}
    lines = "Lines are means over seeds, bands from the worst seed to the best; a thin line is one seed."
    captions = (
        f"{lines} Dots: {PROCGEN_SOURCES['train-procgen']}. Random policy: {_RANDOM_SOURCE}.",
        f"{lines} Hours are those of training on the machine that the runs were made on. {PUBLISHED}, same"
        " steps: its return after as many steps as the longest run has, whatever time they took.",
    )
    pictures = curve_pictures(folder, by_steps, by_time, captions)
    silent = []
    for case, panel in by_steps.items():
        if panel.is_empty:
            silent.append(case)
        else:
            learning_curves(folder / f"{case}.png", {case: panel}, "")
            pictures.append(Picture(f"{case}.png", f"{case}, larger", is_folded=True))
    words = [f"No episode has ended yet in {', '.join(silent)}."] if silent else []
    return Section("Learning curves", words, pictures)


def steps_panel(networks: Mapping[str, Sequence[MeasuredRun]]) -> CurvePanel:
    """Curves over steps of one game, with published IMPALA's points as far as the runs came."""
    panel, game = run_panel(networks), common_game(_all_runs(networks))
    if not game.is_published:
        return panel
    known = PUBLISHED_PROCGEN[game.name]
    end = max(run.steps for run in _all_runs(networks))
    points = {step: value for step, value in known.impala.items() if step <= end}
    guide: dict[float, float] = {0.0: known.random, **{float(step): value for step, value in points.items()}}
    if (at_end := impala_return(game.name, end)) is not None:
        guide[float(end)] = at_end.value
    levels = {RANDOM: known.random}
    return replace(panel, points={PUBLISHED: points}, levels=levels, guides={PUBLISHED: guide})


def hours_panel(networks: Mapping[str, Sequence[MeasuredRun]]) -> CurvePanel:
    """Curves over seconds of training of one game."""
    panel, game = run_panel(networks, by_time=True), common_game(_all_runs(networks))
    if not game.is_published:
        return panel
    levels = {RANDOM: PUBLISHED_PROCGEN[game.name].random}
    at_end = impala_return(game.name, max(run.steps for run in _all_runs(networks)))
    if at_end is not None:
        levels[f"{PUBLISHED}, same steps"] = at_end.value
    return replace(panel, levels=levels)


def _all_runs(networks: Mapping[str, Sequence[MeasuredRun]]) -> list[MeasuredRun]:
    return [run for runs in networks.values() for run in runs]


# -- the table of games --------------------------------------------------------------------------------------


def game_rows(table: RunTable) -> list[dict[str, Any]]:
    """A row for each game and network; what is not known is None."""
    return [_game_row(case, network, runs) for case, own in table.items() for network, runs in own.items()]


def _game_row(case: str, network: str, runs: Sequence[MeasuredRun]) -> dict[str, Any]:
    game = common_game(runs)
    row: dict[str, Any] = {"game": case, "network": network, **progress(runs)}
    ended = [run for run in runs if run.has_returns]
    finals = [run.final() for run in ended]
    row |= range_values("return", finals)
    scores = [normalized_returns(run, final) for run, final in zip(ended, finals, strict=True)]
    row |= range_values("normalised", [float(score) for score in scores if score is not None])
    found = [_published(game.name, run) for run in ended]
    pairs = [(final, beside) for final, beside in zip(finals, found, strict=False) if beside is not None]
    row["published"] = float(np.mean([beside.value for _, beside in pairs])) if pairs else None
    row["published_interpolated"] = any(beside.is_interpolated for _, beside in pairs) if pairs else None
    row["published_normalised"] = (
        float(normalize(game.name, row["published"])) if row["published"] is not None else None
    )
    row |= range_values("difference", [final - beside.value for final, beside in pairs])
    row["random"] = PUBLISHED_PROCGEN[game.name].random if game.is_published else None
    return row


def _published(game: str, run: MeasuredRun) -> Reference | None:
    """The published return that a run is compared with; None: it was trained otherwise, or not for long.

    The episodes that end in the first steps of a training are the short ones, which in some games are won.
    """
    if not game_of(run).is_published or run.steps < WINDOW:
        return None
    return impala_return(game, _steps_meant(run))


def _steps_meant(run: MeasuredRun) -> int:
    """The steps of a run; one that ends with the rollout that reaches a published point is at that point."""
    beyond = [step for step in IMPALA_STEPS if 0 <= run.steps - step < rollout_size(run)]
    return beyond[0] if beyond else run.steps


def _published_value(row: Mapping[str, Any]) -> str:
    mark = "~" if row["published_interpolated"] else ""
    return "–" if row["published"] is None else f"{mark}{format_number(row['published'])}"


def _signed(value: float | None) -> str:
    return "–" if value is None else f"{value:+.2f}"


_GAME_COLUMNS = (
    ReportColumn("game", lambda row: row["game"], is_text=True),
    ReportColumn("network", lambda row: network_title(row["network"]), is_text=True),
    ReportColumn("return [seeds from, to]", lambda row: spread(row, "return")),
    ReportColumn("IMPALA, published, same steps", _published_value),
    ReportColumn("difference", lambda row: _signed(row["difference_mean"])),
    ReportColumn("random policy", lambda row: format_number(row["random"])),
    ReportColumn("normalized", lambda row: format_number(row["normalised_mean"], 3)),
    ReportColumn("steps", steps_taken),
    ReportColumn("seeds", lambda row: str(row["seeds"])),
    ReportColumn("hours", lambda row: format_number(row["hours"])),
    ReportColumn("samples/s", lambda row: format_number(row["samples_per_second"], 0)),
    ReportColumn("state", state, is_text=True),
)


def _game_section(rows: Sequence[Mapping[str, Any]], folder: Path) -> Section:
    pictures = []
    shown = [row for row in rows if row["normalised_mean"] is not None]
    if shown:
        beside_published(folder / "games.png", shown, {name: network_title(name) for name in names_of(shown)})
        caption = (
            "Normalized returns (0 and 1 are the ends of the range of each game) after the steps in"
            " brackets. Black: published IMPALA at as many steps."
        )
        pictures.append(Picture("games.png", caption))
    notes = (
        _PROTOCOL,
        _INTERPOLATED,
        "Hours and samples per second are means over seeds, of rollouts and updates, on the machine that"
        " the runs were made on.",
        f"Published IMPALA: {PROCGEN_SOURCES['train-procgen']}. Random policy: {_RANDOM_SOURCE}. Ranges:"
        f" {PROCGEN_SOURCES['cobbe']}.",
    )
    table = ReportTable("games", "Every game", rows, _GAME_COLUMNS, notes)
    return Section("Games", pictures=pictures, tables=[table])
