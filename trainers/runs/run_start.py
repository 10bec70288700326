"""Start or resume the run of a trainer: its folder, `config.yaml` and newest checkpoint."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from ...adapters.module_names import importable_name
from ...envs import EntityVectorEnv
from ...policies import Policy
from ..config import PPOConfig
from ..rollout_source import RolloutSource
from .checkpoint import network_metadata
from .run_folder import RunFolder
from .tracking import Tracker, TrackerName, Tracking
from .trainer_state import Trainer


def as_run_folder(
    trainer: str,
    run_dir: str | Path | RunFolder | None,
    resume: bool,
    track: TrackerName | Tracker | None = None,
) -> RunFolder | None:
    """Return the run folder at `run_dir`, which must exist to `resume`, with a tracker if `track` is one.

    `trainer`: what errors call the caller.

    Raises:
        TypeError: `run_dir` is no path, or `track` no tracker.
        ValueError: `run_dir` is empty, there is nothing to resume or to track without it, or no such tracker.
        ModuleNotFoundError: the tracker is not installed.
        FileNotFoundError, NotADirectoryError: there is no such folder.
    """
    if run_dir is None:
        if resume:
            raise ValueError(f"{trainer}: resume=True needs a run_dir, got None")
        if track is not None:
            raise ValueError(f"{trainer}: track={track!r} needs a run_dir, got None")
        return None
    if isinstance(run_dir, RunFolder):
        if track is not None:
            run_dir.tracking = Tracking(track, run_dir.path)
        return run_dir
    if not isinstance(run_dir, str | Path):
        raise TypeError(f"{trainer}: run_dir: expected a path, got {run_dir!r}")
    if run_dir == "":
        raise ValueError(f"{trainer}: run_dir: expected the name of a folder, got ''. None writes no run")
    return RunFolder(run_dir, resume, track)


def open_run(trainer: Trainer, run: RunFolder, resume: bool) -> None:
    """Prepare the folder `run` for `trainer`, and restore the newest checkpoint to resume.

    Raises:
        FileExistsError: the folder contains a run and `resume` is false.
        CheckpointError: the checkpoint is corrupt, foreign or missing.
        ValueError: no checkpoint can hold the policy's action spaces.
    """
    network_metadata(trainer.policy)
    checkpoint = run.newest_checkpoint(resume)
    if checkpoint is not None:
        trainer.restore(checkpoint)
    run.purge(trainer.step)
    run.write_config(run_config(trainer.policy, trainer.venv, trainer.config), resume)


def run_config(policy: Policy, venv: EntityVectorEnv | RolloutSource, config: PPOConfig) -> dict[str, Any]:
    """Return `config.yaml` of a run made in Python, in the format of `entitize train`.

    The environment's id is None unless `make_vec` made it from a name; `num_envs` then counts games.
    """
    spec, games = venv.vector_spec, getattr(venv, "lane_games", None)
    num_envs = venv.num_envs if games is None else len(np.unique(games))
    env = {"id": None, "num_envs": num_envs} if spec is None else asdict(spec)
    return {"env": env, **network_sections(policy), "ppo": asdict(config)}


def network_sections(policy: Policy) -> dict[str, Any]:
    """Return the sections of `config.yaml` that define the network; a class of the user is "module:Class"."""
    kind = type(policy)
    is_own = kind.__module__.partition(".")[0] != __name__.partition(".")[0]
    network = (importable_name(kind) if is_own else None) or kind.__name__
    return {"network": network, "net" if network == "RogueNet" else "baseline": policy.config}
