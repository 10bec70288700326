"""Start or resume a run: its `config.yaml`, and `run.json` with the code and the machine of each start."""

from __future__ import annotations

import json
import logging
import platform
import subprocess
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from types import NoneType
from typing import Any, Protocol

import torch

from ...envs import EntityVectorEnv
from ...files import parse_json, read_regular, replace_file
from ...policies import Policy
from ...ragged import available_cores
from ...version import __version__
from ..config import PPOConfig
from ..rollout_source import RolloutSource
from .checkpoint import checkpoint_paths, clear_leftovers
from .run_folder import RunFolder
from .tracking import Tracker, TrackerName, Tracking


def run_folder(
    run_dir: str | Path | RunFolder | None, resume: bool, track: TrackerName | Tracker | None = None
) -> RunFolder | None:
    """Return the run folder at `run_dir`, which must exist to `resume`, with a tracker if `track` is one.

    Raises:
        TypeError: `run_dir` is no path, or `track` no tracker.
        ValueError: there is nothing to resume or to track without a `run_dir`, or no such tracker.
        ModuleNotFoundError: the tracker is not installed.
        FileNotFoundError, NotADirectoryError: there is no such folder.
    """
    if run_dir is None:
        if resume:
            raise ValueError("PPO: resume=True needs a run_dir, got None")
        if track is not None:
            raise ValueError(f"PPO: track={track!r} needs a run_dir, got None")
        return None
    if isinstance(run_dir, RunFolder):
        if track is not None:
            run_dir.tracking = Tracking(track, run_dir.path)
        return run_dir
    if not isinstance(run_dir, str | Path):
        raise TypeError(f"PPO: run_dir: expected a path, got {run_dir!r}")
    return RunFolder(run_dir, resume, track)


class RunTrainer(Protocol):
    """Interface of a trainer that has a run folder, such as `PPO`."""

    policy: Policy
    venv: EntityVectorEnv | RolloutSource
    config: PPOConfig
    step: int

    def restore(self, checkpoint: Any) -> None:
        """Continue from a checkpoint, given as a path."""
        ...


def open_run(trainer: RunTrainer, run: RunFolder, resume: bool) -> None:
    """Prepare the folder `run` for `trainer`, and restore the newest checkpoint to resume.

    Raises:
        FileExistsError: the folder contains a run and `resume` is false.
        CheckpointError: the checkpoint is corrupt, foreign or missing.
    """
    paths = checkpoint_paths(run.checkpoints)
    if not resume and (paths or run.metrics.exists()):
        raise FileExistsError(f"{run.path} contains a run already: resume it or choose another folder")
    if not paths:
        rollout = trainer.config.num_steps * trainer.venv.num_envs
        run.check_not_lost(trainer.config.checkpoint_interval + rollout)
    clear_leftovers(run.checkpoints)
    if paths:
        trainer.restore(paths[-1])
    run.purge(trainer.step)
    run.write_config(run_config(trainer.policy, trainer.venv, trainer.config))


def run_config(policy: Policy, venv: EntityVectorEnv | RolloutSource, config: PPOConfig) -> dict[str, Any]:
    """Return `config.yaml` of a run made in Python, in the format of `entitize train`.

    The environment's id is None unless `make_vec` made it from a name.
    """
    spec = venv.vector_spec
    env = {"id": None, "num_envs": venv.num_envs} if spec is None else asdict(spec)
    network = type(policy).__name__
    options = "net" if network == "RogueNet" else "baseline"
    return {"env": env, "network": network, options: policy.config, "ppo": asdict(config)}


RUN_ORIGIN = "run.json"
_CHECKOUT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class RunPart:
    """Code and machine that trained a run from one environment step on."""

    from_step: int
    started: str  # UTC, as ISO 8601 has it
    version: str  # of Entitize
    commit: str | None  # SHA-1, with "-dirty" where files differ from it; None: not from a checkout
    processor: str
    cores: int  # that the process might use
    gpu: str | None  # that the network was on; None: it was on the CPU
    python: str
    torch: str


def note_origin(run: Path, step: int, device: torch.device) -> None:
    """Note that this process trains `run` from `step` on; parts that nothing is left of are dropped."""
    part = RunPart(
        step,
        datetime.now(UTC).isoformat(timespec="seconds"),
        __version__,
        _commit(),
        processor(),
        available_cores(),
        torch.cuda.get_device_name(device) if device.type == "cuda" else None,
        platform.python_version(),
        torch.__version__,
    )
    kept = [earlier for earlier in _known_parts(run) if earlier.from_step < step]
    content = json.dumps({"parts": [asdict(one) for one in [*kept, part]]}, indent=1)
    replace_file(run / RUN_ORIGIN, content.encode())


def _known_parts(run: Path) -> list[RunPart]:
    """Return the parts noted so far; a file that can't be read is set aside, as it only informs."""
    try:
        return read_origin(run)
    except ValueError as error:
        aside = run / f"{RUN_ORIGIN}.unreadable"
        (run / RUN_ORIGIN).replace(aside)
        logging.getLogger(__name__).warning("%s; moved to %s", error, aside.name)
        return []


def read_origin(run: Path) -> list[RunPart]:
    """The parts of a run, in order; none where that was never noted.

    Raises:
        ValueError: the file can't be read as one.
    """
    path = run / RUN_ORIGIN
    if not path.exists():
        return []
    names = [field.name for field in fields(RunPart)]
    try:
        parts = parse_json(read_regular(path, links=True))["parts"]
        return [_checked(RunPart(**{name: part[name] for name in names})) for part in parts]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} can't be used: {error!r}") from error


def _checked(part: RunPart) -> RunPart:
    for field in fields(RunPart):
        value = getattr(part, field.name)
        kinds = (int,) if field.name in ("from_step", "cores") else (str, NoneType)
        if not isinstance(value, kinds):
            raise TypeError(f"{field.name}: expected {field.type}, got {value!r}")
    return part


def _commit() -> str | None:
    if not (_CHECKOUT / ".git").exists():  # installed; a repository around the environment is not ours
        return None
    command = ["git", "-C", str(_CHECKOUT), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def processor() -> str:
    """The model where the system tells it, else the family."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()
