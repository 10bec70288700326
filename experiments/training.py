"""Training as a configuration says, in a run folder, with live progress."""

from __future__ import annotations

import threading
from pathlib import Path

from rich.console import Console

from ..envs import EntityVectorEnv, WorkerError
from ..policies.loading import AnyNetwork
from ..trainers import PPO, CheckpointError, NonFiniteError
from ..trainers.runs.files import replace_file
from .config import (
    RUN_CONFIG,
    TrainConfig,
)
from .config_file import to_yaml
from .environments import make_environments
from .errors import UserError
from .networks import make_policy
from .progress import TrainingProgress, clock_time
from .run_lock import run_lock
from .run_opponents import with_opponents
from .run_origin import note_origin


def train(
    config: TrainConfig,
    run: Path,
    *,
    resume: bool = False,
    console: Console | None = None,
    stop: threading.Event | None = None,
) -> PPO:
    """Train as `config` says, in the folder `run`; returns the trainer, its environments closed.

    Once `stop` is set, training ends after the update that it is in, with a checkpoint.

    Raises:
        RunLockedError: another process trains this run.
        UserError: the folder holds a run already (or none, to resume), or something in it can't be used.
    """
    with make_environments(config.env) as venv:
        policy = make_policy(config, venv)
        with run_lock(run):
            return _train(_open(config, run, venv, policy, resume), config, run, console or Console(), stop)


def _train(
    trainer: PPO, config: TrainConfig, run: Path, console: Console, stop: threading.Event | None
) -> PPO:
    replace_file(run / RUN_CONFIG, to_yaml(config).encode())
    note_origin(run, trainer.step, trainer.device)
    console.print(
        f"{config.env.id}, {trainer.venv.num_envs} environments, in {run}", highlight=False, soft_wrap=True
    )
    max_seconds = None if config.max_minutes is None else 60 * config.max_minutes
    remaining = None if max_seconds is None else max_seconds - trainer.elapsed_seconds
    with TrainingProgress(
        config.ppo.total_timesteps, max_seconds=remaining, start=trainer.step, console=console
    ) as progress:
        trainer.callbacks.append(lambda trainer, metrics: progress.update(trainer.step, metrics))
        if stop is not None:
            trainer.callbacks.append(lambda trainer, metrics: stop.is_set())
        try:
            trainer.train(max_seconds=max_seconds)
        except (NonFiniteError, CheckpointError) as error:
            raise UserError(str(error)) from error
        except WorkerError as error:
            raise UserError(
                f"{error}\n`entitize train --resume {run}` goes on from the last checkpoint"
            ) from error
        except KeyboardInterrupt:
            console.print(f"`entitize train --resume {run}` goes on from the last checkpoint", soft_wrap=True)
            raise
    console.print(
        f"{trainer.step:,} steps in {clock_time(progress.seconds)}; checkpoints in {run / 'checkpoints'}",
        highlight=False,
        soft_wrap=True,
    )
    return trainer


def _open(config: TrainConfig, run: Path, venv: EntityVectorEnv, policy: AnyNetwork, resume: bool) -> PPO:
    try:
        if config.opponents is not None:
            venv = with_opponents(config.opponents, venv, policy, run, config.ppo.seed)
        return PPO(policy, venv, config.ppo, run, resume=resume)
    except FileExistsError as error:
        raise UserError(
            f"{run} holds a run already: go on with it by --resume {run}, or name another by --run"
        ) from error
    except OSError as error:
        raise UserError(f"{run} can't be written: {error}") from error
    except (CheckpointError, ValueError) as error:
        raise UserError(str(error)) from error
