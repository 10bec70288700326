"""The runs of an experiment: jobs, their processes and order, and their progress, read from run folders.

DIR/experiment.yaml                      what was asked for
DIR/runs/<case>/<network>/<seed>/        run folders, as `entitize train` makes them
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import yaml

from ...files import replace_file
from ...policies import RUN_CONFIG, checkpoint_paths, read_metadata, step_of
from ...ragged import available_cores
from ..config import TrainConfig, read_run_config
from ..config_file import read_yaml, to_yaml
from ..errors import UserError, differences

#: The folder of run folders in that of an experiment.
RUNS = "runs"
#: The output of the processes of a run.
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
    """Return the record of a run folder <case>/<network>/<seed>.

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
            metadata = read_metadata(paths[-1])
            steps, seconds = step_of(paths[-1]), float(metadata["elapsed_seconds"])
            if not 0 <= seconds < math.inf:
                raise ValueError(f"elapsed_seconds: expected seconds of training, got {seconds}")
        except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
            raise UserError(f"{folder}: {error}") from error  # also CheckpointError
    limit = None if config.max_minutes is None else 60 * config.max_minutes
    awaited = config.eval.every is not None and checkpoint_paths(folder / "eval")  # `BackgroundEvaluation`
    done = (
        bool(paths)
        and not awaited
        and (steps >= config.ppo.total_timesteps or (limit is not None and seconds >= limit))
    )
    return RunRecord(case, network, seed, folder, config, done, steps, seconds)


def read_runs(directory: Path) -> list[RunRecord]:
    """Return the runs in the folder of an experiment, by case, network and seed.

    A folder without a configuration was never a run and is left out; one without a checkpoint has steps 0.

    Raises:
        UserError: there is no such folder, or a configuration or a checkpoint in it can't be read.
    """
    records, problems = read_sound_runs(directory)
    if problems:
        raise UserError(problems[0])
    return records


def read_sound_runs(directory: Path) -> tuple[list[RunRecord], list[str]]:
    """Return the runs as `read_runs`, and the errors of those that can't be read.

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
    """Return the last lines of a run's log that are not empty."""
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


EXPERIMENT = "experiment.yaml"
#: What a run needs next; locked: another process works on it.
Stage = Literal["train", "eval", "done", "locked"]

#: Settings in which a continued run may differ: its device, the checkpoints that it keeps, its evaluation and
#: its tracker.
_SAME_ANYHOW = (
    *("ppo.device", "ppo.num_threads", "ppo.microbatch_size", "ppo.checkpoint_interval"),
    *("ppo.keep_checkpoints", "eval", "track"),
)


@dataclass(frozen=True)
class EvaluationFlags:
    """Flags of the evaluation by `entitize eval microrts`."""

    games: int = 100
    all_bots: bool = False
    max_steps: int = 2000

    def words(self) -> list[str]:
        """Return them as words of the command line."""
        numbers = ["--games", str(self.games), "--max-steps", str(self.max_steps)]
        return [*numbers, *([] if self.all_bots else ["--fast"])]


@dataclass(frozen=True)
class TrainingJob:
    """A run to train, and its evaluation, if any."""

    case: str
    network: str
    seed: int
    config: TrainConfig
    evaluation: EvaluationFlags | None = None

    @property
    def name(self) -> str:
        """<case>/<network>/<seed>."""
        return f"{self.case}/{self.network}/{self.seed}"

    def folder(self, directory: Path) -> Path:
        """Its run folder in the experiment's."""
        return run_folder(directory, self.case, self.network, self.seed)


@dataclass(frozen=True, eq=False)
class RunProcess:
    """A process that trains or evaluates a run."""

    job: TrainingJob
    stage: Stage
    folder: Path
    popen: subprocess.Popen[bytes]

    @classmethod
    def start(cls, job: TrainingJob, stage: Stage, folder: Path, device: str) -> RunProcess:
        """Start a stage of a run, whose folder has a configuration; its output goes to the log there."""
        words = ["--device", device]
        if stage == "eval" and job.evaluation is not None:
            words = [*job.evaluation.words(), "--workers", "0"]
        threads = job.config.ppo.num_threads or available_cores()
        with (folder / LOG).open("ab") as log:
            popen = subprocess.Popen(
                [sys.executable, "-m", f"{__package__}.run_child", stage, str(folder), *words],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "OMP_NUM_THREADS": str(threads), "PYTHONUNBUFFERED": "1"},
                start_new_session=True,  # Ctrl-C on the terminal is the queue's to handle
            )
        return cls(job, stage, folder, popen)

    def stop(self) -> None:
        """Ask it to end in a state from which it can be continued."""
        assert self.popen.stdin is not None
        self.popen.stdin.close()


def in_order(jobs: Sequence[TrainingJob], directory: Path) -> list[TrainingJob]:
    """Runs that have begun first; then seed by seed, so that a first answer for every case comes early."""
    return sorted(jobs, key=lambda job: (not (job.folder(directory) / "checkpoints").is_dir(), job.seed))


def open_experiment(
    directory: Path, kind: str, jobs: Sequence[TrainingJob], about: Mapping[str, str] | None = None
) -> None:
    """Write what is asked for into `directory`, made where it is missing, beside what was asked for before.

    `about`: further facts of the experiment, which stay the same.

    Raises:
        UserError: the folder is for something else, or holds a run that is not the one asked for.
    """
    before = read_of_kind(directory, kind) or {"kind": kind}
    for name, value in (about or {}).items():
        if before.get(name, value) != value:
            raise UserError(f"{directory} is for the {name} {before[name]}, not {value}; give another --out")
    for job in jobs:
        check_folder(job, directory)
    config = jobs[0].config
    asked = {
        "kind": kind,
        **(about or {}),
        "cases": _union(before.get("cases", ()), [job.case for job in jobs]),
        "networks": _union(before.get("networks", ()), [job.network for job in jobs]),
        "seeds": sorted(_union(before.get("seeds", ()), [job.seed for job in jobs])),
        "steps": config.ppo.total_timesteps,
        "max_minutes": config.max_minutes,
    }
    if asked != before:
        write_experiment(directory, asked)


def write_experiment(directory: Path, asked: Mapping[str, Any]) -> None:
    """Write what is asked for into `directory`, which is made where it is missing.

    Raises:
        UserError: it can't be written.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        replace_file(directory / EXPERIMENT, to_yaml(asked).encode())
    except OSError as error:
        raise UserError(f"{directory} can't be written: {error}") from error


def read_of_kind(directory: Path, kind: str) -> dict[str, Any] | None:
    """`read_experiment` of a folder in which an experiment of `kind` may work.

    Raises:
        UserError: it is the folder of a run or of another kind of experiment.
    """
    if (directory / RUN_CONFIG).exists():
        raise UserError(f"{directory} is the folder of a single run; give an experiment another --out")
    before = read_experiment(directory)
    if before is not None and before["kind"] != kind:
        raise UserError(
            f"{directory} holds an experiment of kind {before['kind']}, not {kind}; give another --out"
        )
    return before


def read_experiment(directory: Path) -> dict[str, Any] | None:
    """Read the requested kind, and the cases, networks and seeds of all commands so far; steps and
    max_minutes of the last one (what a run is for is in its own configuration). None: there is none.

    Raises:
        UserError: the file is not one of ours.
    """
    path = directory / EXPERIMENT
    if not path.exists():
        return None
    asked = read_yaml(path)
    if not isinstance(asked, dict) or not isinstance(asked.get("kind"), str):
        raise UserError(f"{path} does not say what kind of experiment it is")
    for name, kind in (("cases", str), ("networks", str), ("seeds", int)):
        if not isinstance(asked.get(name), list) or not all(isinstance(one, kind) for one in asked[name]):
            raise UserError(f"{path}: {name}: expected a list of {kind.__name__}, got {asked.get(name)!r}")
    for name in ("study", "baseline"):
        if not isinstance(asked.get(name, ""), str):
            raise UserError(f"{path}: {name}: expected str, got {asked[name]!r}")
    return asked


def check_folder(job: TrainingJob, directory: Path) -> None:
    """Check that an existing run is the one that is asked for.

    Raises:
        UserError: it is another; the message says in what.
    """
    folder = job.folder(directory)
    if not (folder / RUN_CONFIG).exists():
        if (folder / "checkpoints").exists():
            raise UserError(f"{folder} has checkpoints but no {RUN_CONFIG}: move it away")
        return
    wanted = flat_settings(continued(job, folder))
    differ = differences(flat_settings(read_run_config(folder)), wanted, "was asked for")
    if differ:
        raise UserError(
            f"{folder} holds another run: {differ}. A run is not changed under way (what is"
            " annealed ends with its steps): give another --out, or ask for what is there"
        )


def continued(job: TrainingJob, folder: Path) -> TrainConfig:
    """Return the configuration of a new or continued run, with the settings that may differ as asked for now.

    Training has replaced the network by that of the run that it starts from.
    """
    if job.config.init_from is None or not (folder / RUN_CONFIG).exists():
        return job.config
    found = read_run_config(folder)
    return replace(job.config, network=found.network, net=found.net, baseline=found.baseline)


def _union(before: Sequence[Any], now: Sequence[Any]) -> list[Any]:
    return list(dict.fromkeys([*before, *now]))


def flat_settings(config: TrainConfig) -> dict[str, Any]:
    """Return the settings by dotted name, as a file has them, without those in which a run may differ."""
    return flatten(yaml.safe_load(to_yaml(config)))


def flatten(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested settings by dotted name, without those in which a continued run may differ."""
    flat: dict[str, Any] = {}

    def add(prefix: str, value: Any) -> None:
        if prefix in _SAME_ANYHOW:
            return
        if isinstance(value, Mapping):
            for name, part in value.items():
                add(f"{prefix}.{name}" if prefix else str(name), part)
        else:
            flat[prefix] = value

    add("", settings)
    return flat
