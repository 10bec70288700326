"""`entitize report`: curves, tables and sources of runs as one HTML file, Markdown, PNG and CSV."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import tyro

from ..experiments import UserError, is_microrts, is_procgen, parse
from ..experiments.errors import user_errors
from ..experiments.network_options import EXPERIMENT_NETWORKS
from ..experiments.queue import EXPERIMENT, RunRecord, read_experiment, read_sound_runs
from ..experiments.reports import (
    Document,
    MeasuredRun,
    RunTable,
    measure,
    read_single_run,
    run_table,
    write_document,
)
from ..experiments.reports.ablation_report import ablation_report
from ..experiments.reports.comparison_report import comparison_report
from ..experiments.reports.microrts_report import microrts_report
from ..experiments.reports.procgen_report import procgen_report
from ..experiments.reports.run_report import run_report
from ..policies import RUN_CONFIG

KINDS = ("procgen", "microrts", "ablation")


@dataclass(frozen=True)
class ReportArguments:
    """Write a report of runs, finished or not, as HTML, Markdown, PNG and CSV.

    Several run folders are compared: entitize report runs/first runs/second --out runs/comparison

    Example: entitize report runs/procgen
    """

    directory: tyro.conf.Positional[Path]
    """A run folder, or the folder of an experiment with run folders runs/<case>/<network>/<seed> in it."""
    others: tyro.conf.Positional[tuple[Path, ...]] = ()
    """Run folders to compare with it. Runs that differ in nothing but the seed count as one variant."""
    out: Path | None = None
    """The folder of the report (default: report in that folder; needed for several)."""


def main(arguments: Sequence[str]) -> None:
    """Parse and run the command."""
    chosen = parse(ReportArguments, "report", arguments)
    if chosen.others and chosen.out is None:
        raise UserError("the report of several runs has no folder of its own: name it with --out")
    folder = chosen.out or chosen.directory / "report"
    if chosen.others:
        write_comparison([chosen.directory, *chosen.others], folder)
    else:
        write_report(chosen.directory, folder)
    print(folder / "report.html")


def write_comparison(runs: Sequence[Path], folder: Path) -> Document:
    """Write a report of several run folders beside each other into `folder`.

    Raises:
        UserError: a folder is named twice, is no run or can't be read, or a file can't be written.
    """
    seen: set[Path] = set()
    for run in runs:
        if run.resolve() in seen:
            raise UserError(f"{run} is named twice")
        seen.add(run.resolve())
    records = [read_single_run(run) for run in runs]
    return _written(folder, lambda: comparison_report(records, folder))


def write_report(directory: Path, folder: Path) -> Document:
    """Read the run or the runs of the experiment in `directory`, and write the report into `folder`.

    Runs that can't be read are named in it, and left out.

    Raises:
        UserError: there are no runs that can be read, the kind of experiment is unknown, or a
            file can't be written.
    """
    if (directory / RUN_CONFIG).is_file():
        run = measure(read_single_run(directory))
        return _written(folder, lambda: _run_document(run, folder))
    if (read_experiment(directory) or {}).get("kind") == "search":
        return _search_report(directory, folder)
    records, problems = read_sound_runs(directory)
    if problems and not records:
        raise UserError("\n".join(problems))
    if not records:
        raise UserError(
            f"{directory} has no runs: expected a run folder, or an experiment with the run folders"
            " runs/<case>/<network>/<seed>"
        )
    asked = read_experiment(directory) or {}
    kind = asked.get("kind") or _kind_of(records, directory)
    if kind not in KINDS:
        raise UserError(f"{directory / EXPERIMENT}: kind: expected one of {', '.join(KINDS)}, got {kind!r}")
    table = run_table(records)
    missing = _missing_runs(asked, directory)

    def document() -> Document:
        made = _document(kind, table, folder, asked)
        notes = [f"Without a run yet: {', '.join(missing)}."] if missing else []
        notes += [f"Can't be read, and left out: {problem}" for problem in problems]
        return replace(made, paragraphs=[*made.paragraphs, *notes])

    return _written(folder, document)


def _missing_runs(asked: Mapping[str, Any], directory: Path) -> list[str]:
    """Return which runs of an experiment have no folder, as "case/network (seed 0, 1)"."""
    missing = []
    for case, network in product(asked.get("cases", ()), asked.get("networks", ())):
        folder = directory / "runs" / str(case) / str(network)
        seeds = [str(seed) for seed in asked.get("seeds", ()) if not (folder / str(seed)).exists()]
        if seeds:
            missing.append(f"{case}/{network} (seed {', '.join(seeds)})")
    return missing


def _search_report(directory: Path, folder: Path) -> Document:
    with user_errors(ModuleNotFoundError):
        from ..experiments.search import search_report  # Optuna is of an extra
    return _written(folder, lambda: search_report(directory, folder))


def _written(folder: Path, make: Callable[[], Document]) -> Document:
    """Make a document, whose pictures are in `folder`, and write it there."""
    try:
        document = make()
        write_document(document, folder)
    except OSError as error:
        raise UserError(f"{folder} can't be written: {error}") from error
    return document


def _run_document(run: MeasuredRun, folder: Path) -> Document:
    """Return the report of a single run; of Procgen or μRTS, that of an experiment with this run."""
    record = run.record
    if (
        run.has_returns
        and record.network in EXPERIMENT_NETWORKS
        and (kind := _kind_by_environments([record]))
    ):
        return _document(kind, {record.case: {record.network: [run]}}, folder, {})
    return run_report(run, folder)


def _document(kind: str, table: RunTable, folder: Path, asked: dict[str, Any]) -> Document:
    if kind == "procgen":
        return procgen_report(table, folder)
    if kind == "microrts":
        return microrts_report(table, folder)
    return ablation_report(table, folder, asked.get("baseline"), asked.get("study"))


def _kind_of(records: Sequence[RunRecord], directory: Path) -> str:
    """Return the kind of the experiment, by the environments of its runs."""
    kind = _kind_by_environments(records)
    if kind is None:
        ids = {record.config.env.id for record in records}
        raise UserError(
            f"{directory} has no experiment.yaml, and its runs are neither all of Procgen nor all of μRTS:"
            f" {', '.join(sorted(ids))}"
        )
    return kind


def _kind_by_environments(records: Sequence[RunRecord]) -> str | None:
    ids = {record.config.env.id for record in records}
    if all(is_microrts(env_id) for env_id in ids):
        return "microrts"
    if all(is_procgen(env_id) for env_id in ids):
        return "procgen"
    return None
