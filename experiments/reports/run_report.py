"""The report of a single run: its learning curve and its results."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ...policies import CheckpointError, newest_checkpoint, read_metadata
from ..config import read_run_config, read_run_outline
from ..environments import is_microrts
from ..errors import UserError, user_errors
from ..network_options import experiment_name, network_title
from ..queue.training_jobs import RunRecord, record_of
from ..statistics.curves import RETURN, Curve, MeanCurve, read_curve
from .document import Document, Picture, ReportColumn, ReportTable, Row, Section, counted
from .measured_runs import (
    MeasuredRun,
    format_number,
    origin_section,
    progress,
    state,
    steps_taken,
)
from .plots import CurvePanel, learning_curves


@dataclass(frozen=True)
class _Quantity:
    """A metric that a learning curve shows."""

    metric: str
    name: str
    steps: str  # what the steps of the run are
    note: str
    is_cloned: bool = True


#: The first one that a run has is shown: returns of PPO, otherwise likelihoods of cloning.
_QUANTITIES = (
    _Quantity(
        RETURN, "return per episode", "environment steps",
        "Mean over the last 100 episodes of training.",
        is_cloned=False,
    ),
    _Quantity(
        "held_out/log_likelihood",
        "log-likelihood",
        "recorded steps learned from",
        "Mean log-likelihood of the recorded actions in the held-out steps, per actor.",
    ),
    _Quantity(
        "losses/log_likelihood",
        "log-likelihood",
        "recorded steps learned from",
        "Mean log-likelihood of the recorded actions in the steps learned from.",
    ),
)  # fmt: skip

_FILE = "curve.png"


def read_single_run(folder: Path) -> RunRecord:
    """Return the record of a run folder outside an experiment.

    Raises:
        UserError: its configuration or its newest checkpoint can't be read.
    """
    try:
        config = read_run_config(folder)
        network: str = config.network
    except UserError:  # an environment without a name, or a network that only Python can load
        config, network = read_run_outline(folder)
    case, maps = config.env.id.rpartition("/")[2], config.env.kwargs.get("maps")
    if is_microrts(config.env.id) and isinstance(maps, list | tuple) and maps:
        case = str(maps[0]) + (f" and {counted(len(maps) - 1, 'other map')}" if len(maps) > 1 else "")
    return record_of(folder, config, case, experiment_name(network), config.ppo.seed)


def run_report(run: MeasuredRun, folder: Path) -> Document:
    """Draw the learning curve of a run into `folder`, and return its report."""
    record = run.record
    found = _first_curve(record.folder) if run.problem is None else None
    if found is None:
        section = Section("Learning curve", [f"No curve: {run.problem or 'no episode has ended yet'}."])
        quantity = _QUANTITIES[0]
        values: list[float] = []
    else:
        quantity, curve = found
        values = curve.values.tolist()
        _draw(folder / _FILE, curve, quantity, run)
        section = Section("Learning curve", pictures=[Picture(_FILE, quantity.note)])
    row = {
        "environment": record.config.env.id,
        "network": record.network,
        "seed": _cloning_seed(record.folder) if quantity.is_cloned else record.seed,
        **progress([run]),
        "last": values[-1] if values else None,
        "best": max(values, default=None),
        "is_cloned": quantity.is_cloned,
    }
    notes = [f"{quantity.name.capitalize()}: {quantity.note}", "Hours are of rollouts and updates."]
    table = ReportTable("run", "Results", [row], _columns(quantity.name), notes)
    origin = origin_section({record.case: {record.network: [run]}})
    title = f"{record.folder.resolve().name}: {network_title(record.network)} in {record.case}"
    return Document(title, sections=[section, Section("Results", tables=[table]), origin])


def _cloning_seed(run: Path) -> int | str:
    """Return the seed of behaviour cloning, which is in checkpoints only; a dash if there is none."""
    with suppress(CheckpointError):
        seed: int = read_metadata(newest_checkpoint(run)).get("cloning", {}).get("seed", "–")
        return seed
    return "–"


def _first_curve(run: Path) -> tuple[_Quantity, Curve] | None:
    """
    Raises:
        UserError: the steps don't increase.
    """
    with user_errors(ValueError):
        curves = ((quantity, read_curve(run, quantity.metric)) for quantity in _QUANTITIES)
        return next(((quantity, curve) for quantity, curve in curves if len(curve.steps)), None)


def _draw(path: Path, curve: Curve, quantity: _Quantity, run: MeasuredRun) -> None:
    unbinned = MeanCurve(curve.steps, curve.values, curve.values, curve.values)
    panel = CurvePanel({network_title(run.record.network): unbinned})
    title = run.record.folder.resolve().name
    learning_curves(path, {run.record.case: panel}, title, quantity.name, unit=quantity.steps)


def _columns(quantity: str) -> list[ReportColumn]:
    return [
        ReportColumn("environment", lambda row: row["environment"], is_text=True),
        ReportColumn("network", lambda row: network_title(row["network"]), is_text=True),
        ReportColumn("seed", lambda row: str(row["seed"])),
        ReportColumn(f"last {quantity}", lambda row: format_number(row["last"])),
        ReportColumn("best", lambda row: format_number(row["best"])),
        ReportColumn("steps", steps_taken),
        ReportColumn("hours", lambda row: format_number(row["hours"])),
        ReportColumn("samples/s", lambda row: format_number(row["samples_per_second"], 0)),
        ReportColumn("state", _state, is_text=True),
    ]


def _state(row: Row) -> str:
    """Return the state of the run; the configuration of a cloning run does not say where it ends."""
    return "cloned" if row["is_cloned"] and not row["problems"] else state(row)
