"""Training as a configuration says, in a run folder, with live progress."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from shlex import quote

from rich.console import Console

from ..envs import EntityVectorEnv, WorkerError
from ..files import replace_file
from ..policies import RUN_CONFIG
from ..policies.loading import AnyNetwork
from ..trainers import (
    PPO,
    CheckpointError,
    Detail,
    MetricsError,
    NonFiniteError,
    OpponentPool,
    RankError,
    RunFolder,
    TrackerName,
    TrainingProgress,
    checkpoint_paths,
    clock_time,
    past_self_play,
    process_group,
    say,
    step_of,
)
from ..trainers.distributed import ActorError, ActorRollouts
from ..trainers.learners import check_precision, find_device
from ..trainers.ranks import Ranks, num_ranks
from ..trainers.rollout_source import RolloutSource
from ..trainers.runs.run_folder import contains_run
from .actors import Actors, check_ray_actors, ray_rollouts
from .background_evaluation import BackgroundEvaluation
from .config import TrainConfig
from .config_file import to_yaml
from .environments import EnvConfig, make_environments, with_lanes
from .errors import UserError, user_errors
from .listening import saying_that_no_game_is_there, stored_space
from .networks import initial_policy, unknown_parts
from .user_code import where_raised


def train(
    config: TrainConfig,
    run: Path,
    *,
    resume: bool = False,
    console: Console | None = None,
    stop: threading.Event | None = None,
    detail: Detail = "short",
    given: Collection[str] = (),
    actors: Actors | None = None,
) -> PPO:
    """Train in the folder `run` and return the trainer, its environments closed.

    `detail` is the length of the lines of progress; `given`: see `initial_policy`. Once `stop` is set,
    training ends after the update at hand, with a checkpoint. `actors` play; None: this process does.

    Raises:
        RunLockedError: another process trains this run.
        UserError: the folder contains a run already (or none, to resume), or something in it can't be used.
    """
    with user_errors(ValueError):  # before the environments are made, which can take minutes
        device = "cpu" if config.ppo.device == "auto" else config.ppo.device
        check_precision(find_device(device), config.ppo.precision)
    if actors is None:  # before ranks meet: one that leaves in between is what the others would report
        _share(config.env, num_ranks())
    with process_group() as ranks:
        if not resume and contains_run(run):
            raise _contains_a_run(run)  # before environments are made, which can wait for games
        console = (console or Console()) if ranks.is_first else Console(quiet=True)
        with (
            _environments(config, run, given, ranks, actors) as (venv, policy, config),
            saying_that_no_game_is_there(config.env.id, venv, console),
            _locked(run, ranks, config.track) as folder,
        ):
            trainer = _open(config, run, folder, venv, policy, resume)
            stop = stop or threading.Event()
            with _evaluated(trainer, config, folder, console, stop) as latest:
                return _train(trainer, config, run, resume, console, stop, detail, latest)


@contextmanager
def _environments(
    config: TrainConfig, run: Path, given: Collection[str], ranks: Ranks, actors: Actors | None
) -> Iterator[tuple[EntityVectorEnv | RolloutSource, AnyNetwork, TrainConfig]]:
    """Make the environments, here or in `actors`, and the network with the options that it has."""
    if actors is None:
        space = stored_space(config, run)  # of a resumed run
        with make_environments(_share(config.env, ranks.size), **space) as venv:
            yield venv, *initial_policy(config, venv, run, given)
        return
    check_ray_actors(config, actors, ranks)
    with make_environments(with_lanes(config.env, config.env.num_envs // actors.count)) as venv:
        policy, config = initial_policy(config, venv, run, given)
    with ray_rollouts(config, policy, actors) as rollouts:
        yield rollouts, policy, config


@contextmanager
def _evaluated(
    trainer: PPO, config: TrainConfig, folder: RunFolder | None, console: Console, stop: threading.Event
) -> Iterator[Callable[[], Mapping[str, float]]]:
    """Evaluate checkpoints beside the training, where `eval.every` says so; give the latest result."""
    if config.eval.every is None or folder is None:
        yield dict  # no results
        return
    evaluation = BackgroundEvaluation(folder, config, trainer.step, console, stop)
    trainer.callbacks.append(evaluation)
    with evaluation.running():
        yield lambda: evaluation.latest


def _share(env: EnvConfig, num_ranks: int) -> EnvConfig:
    """Return the environments of one of the ranks: as many as each other has.

    Raises:
        UserError: they can't be divided evenly.
    """
    if env.num_envs % num_ranks:
        raise UserError(f"env.num_envs: expected a multiple of the {num_ranks} ranks, got {env.num_envs}")
    return with_lanes(env, env.num_envs // num_ranks)


@contextmanager
def _locked(run: Path, ranks: Ranks, track: TrackerName | None) -> Iterator[RunFolder | None]:
    """Give the folder, which the first of `ranks` works in alone."""
    if not ranks.is_first:
        yield None
        return
    with ExitStack() as stack:
        try:
            folder = RunFolder(run, track=track)
            stack.enter_context(folder.locked())
        except ModuleNotFoundError as error:
            raise UserError(str(error)) from error
        except OSError as error:
            if run.is_file():
                raise UserError(f"{run} is not a folder") from error
            raise _unwritable(run, error) from error
        yield folder


def _train(
    trainer: PPO,
    config: TrainConfig,
    run: Path,
    resume: bool,
    console: Console,
    stop: threading.Event,
    detail: Detail,
    latest: Callable[[], Mapping[str, float]],
) -> PPO:
    max_seconds = None if config.max_minutes is None else 60 * config.max_minutes
    _begin(trainer, config, run, max_seconds, console)
    _announce(trainer, config, run, resume, console)
    remaining = None if max_seconds is None else max_seconds - trainer.elapsed_seconds
    with TrainingProgress(
        config.ppo.total_timesteps,
        max_seconds=remaining,
        start=trainer.step,
        console=Console(quiet=True) if detail == "none" else console,
        is_full=detail == "full",
    ) as progress:
        trainer.callbacks.append(
            # the line of progress alone repeats an evaluation, whose metrics are those of its own step
            lambda trainer, metrics: progress.update(trainer.step, {**metrics, **latest()})
        )
        trainer.callbacks.append(lambda trainer, metrics: stop.is_set())
        try:
            trainer.train(max_seconds=max_seconds, progress=False)  # it is shown here
        except (NonFiniteError, CheckpointError, MetricsError) as error:
            raise UserError(str(error)) from error
        except (WorkerError, RankError, ActorError) as error:
            place = "" if error.__cause__ is None else where_raised(error.__cause__)
            lines = [str(error), place, _how_to_resume(run)]
            raise UserError("\n".join(filter(None, lines))) from error
        except KeyboardInterrupt:
            say(console, _how_to_resume(run))
            raise
    say(
        console,
        f"{trainer.step:,} steps in {clock_time(progress.seconds)}; checkpoints in {run / 'checkpoints'}",
    )
    if stop.is_set():
        say(console, _how_to_resume(run))
    return trainer


def _begin(trainer: PPO, config: TrainConfig, run: Path, max_seconds: float | None, console: Console) -> None:
    """Write the configuration into the run folder, unless the run has been trained to its end.

    Raises:
        UserError: the run has taken more steps than are asked for, or the folder can't be written.
    """
    if trainer.step >= config.ppo.total_timesteps + trainer.episodes.num_envs * config.ppo.num_steps:
        raise UserError(
            f"ppo.total-timesteps: expected more than the {trainer.step:,} steps that {run} has taken, got"
            f" {config.ppo.total_timesteps:,}"
        )
    is_over = max_seconds is not None and trainer.elapsed_seconds >= max_seconds
    is_over |= trainer.step >= config.ppo.total_timesteps
    if is_over:  # its configuration would claim options that nothing was trained with
        more = "higher --ppo.total-timesteps" + (" and --max-minutes" if max_seconds is not None else "")
        say(console, f"{run} has been trained to its end: {more} would continue it")
    elif trainer.ranks.is_first:
        try:
            replace_file(run / RUN_CONFIG, to_yaml(config).encode())
        except OSError as error:
            raise _unwritable(run, error) from error


def _announce(trainer: PPO, config: TrainConfig, run: Path, resume: bool, console: Console) -> None:
    """Print what trains where."""
    players = "" if trainer.ranks.size == 1 else f" of {trainer.ranks.size} ranks"
    if isinstance(trainer.venv, ActorRollouts):
        count = trainer.venv.num_actors
        players = f" of {count} actor{'s' if count > 1 else ''}"
    resumed = f", resumed at step {trainer.step:,}" if resume else ""
    say(console, f"{config.env.id}, {trainer.episodes.num_envs} environments{players}, in {run}{resumed}")
    if unknown := unknown_parts(trainer.policy):
        say(console, f"left out, as the network does not know them: {', '.join(unknown)}")


def _contains_a_run(run: Path) -> UserError:
    return UserError(
        f"{run} contains a run already: continue it with --resume {quote(str(run))}, or name another with"
        " --run"
    )


def _unwritable(run: Path, error: OSError) -> UserError:
    return UserError(f"{run} can't be written: {error}")


def _how_to_resume(run: Path) -> str:
    """Return the command that continues a run, or say that nothing was saved."""
    paths = checkpoint_paths(run / "checkpoints")
    command = f"`entitize train --resume {quote(str(run))}`"
    if not paths:
        return f"no checkpoint was written yet: {command} starts again at step 0"
    return f"{command} continues from step {step_of(paths[-1]):,}"


def _open(
    config: TrainConfig,
    run: Path,
    folder: RunFolder | None,
    venv: EntityVectorEnv | RolloutSource,
    policy: AnyNetwork,
    resume: bool,
) -> PPO:
    try:
        if config.opponents is not None:
            assert isinstance(venv, EntityVectorEnv)
            chosen = config.opponents
            pool = OpponentPool(
                policy,
                folder=run / "opponents",
                checkpoints=chosen.checkpoints,
                max_size=chosen.max_size,
                weighting=chosen.weighting,
            )
            share, interval = chosen.latest_share, chosen.interval
            venv = past_self_play(venv, pool, latest_share=share, interval=interval, seed=config.ppo.seed)
        return PPO(policy, venv, config.ppo, folder, resume=resume)
    except FileExistsError as error:
        raise _contains_a_run(run) from error
    except OSError as error:
        raise _unwritable(run, error) from error
    except (CheckpointError, RankError, ValueError) as error:
        raise UserError(str(error)) from error
