"""The part of a report that tells with which code and on which machine the runs were made."""

from __future__ import annotations

from typing import Any

from ...trainers.runs.run_origin import RunPart, read_origin
from .document import ReportColumn, ReportTable, Section
from .measured_runs import MeasuredRun, RunTable, number

_TOLD = ("version", "commit", "processor", "cores", "gpu", "torch")

_COLUMNS = (
    ReportColumn("code", lambda row: f"{row['version']}, {row['commit'] or 'no checkout'}", is_text=True),
    ReportColumn("processor", lambda row: row["processor"], is_text=True),
    ReportColumn("cores", lambda row: str(row["cores"])),
    ReportColumn("GPU", lambda row: row["gpu"] or "–", is_text=True),
    ReportColumn("torch", lambda row: row["torch"], is_text=True),
    ReportColumn("runs", lambda row: str(row["runs"])),
    ReportColumn("hours of training, together", lambda row: number(row["hours"])),
)


def origin_section(table: RunTable) -> Section:
    """Code and machines, with the runs that were last trained so, and how long these took."""
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    unknown = 0
    for run in (run for networks in table.values() for runs in networks.values() for run in runs):
        part = _last_part(run)
        if part is None:
            unknown += 1
            continue
        values = {name: getattr(part, name) for name in _TOLD}
        row = rows.setdefault(tuple(values.values()), {**values, "runs": 0, "hours": 0.0})
        row["runs"] += 1
        row["hours"] += run.seconds / 3600
    words = [f"Of {unknown} of the runs it was not noted how they were made."] if unknown else []
    tables = [ReportTable("origin", "Code and machines", list(rows.values()), _COLUMNS)] if rows else []
    return Section("Where the runs come from", words, tables=tables)


def _last_part(run: MeasuredRun) -> RunPart | None:
    try:
        parts = read_origin(run.record.folder)
    except ValueError:
        return None
    return parts[-1] if parts else None
