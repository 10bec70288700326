"""`entitize record`: what an agent plays, as a dataset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tyro

from .. import __version__
from ..datasets import EntityDataset, record
from ..envs import ActionError, EntityVectorEnv, WorkerError
from ..experiments import (
    EnvConfig,
    EvalConfig,
    Levels,
    TrainConfig,
    UserError,
    check_at_least,
    evaluation_env,
    parse,
)
from ..experiments.networks import load_player
from .agent_flags import AgentFlags


@dataclass(frozen=True, kw_only=True)
class RecordArguments(AgentFlags):
    """Record what a trained agent plays: observations, masks, actions, rewards and ends, as Arrow files.

    Example: entitize record runs/bigfish --episodes 100 --out plays/

    What a person played in a game of any language, which wrote its messages into a file (docs/protocol.md):
    entitize record plays.jsonl --out plays/

    A bot of μRTS against another one: entitize record MicroRTS/basesWorkers8x8 --bots mayari
    --kwargs opponents=coacAI side=both --out plays/
    """

    run: tyro.conf.Positional[Path]
    """The run folder; with --bots also the id of an environment of μRTS. Or a file of messages."""
    out: Path
    """The folder of the dataset, new or empty."""
    episodes: int | None = None
    """Whole episodes to record (default: 100, unless --steps is given; of a file all)."""
    steps: int | None = None
    """Steps to record in each lane, instead of whole episodes; `entitize replay` can play these again."""
    num_envs: int | None = None
    """Lanes to play in (default: as the run's evaluation)."""
    random: bool = False
    """Record the random policy instead."""
    bots: tuple[str, ...] = ()
    """Record these bots of μRTS instead, which the lanes take in turns."""
    teacher: Path | None = None
    """Record the most probable actions of this run's agent, or those of a bot, module:function, instead of
    those that are carried out, so that `entitize clone` learns what it would do where the run gets to
    (DAgger)."""
    levels: Levels = "training"
    """Play on the levels of training, or on those that training did not see."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(self, 1, "episodes", "steps", "num_envs")
        if self.episodes is not None and self.steps is not None:
            raise ValueError("give either --episodes or --steps, not both")
        if self.random and self.bots:
            raise ValueError("give either --random or --bots, not both")
        if self.teacher and self.bots:
            raise ValueError("give either --teacher or --bots, not both")

    def config(self) -> TrainConfig:
        """Return the run's configuration, or one of the environment that bots play in."""
        if self.bots and not self.run.is_dir():
            # In as many lanes as are played, so that `selfplay` and `opponents` count those.
            lanes = self.num_envs or EvalConfig().num_envs
            return TrainConfig(env=EnvConfig(str(self.run), num_envs=lanes))
        return super().config()


def main(arguments: Sequence[str]) -> None:
    """Parse and run the command."""
    chosen = parse(RecordArguments, "record", arguments)
    if chosen.run.is_file():
        record_messages(chosen)
        return
    config, settings = chosen.read()
    lanes = chosen.num_envs or settings.num_envs
    settings = replace(settings, num_envs=lanes, episodes=lanes)
    env, _ = evaluation_env(config.env, settings, chosen.levels, chosen.kwargs)
    episodes = chosen.episodes or (None if chosen.steps else 100)
    with chosen.environments(config, env) as venv:
        player = _player(chosen, venv)
        teacher = load_player(chosen.teacher, venv) if chosen.teacher else None
        try:
            record(
                venv,
                player,
                chosen.out,
                episodes=episodes,
                steps=chosen.steps,
                deterministic=settings.deterministic,
                seed=settings.seed,
                metadata=_facts(chosen, env),
                teacher=teacher,
            )
        except FileExistsError as error:
            raise UserError(str(error)) from error
        except OSError as error:
            raise UserError(f"{chosen.out} can't be written: {error}") from error
        except RuntimeError as error:
            if not chosen.bots:
                raise
            raise UserError(str(error)) from error  # a bot raised something, or hangs
    _report(chosen, player)


def record_messages(chosen: RecordArguments) -> None:
    """Record what a file of messages says that was played.

    Raises:
        UserError: a line of it is wrong, there are flags for an agent, or the dataset can't be written.
    """
    given = {f"--{name}": getattr(chosen, name) for name in ("steps", "random", "bots", "teacher", "kwargs")}
    given |= {"--num-envs": chosen.num_envs, "--checkpoint": chosen.checkpoint}
    for flag, value in given.items():
        if value:
            raise UserError(f"{flag}: expected a run folder with it, got the file {chosen.run}. Remove it")
    from ..adapters.programs import MessageFile, ProgramVectorEnv

    try:
        play = MessageFile(chosen.run)
        episodes = min(chosen.episodes or play.num_episodes, play.num_episodes)
        with ProgramVectorEnv(play) as venv:
            record(venv, play.choose, chosen.out, episodes=episodes, metadata={"policy": str(chosen.run)})
    except WorkerError as error:
        raise UserError(str(error.__cause__ or error)) from error
    except ActionError as error:
        raise UserError(f"{chosen.run}: line {play.line}: chosen: {error}") from error
    except (OSError, ValueError) as error:
        raise UserError(str(error)) from error
    _report(chosen, None)


def _facts(chosen: RecordArguments, env: EnvConfig) -> dict[str, Any]:
    """Return the metadata of the dataset."""
    return {
        "entitize": __version__,
        "env": env.id,
        "kwargs": dict(env.kwargs),
        **({"view": dict(env.view)} if env.view else {}),
        "levels": chosen.levels,
        "policy": _name(chosen),
        **({"teacher": str(chosen.teacher)} if chosen.teacher else {}),
    }


def _report(chosen: RecordArguments, player: Any) -> None:
    """Print what was recorded."""
    dataset = EntityDataset(chosen.out, verify=False)
    whole = [episode.total_reward for episode in dataset.episodes if episode.is_complete]
    mean = f", mean return {sum(whole) / len(whole):.2f}" if whole else ""
    print(f"{chosen.out}: {len(dataset.decisions):,} steps, {len(whole)} whole episodes{mean}")
    if chosen.bots and player.num_refused:
        print(f"{player.num_refused:,} of {player.num_orders:,} actions were masked and replaced by waiting")


def _name(chosen: RecordArguments) -> str:
    if chosen.bots:
        return f"bots: {', '.join(chosen.bots)}"
    return "random" if chosen.random else str(chosen.path)


def _player(chosen: RecordArguments, venv: EntityVectorEnv) -> Any:
    """Return what `record` plays with: an agent, bots of μRTS, or None for random actions.

    Raises:
        UserError: there is no checkpoint or bot, or it does not fit the environment.
    """
    if chosen.random:
        return None
    if not chosen.bots:
        return chosen.load(venv)
    from ..adapters.microrts import BotPlayers

    try:
        return BotPlayers(venv, chosen.bots)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise UserError(f"--bots: {error}") from error
