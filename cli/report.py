"""`entitize report`: curves, tables and sources of an experiment as one HTML file, Markdown, PNG and CSV."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tyro
from rich.console import Console

from ..experiments.arguments import parse
from ..experiments.errors import UserError
from ..experiments.microrts.microrts_lanes import is_microrts
from ..experiments.queue.run_records import RunRecord, read_sound_runs
from ..experiments.queue.training_jobs import EXPERIMENT, read_experiment
from ..experiments.reports.ablation_report import ablation_report
from ..experiments.reports.document import Document, write_document
from ..experiments.reports.measured_runs import RunTable, run_table
from ..experiments.reports.microrts_report import microrts_report
from ..experiments.reports.procgen_report import procgen_report

KINDS = ("procgen", "microrts", "ablation")


@dataclass(frozen=True)
class ReportArguments:
    """Write a report of an experiment's runs, finished or not, as HTML, Markdown, PNG and CSV.

    Example: entitize report runs/procgen
    """

    directory: tyro.conf.Positional[Path]
    """The folder of the experiment; its run folders are runs/<case>/<network>/<seed> in it."""
    out: Path | None = None
    """The folder of the report (default: report in the experiment's folder)."""


def main(arguments: Sequence[str]) -> None:
    """Parse and run the command."""
    chosen = parse(ReportArguments, "report", arguments)
    folder = chosen.out or chosen.directory / "report"
    write_report(chosen.directory, folder)
    Console().print(f"{folder / 'report.html'}", highlight=False, soft_wrap=True)


def write_report(directory: Path, folder: Path) -> Document:
    """Read the runs of the experiment in `directory`, and write the report into `folder`.

    Runs that can't be read are named in it, and left out.

    Raises:
        UserError: there are no runs that can be read, it can't be told what kind of experiment it is, or a
            file can't be written.
    """
    records, problems = read_sound_runs(directory)
    if problems and not records:
        raise UserError("\n".join(problems))
    if not records:
        raise UserError(f"{directory} has no runs: expected run folders runs/<case>/<network>/<seed> in it")
    asked = read_experiment(directory) or {}
    kind = asked.get("kind") or _kind_of(records, directory)
    if kind not in KINDS:
        raise UserError(
            f"{directory / EXPERIMENT}: there are no reports of kind {kind!r}, only of {', '.join(KINDS)}"
        )
    table = run_table(records)
    known = {*table, *(network for networks in table.values() for network in networks)}
    missing = [
        str(name) for name in (*asked.get("cases", ()), *asked.get("networks", ())) if str(name) not in known
    ]
    try:
        document = _document(kind, table, folder, missing, asked)
        told = [f"Can't be read, and left out: {problem}" for problem in problems]
        document = replace(document, paragraphs=[*document.paragraphs, *told])
        write_document(document, folder)
    except OSError as error:
        raise UserError(f"{folder} can't be written: {error}") from error
    return document


def _document(
    kind: str, table: RunTable, folder: Path, missing: Sequence[str], asked: dict[str, Any]
) -> Document:
    if kind == "procgen":
        return procgen_report(table, folder, missing)
    if kind == "microrts":
        return microrts_report(table, folder, missing)
    return ablation_report(table, folder, missing, asked.get("baseline"), asked.get("study"))


def _kind_of(records: Sequence[RunRecord], directory: Path) -> str:
    """The kind, by what the runs are trained in."""
    ids = {record.config.env.id for record in records}
    if all(is_microrts(env_id) for env_id in ids):
        return "microrts"
    if all(env_id.removeprefix("entitize/").startswith("Procgen") for env_id in ids):
        return "procgen"
    raise UserError(
        f"{directory} has no experiment.yaml, and its runs are neither all of Procgen nor all of μRTS:"
        f" {', '.join(sorted(ids))}"
    )
