"""Start or resume the run in a folder, and write the configuration that other programs read there."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from ...envs import EntityVectorEnv
from ...policies.policy import Policy
from ..config import PPOConfig
from .checkpoint import checkpoint_paths, clear_leftovers
from .run_folder import RunFolder


def run_folder(run_dir: str | Path | RunFolder | None, resume: bool) -> RunFolder | None:
    """Return the run folder at `run_dir`, which must exist to `resume`.

    Raises:
        TypeError: `run_dir` is no path.
        ValueError: there is nothing to resume without a `run_dir`.
        FileNotFoundError, NotADirectoryError: there is no such folder.
    """
    if run_dir is None:
        if resume:
            raise ValueError("PPO: resume=True needs a run_dir, got None")
        return None
    if isinstance(run_dir, RunFolder):
        return run_dir
    if not isinstance(run_dir, str | Path):
        raise TypeError(f"PPO: run_dir: expected a path, got {run_dir!r}")
    return RunFolder(run_dir, resume)


class RunTrainer(Protocol):
    """Interface of a trainer that has a run folder, such as `PPO`."""

    policy: Policy
    venv: EntityVectorEnv
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


def run_config(policy: Policy, venv: EntityVectorEnv, config: PPOConfig) -> dict[str, Any]:
    """Return `config.yaml` of a run made in Python, in the format of `entitize train`.

    The environment's id is None unless `make_vec` made it from a name.
    """
    spec = venv.vector_spec
    env = {"id": None, "num_envs": venv.num_envs} if spec is None else asdict(spec)
    network = type(policy).__name__
    options = "net" if network == "RogueNet" else "baseline"
    return {"env": env, "network": network, options: policy.config, "ppo": asdict(config)}
