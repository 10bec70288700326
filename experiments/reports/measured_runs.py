"""The runs of an experiment as reports read them: progress, time, returns, and where they were made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ...trainers import RunPart, read_metrics, read_origin
from ..network_options import EXPERIMENT_NETWORKS, network_title
from ..procgen.published_procgen import IMPALA_WINDOW
from ..queue.training_jobs import RunRecord
from ..statistics.curves import RETURN, Curve, MeanCurve, curve_of, metrics_file, range_curve, rounded_count
from .document import ReportColumn, ReportTable, Section

#: Steps that the returns of a run are averaged over, as the published ones.
WINDOW = IMPALA_WINDOW

#: Case -> network -> its runs, by seed.
RunTable: TypeAlias = "Mapping[str, Mapping[str, Sequence[MeasuredRun]]]"


@dataclass(frozen=True, eq=False)
class MeasuredRun:
    """A run and its metrics."""

    record: RunRecord
    returns: Curve  # mean over the last 100 episodes of training, by environment steps
    timed: Curve  # the same, by whole seconds of training
    steps: int  # environment steps of the last update in the metrics
    seconds: float  # spent in rollouts and updates until then
    problem: str | None = None  # why there are no metrics
    window: int = WINDOW  # steps that its returns are averaged over

    @property
    def has_returns(self) -> bool:
        return len(self.returns.steps) > 0

    def reached(self, step: int) -> bool:
        """Return True if there is a return for this number of steps."""
        within = (self.returns.steps > step - self.window) & (self.returns.steps <= step)
        return self.steps >= step and bool(within.any())

    def return_at(self, step: int) -> float:
        """Return the mean return over the steps before `step`.

        Raises:
            ValueError: there is none.
        """
        return self.returns.mean_before(step, self.window)

    def final(self) -> float:
        """Return the mean return over the last steps that are known.

        Raises:
            ValueError: no episode has ended yet.
        """
        if not self.has_returns:
            raise ValueError(f"{self.record.folder}: no episode has ended")
        return self.return_at(int(self.returns.steps[-1]))


_EMPTY = Curve(np.zeros(0, np.int64), np.zeros(0))


#: What reading and measuring a damaged run can raise.
_DAMAGE = (
    *(OSError, ValueError, KeyError, TypeError, AttributeError),
    *(OverflowError, RecursionError, MemoryError),
)


def measure(record: RunRecord) -> MeasuredRun:
    """Read the metrics of a run; why they can't be read is its `problem`."""
    try:
        lines = read_metrics(metrics_file(record.folder))
        if lines:
            return _measured(record, lines)
    except FileNotFoundError:
        pass
    except _DAMAGE as error:
        return MeasuredRun(record, _EMPTY, _EMPTY, record.steps, record.seconds, f"metrics: {error}")
    return MeasuredRun(record, _EMPTY, _EMPTY, record.steps, record.seconds, "no metrics yet")


def _measured(record: RunRecord, lines: Sequence[Mapping[str, float]]) -> MeasuredRun:
    returns = curve_of(lines)
    if not np.isfinite(returns.values).all():
        raise ValueError("there are returns that are no finite numbers")
    timed = [
        (line["time/elapsed"], line[RETURN]) for line in lines if RETURN in line and "time/elapsed" in line
    ]
    seconds = np.array([rounded_count(elapsed, "time/elapsed") for elapsed, _ in timed], np.int64)
    by_time = Curve(seconds, np.array([value for _, value in timed], np.float64))
    last = max(lines, key=lambda line: line["step"])  # an evaluation is written later than its step
    elapsed = float(last.get("time/elapsed", record.seconds))
    rounded_count(elapsed, "time/elapsed")
    return MeasuredRun(record, returns, by_time, rounded_count(last["step"], "step"), elapsed)


def run_table(records: Sequence[RunRecord]) -> dict[str, dict[str, list[MeasuredRun]]]:
    """Return the measured runs by case, network and seed, RogueNet first."""
    networks = sorted({record.network for record in records}, key=_network_order)
    table: dict[str, dict[str, list[MeasuredRun]]] = {}
    for case in dict.fromkeys(record.case for record in records):
        for network in networks:
            own = [record for record in records if (record.case, record.network) == (case, network)]
            if own:
                table.setdefault(case, {})[network] = [measure(record) for record in own]
    return table


def _network_order(network: str) -> tuple[int, str]:
    known = list(EXPERIMENT_NETWORKS)
    return (known.index(network) if network in known else len(known), network)


def progress(runs: Sequence[MeasuredRun]) -> dict[str, Any]:
    """Return the progress of the runs of one case and network, as values of a row."""
    total = max(run.record.config.ppo.total_timesteps for run in runs)
    seconds = sum(run.seconds for run in runs)
    return {
        "seeds": len(runs),
        "done": sum(run.record.is_done for run in runs),
        "steps_min": min(run.steps for run in runs),
        "steps_max": max(run.steps for run in runs),
        "steps_asked": total,
        "hours": seconds / 3600 / len(runs),
        "samples_per_second": sum(run.steps for run in runs) / seconds if seconds else None,
        "problems": "; ".join(f"seed {run.record.seed}: {run.problem}" for run in runs if run.problem),
    }


def state(row: Mapping[str, Any]) -> str:
    """Return the state of a row's runs in words."""
    if row["problems"]:
        return row["problems"]
    if row["done"] == row["seeds"]:
        return "done"
    done = f"{row['done']} of {row['seeds']} done, " if row["done"] else ""
    return f"{done}unfinished: {short_steps(row['steps_min'])} of {short_steps(row['steps_asked'])}"


def steps_taken(row: Mapping[str, Any]) -> str:
    """Return the steps of the runs of a row, as text."""
    low, high = short_steps(row["steps_min"]), short_steps(row["steps_max"])
    return low if low == high else f"{low} to {high}"


def short_steps(steps: float) -> str:
    """Return a number of steps as text: 25M, 1.23M, 512k."""
    for unit, name in ((1e6, "M"), (1e3, "k")):
        if steps >= unit:
            return f"{float(f'{steps / unit:.3g}'):g}{name}"
    return f"{steps:g}"


def format_number(value: float | None, digits: int = 2) -> str:
    """Return a number as text, with digits in groups of three; a dash where there is none."""
    return "–" if value is None or np.isnan(value) else f"{value:,.{digits}f}"


def spread(row: Mapping[str, Any], name: str, digits: int = 2) -> str:
    """Return the mean of a value with its bounds, if there are any, as text."""
    mean, low, high = (row.get(f"{name}_{part}") for part in ("mean", "low", "high"))
    if low is None or high is None:
        return format_number(mean, digits)
    return f"{format_number(mean, digits)} [{format_number(low, digits)}, {format_number(high, digits)}]"


def bin_width(curves: Sequence[Curve], smallest: int) -> int:
    """Return the width of a bin for `common_bins`: a sixtieth of the longest curve, at least `smallest`."""
    reach = max((int(curve.steps[-1]) for curve in curves if len(curve.steps)), default=0)
    return max(smallest, reach // 60, 1)


def rollout_size(run: MeasuredRun) -> int:
    """Return the steps between two lines of a run's metrics."""
    config = run.record.config
    return config.env.num_envs * config.ppo.num_steps


def curves_and_tails(
    networks: Mapping[str, Sequence[MeasuredRun]], by_time: bool = False
) -> tuple[dict[str, MeanCurve], dict[str, list[Curve]]]:
    """Return, by network, mean and range over seeds for the steps that all have, and single seeds beyond.

    Args:
        by_time: over seconds of training, not over steps.
    """
    curves: dict[str, MeanCurve] = {}
    tails: dict[str, list[Curve]] = {}
    for network, runs in networks.items():
        shown = [run for run in runs if run.has_returns]
        own = [run.timed if by_time else run.returns for run in shown]
        if not shown or not all(len(curve.steps) for curve in own):
            continue
        width = bin_width(own, max(_update_width(run, by_time) for run in shown))
        mean = range_curve(own, width)
        name = network_title(network)
        reached = int(mean.steps[-1]) if len(mean.steps) else 0
        if len(mean.steps):
            curves[name] = mean
        parts = [_from(range_curve([curve], width), reached) for curve in own]
        if beyond := [part for part in parts if len(part.steps) > 1]:
            tails[name] = beyond
    return curves, tails


def _update_width(run: MeasuredRun, by_time: bool) -> int:
    """Steps, or seconds (rounded up, with something to spare), between two lines of a run's metrics."""
    if not by_time:
        return rollout_size(run)
    return int(1.5 * run.seconds * rollout_size(run) / max(run.steps, 1)) + 1


def _from(curve: MeanCurve, start: int) -> Curve:
    later = curve.steps >= start
    return Curve(curve.steps[later], curve.mean[later])


_ORIGIN = ("version", "commit", "processor", "cores", "gpu", "torch")

_COLUMNS = (
    ReportColumn("code", lambda row: f"{row['version']}, {row['commit'] or 'no checkout'}", is_text=True),
    ReportColumn("processor", lambda row: row["processor"], is_text=True),
    ReportColumn("cores", lambda row: str(row["cores"])),
    ReportColumn("GPU", lambda row: row["gpu"] or "–", is_text=True),
    ReportColumn("torch", lambda row: row["torch"], is_text=True),
    ReportColumn("runs", lambda row: str(row["runs"])),
    ReportColumn("hours of training, together", lambda row: format_number(row["hours"])),
)


def origin_section(table: RunTable) -> Section:
    """Return a table of code versions and machines, with the number and hours of the runs trained there."""
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    unknown = 0
    for run in (run for networks in table.values() for runs in networks.values() for run in runs):
        part = _last_part(run)
        if part is None:
            unknown += 1
            continue
        values = {name: getattr(part, name) for name in _ORIGIN}
        row = rows.setdefault(tuple(values.values()), {**values, "runs": 0, "hours": 0.0})
        row["runs"] += 1
        row["hours"] += run.seconds / 3600
    words = [f"Unknown for {unknown} of the runs."] if unknown else []
    tables = [ReportTable("origin", "Code and machines", list(rows.values()), _COLUMNS)] if rows else []
    return Section("Where the runs come from", words, tables=tables)


def _last_part(run: MeasuredRun) -> RunPart | None:
    try:
        parts = read_origin(run.record.folder)
    except ValueError:
        return None
    return parts[-1] if parts else None
