"""`entitize report`: curves, tables and sources of runs as one HTML file, Markdown, PNG and CSV."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import tyro

from ..experiments import UserError, is_microrts, is_procgen, parse
from ..experiments.errors import differences, user_errors
from ..experiments.network_options import EXPERIMENT_NETWORKS
from ..experiments.queue import EXPERIMENT, RunRecord, read_experiment, read_sound_runs, run_folder
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
from ..experiments.reports.comparison_report import all_settings, comparison_report
from ..experiments.reports.microrts_report import microrts_report
from ..experiments.reports.procgen_report import procgen_report
from ..experiments.reports.run_report import run_report
from ..policies import RUN_CONFIG

KINDS = ("procgen", "microrts", "ablation")


@dataclass(frozen=True)
class ReportArguments:
    """Write a report of runs, finished or not, as HTML, Markdown, PNG and CSV.

    Several runs are compared: entitize report runs/first runs/second --out runs/comparison

    Several experiments are reported as one: entitize report runs/seed_0 runs/seed_1 --out runs/both

    Example: entitize report runs/procgen
    """

    directory: tyro.conf.Positional[Path]
    """A run folder, or the folder of an experiment with run folders runs/<case>/<network>/<seed> in it."""
    others: tyro.conf.Positional[tuple[Path, ...]] = ()
    """Run folders to compare with it, where runs that differ in nothing but the seed count as one variant; or
    experiments, whose runs are added to its runs."""
    out: Path | None = None
    """The folder of the report (default: report in that folder; needed for several)."""


def main(arguments: Sequence[str]) -> None:
    """Parse and run the command."""
    chosen = parse(ReportArguments, "report", arguments)
    if chosen.others and chosen.out is None:
        raise UserError("the report of several runs has no folder of its own: name it with --out")
    folder = chosen.out or chosen.directory / "report"
    directories = [chosen.directory, *chosen.others]
    if not chosen.others:
        write_report(chosen.directory, folder)
    elif any((directory / RUN_CONFIG).is_file() for directory in directories):
        write_comparison(directories, folder)
    else:
        write_experiments(directories, folder)
    print(folder / "report.html")


def write_comparison(runs: Sequence[Path], folder: Path) -> Document:
    """Write a report of several run folders beside each other into `folder`.

    Raises:
        UserError: a folder is named twice, is no run or can't be read, or a file can't be written.
    """
    _check_once(runs)
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
    return write_experiments([directory], folder)


def write_experiments(directories: Sequence[Path], folder: Path) -> Document:
    """Write one report of the runs of experiments, seeds of several machines say, into `folder`.

    Runs that can't be read are named in it, and left out.

    Raises:
        UserError: a folder is named twice or has no runs that can be read, the experiments are not of one
            kind, two runs have the same name, runs of one network differ in more than the seed, or a file
            can't be written.
    """
    _check_once(directories)
    experiments = [_read(directory) for directory in directories]
    first = experiments[0]
    for other in experiments[1:]:
        if differing := differences(first.question, other.question, f"in {other.directory}"):
            raise UserError(f"{first.directory} and {other.directory} can't be one report: {differing}")
    records = [record for each in experiments for record in each.records]
    if len(experiments) > 1:
        _check_seeds(records)
    records.sort(key=lambda record: (record.case, record.network, record.seed))
    table = run_table(records)
    missing = list(dict.fromkeys(n for each in experiments for n in _missing_runs(each.asked, directories)))
    problems = [problem for each in experiments for problem in each.problems]

    def document() -> Document:
        made = _document(first.question["kind"], table, folder, first.question)
        notes = [f"Without a run yet: {', '.join(missing)}."] if missing else []
        notes += [f"Can't be read, and left out: {problem}" for problem in problems]
        return replace(made, paragraphs=[*made.paragraphs, *notes])

    return _written(folder, document)


@dataclass(frozen=True)
class _Experiment:
    """An experiment as its folder has it."""

    directory: Path
    asked: Mapping[str, Any]
    question: Mapping[str, Any]  # kind; baseline and study, where there are any
    records: Sequence[RunRecord]
    problems: Sequence[str]  # of the runs that can't be read


def _read(directory: Path) -> _Experiment:
    records, problems = read_sound_runs(directory)
    if problems and not records:
        raise UserError("\n".join(problems))
    if not records:
        raise UserError(
            f"{directory} has no runs: expected a run folder, or an experiment with the run folders"
            " runs/<case>/<network>/<seed>"
        )
    asked = read_experiment(directory) or {}
    question = {name: asked[name] for name in ("kind", "baseline", "study") if asked.get(name)}
    kind = question.get("kind") or _kind_of(records, directory)
    if kind not in KINDS:
        raise UserError(f"{directory / EXPERIMENT}: kind: expected one of {', '.join(KINDS)}, got {kind!r}")
    return _Experiment(directory, asked, {**question, "kind": kind}, records, problems)


def _check_once(directories: Sequence[Path]) -> None:
    seen: set[Path] = set()
    for directory in directories:
        if directory.resolve() in seen:
            raise UserError(f"{directory} is named twice")
        seen.add(directory.resolve())


def _check_seeds(records: Sequence[RunRecord]) -> None:
    """Check that runs of one case and network are different seeds of the same settings."""
    seen: dict[str, RunRecord] = {}
    for record in records:
        if (same := seen.setdefault(record.name, record)) is not record:
            raise UserError(f"{same.folder} and {record.folder} are the same run: {record.name}")
    settings = {name: {**all_settings(record), "ppo.seed": None} for name, record in seen.items()}
    firsts: dict[tuple[str, str], RunRecord] = {}
    for record in records:
        first = firsts.setdefault((record.case, record.network), record)
        if differing := differences(settings[first.name], settings[record.name], f"in {record.folder}"):
            raise UserError(f"{first.folder} has other settings than {record.folder}: {differing}")


def _missing_runs(asked: Mapping[str, Any], directories: Sequence[Path]) -> list[str]:
    """Return which runs of an experiment have no folder, as "case/network (seed 0, 1)"."""
    missing = []
    for case, network in product(asked.get("cases", ()), asked.get("networks", ())):
        seeds = [
            str(seed)
            for seed in asked.get("seeds", ())
            if not any(run_folder(directory, case, network, seed).exists() for directory in directories)
        ]
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


def _document(kind: str, table: RunTable, folder: Path, asked: Mapping[str, Any]) -> Document:
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
