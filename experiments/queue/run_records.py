"""The runs of an experiment: which there are, how far each is, and whether it is done.

DIR/experiment.yaml                      what was asked for
DIR/runs/<case>/<network>/<seed>/        run folders, as `entitize train` makes them
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...policies.checkpoint import checkpoint_paths, read_stored, step_of
from ..config import RUN_CONFIG, TrainConfig
from ..errors import UserError
from ..run_config import read_run_config

#: The folder of run folders in that of an experiment.
RUNS = "runs"
#: What the processes of a run have printed.
LOG = "log.txt"
#: More than a line of metrics or a few lines of a log have.
_TAIL = 16_384


@dataclass(frozen=True)
class RunRecord:
    """One run of an experiment, as its newest checkpoint has it."""

    case: str  # the game or the map
    network: str  # "roguenet", "impala", ..., or the variant of an ablation
    seed: int
    folder: Path
    config: TrainConfig
    is_done: bool  # it has taken all its steps, or its time is over
    steps: int  # environment steps until its newest checkpoint; 0: there is none
    seconds: float  # in rollouts and updates until then, earlier parts of a resumed run included

    @property
    def name(self) -> str:
        """<case>/<network>/<seed>."""
        return f"{self.case}/{self.network}/{self.seed}"


def run_folder(directory: Path, case: str, network: str, seed: int) -> Path:
    """Return the folder of a run of the experiment in `directory`."""
    return directory / RUNS / case / network / str(seed)


def read_run(folder: Path) -> RunRecord:
    """The record of a run folder <case>/<network>/<seed>.

    Raises:
        UserError: it is no run folder, or its configuration or newest checkpoint can't be read.
    """
    config = read_run_config(folder)
    case, network, seed = folder.parts[-3:]
    return record_of(folder, config, case, network, int(seed))


def record_of(folder: Path, config: TrainConfig, case: str, network: str, seed: int) -> RunRecord:
    """Return the record of a run folder with the configuration `config`.

    Raises:
        UserError: its newest checkpoint can't be read.
    """
    steps, seconds = 0, 0.0
    if paths := checkpoint_paths(folder / "checkpoints"):
        try:
            metadata = read_stored(paths[-1], _no_tensors, only="checkpoint").metadata
            steps, seconds = step_of(paths[-1]), float(metadata["elapsed_seconds"])
            if not 0 <= seconds < math.inf:
                raise ValueError(f"elapsed_seconds: expected seconds of training, got {seconds}")
        except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
            raise UserError(f"{folder}: {error}") from error  # also CheckpointError
    limit = None if config.max_minutes is None else 60 * config.max_minutes
    done = bool(paths) and (steps >= config.ppo.total_timesteps or (limit is not None and seconds >= limit))
    return RunRecord(case, network, seed, folder, config, done, steps, seconds)


def read_runs(directory: Path) -> list[RunRecord]:
    """The runs in the folder of an experiment, by case, network and seed.

    A folder without a configuration was never a run and is left out; one without a checkpoint has steps 0.

    Raises:
        UserError: there is no such folder, or a configuration or a checkpoint in it can't be read.
    """
    records, problems = read_sound_runs(directory)
    if problems:
        raise UserError(problems[0])
    return records


def read_sound_runs(directory: Path) -> tuple[list[RunRecord], list[str]]:
    """`read_runs`, and for each run that can't be read why, in place of an error.

    Raises:
        UserError: there is no such folder.
    """
    records, problems = [], []
    for folder in sorted(_run_folders(directory)):
        try:
            records.append(read_run(folder))
        except UserError as error:
            problems.append(str(error))
    records.sort(key=lambda record: (record.case, record.network, record.seed))
    return records, problems


def _run_folders(directory: Path) -> list[Path]:
    if not directory.is_dir():
        raise UserError(f"{directory}: expected a folder, got none")
    paths = (directory / RUNS).glob(f"*/*/*/{RUN_CONFIG}")
    return [path.parent for path in paths if path.parent.name.isdecimal()]


def _no_tensors(content: bytes) -> dict[str, Any]:
    raise AssertionError("only the metadata is read")


def last_metrics(folder: Path) -> dict[str, Any]:
    """Return the last whole line of a run's metrics that can be read; empty where there is none yet."""
    text = _tail(folder / "metrics.jsonl")
    for line in reversed(text[: text.rfind("\n") + 1].splitlines()):
        try:
            metrics = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(metrics, dict):
            return metrics
    return {}


def last_lines(folder: Path, count: int) -> list[str]:
    """The last lines of a run's log that say something."""
    lines = [line.rstrip() for line in _tail(folder / LOG).splitlines()]
    return [line for line in lines if line][-count:]


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - _TAIL))
            return file.read().decode(errors="replace")
    except FileNotFoundError:
        return ""
