"""The report of several runs beside each other: curves, differences, and settings in which they differ."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...policies import RUN_CONFIG
from ..config_file import read_yaml
from ..queue.training_jobs import RunRecord, flat_settings, flatten
from .ablation_report import variant_table
from .document import Document, ReportColumn, ReportTable, Row, Section, counted
from .measured_runs import WINDOW, MeasuredRun, measure, origin_section, rollout_size
from .plots import curve_pictures, run_panel

#: The settings of the network, which are read from the file: only Python may know its class.
_NETWORK = ("network", "net", "baseline")
#: Settings in which the runs of a variant differ.
_SEED = "ppo.seed"

_ABSENT = "–"


def comparison_report(records: Sequence[RunRecord], folder: Path) -> Document:
    """Draw the curves of runs into `folder`, and return their report.

    Runs of equal settings, the seed apart, are seeds of one variant. The variant of the first run is the one
    that the others are compared with.
    """
    settings = [all_settings(record) for record in records]
    variants = _variants(records, settings)
    measured = _with_window([measure(record) for record in records])
    runs = {name: [measured[index] for index in indices] for name, indices in variants.items()}
    environments: dict[str, dict[str, list[MeasuredRun]]] = {}
    for name, own in runs.items():
        environments.setdefault(own[0].record.config.env.id, {})[name] = own
    baseline = next(iter(runs))
    by_steps = {env_id: run_panel(own) for env_id, own in environments.items()}
    by_time = {env_id: run_panel(own, by_time=True) for env_id, own in environments.items()}
    captions = (
        "Return of training (mean over the last 100 episodes) by environment steps. Lines are means over"
        " seeds, bands from the worst seed to the best; a thin line is one seed alone.",
        "The same by hours of rollouts and updates, each on the machine of its run.",
    )
    pictures = curve_pictures(folder, by_steps, by_time, captions)
    words = [] if pictures else ["No curve: no episode has ended yet."]
    sections = [
        Section("Learning curves", words, pictures),
        Section("Results", tables=[variant_table(environments, baseline, case="environment")]),
        Section("Settings", tables=[_settings_table({n: settings[i[0]] for n, i in variants.items()})]),
        origin_section({env_id: dict(own) for env_id, own in environments.items()}),
    ]
    lead = [f"{counted(len(records), 'run')}; {baseline} is what the others are compared with."]
    return Document(" and ".join(runs) if len(runs) < 3 else f"{len(runs)} variants", lead, sections)


def _with_window(runs: Sequence[MeasuredRun]) -> list[MeasuredRun]:
    """Let returns be means over the same steps: a tenth of the shortest run, at most as in other reports."""
    shortest = min((run.steps for run in runs if run.has_returns), default=0)
    window = min(WINDOW, max(shortest // 10, *map(rollout_size, runs)))
    return [replace(run, window=window) for run in runs]


def all_settings(record: RunRecord) -> dict[str, Any]:
    """Return all settings of a run by dotted name, also those of a network that only Python knows."""
    file = read_yaml(record.folder / RUN_CONFIG)
    network = {name: file[name] for name in _NETWORK if file.get(name) is not None}
    return {**flat_settings(record.config), **flatten(network)}


def _variants(records: Sequence[RunRecord], settings: Sequence[Mapping[str, Any]]) -> dict[str, list[int]]:
    """Return the indices of the runs of each variant, by its name."""
    groups: dict[str, list[int]] = {}
    for index, own in enumerate(settings):
        groups.setdefault(repr(sorted((n, v) for n, v in own.items() if n != _SEED)), []).append(index)
    common = Path(os.path.commonpath([record.folder.resolve().parent for record in records]))
    firsts = [records[indices[0]].folder.resolve().relative_to(common) for indices in groups.values()]
    named = {}
    for first, indices in zip(firsts, groups.values(), strict=True):
        name = _shortest(first, [other for other in firsts if other != first])
        named[name if len(indices) == 1 else f"{name} ({len(indices)} seeds)"] = indices
    return named


def _shortest(path: Path, others: Sequence[Path]) -> str:
    """Return the first parts of `path`, as many as no other path begins with."""
    parents = [*reversed(path.parents), path][1:]  # without "."
    unique = (part for part in parents if not any(other.is_relative_to(part) for other in others))
    return next(unique, path).as_posix()


def _settings_table(variants: Mapping[str, Mapping[str, Any]]) -> ReportTable:
    """Return a table with a row for each setting in which variants differ."""
    names = sorted({name for own in variants.values() for name in own} - {_SEED})
    rows = []
    for name in names:
        values = {variant: own.get(name, _ABSENT) for variant, own in variants.items()}
        if len({repr(value) for value in values.values()}) > 1:
            rows.append({"setting": name, **values})

    def column(variant: str) -> ReportColumn:
        return ReportColumn(variant, lambda row: _shown(row, variant), is_text=True)

    columns = [ReportColumn("setting", lambda row: row["setting"], is_text=True), *map(column, variants)]
    notes = [] if rows else ["The runs differ in nothing but the seed."]
    return ReportTable("settings", "Settings in which the runs differ", rows, columns, notes)


def _shown(row: Row, variant: str) -> str:
    value = row[variant]
    return f"{value:g}" if isinstance(value, float) else str(value)
