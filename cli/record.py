"""`entitize record`: what an agent plays, as a dataset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import tyro
from rich.console import Console

from .. import __version__
from ..datasets import EntityDataset
from ..datasets.recorder import record
from ..envs import EntityVectorEnv
from ..experiments.agents import load_agent
from ..experiments.arguments import parse
from ..experiments.config import TrainConfig
from ..experiments.env_config import EnvConfig, Pairs
from ..experiments.environments import held_out, make_environments
from ..experiments.errors import UserError
from ..experiments.microrts.microrts_lanes import with_lanes
from ..experiments.run_config import EnvChoice, read_run_config
from ..trainers.threads import thread_count
from .evaluate import override


@dataclass(frozen=True)
class RecordArguments:
    """Record what a trained agent plays: observations, masks, actions, rewards and ends, as Arrow files.

    Example: entitize record runs/bigfish --episodes 100 --out plays/

    A bot of μRTS against another one: entitize record MicroRTS/basesWorkers8x8 --bots mayari
    --kwargs opponents=coacAI side=both --out plays/
    """

    run: tyro.conf.Positional[Path]
    """The run folder; with --bots also the id of an environment of μRTS."""
    out: Path
    """The folder of the dataset, new or empty."""
    episodes: int | None = None
    """Whole episodes to record (default: 100, unless --steps is given)."""
    steps: int | None = None
    """Steps to record in each lane, instead of whole episodes; `entitize replay` can play these again."""
    num_envs: int | None = None
    """Lanes to play in (default: as the run's evaluation)."""
    random: bool = False
    """Record the random policy instead."""
    bots: tuple[str, ...] = ()
    """Record these bots of μRTS instead, which the lanes take in turns."""
    levels: Literal["held-out", "training"] = "training"
    """Play on the levels of training, or on those that training did not see."""
    deterministic: bool = False
    """Always take the most probable choice instead of drawing one."""
    seed: int | None = None
    """Seeds environments and actions (default: as the run's configuration says)."""
    checkpoint: Path | None = None
    """A checkpoint folder (default: the run's newest)."""
    env: EnvChoice = field(default_factory=EnvChoice)
    kwargs: Pairs = field(default_factory=dict)
    """Options of the environment that differ from training, e.g. nrobots=4."""

    def __post_init__(self) -> None:
        for name in ("episodes", "steps", "num_envs"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"--{name.replace('_', '-')} must be at least 1, got {value}")
        if self.episodes is not None and self.steps is not None:
            raise ValueError("give either --episodes or --steps, not both")
        if self.random and self.bots:
            raise ValueError("give either --random or --bots, not both")


def main(arguments: Sequence[str]) -> None:
    """Parse and run the command."""
    chosen = parse(RecordArguments, "record", arguments)
    if chosen.bots and not chosen.run.is_dir():
        config = TrainConfig(env=EnvConfig(str(chosen.run)))
    else:
        config = read_run_config(chosen.run, chosen.env)
    settings = override(config.eval, None, chosen.seed, chosen.deterministic)
    changes = {**settings.kwargs, **chosen.kwargs}
    if chosen.levels == "held-out":
        env, _ = held_out(config.env, replace(settings, kwargs=changes))
    else:
        env = replace(config.env, kwargs={**config.env.kwargs, **chosen.kwargs})
    env = with_lanes(env, chosen.num_envs or settings.num_envs)
    facts: dict[str, Any] = {
        "entitize": __version__,
        "env": env.id,
        "kwargs": dict(env.kwargs),
        "levels": chosen.levels,
        "policy": _name(chosen),
    }
    episodes = chosen.episodes or (None if chosen.steps else 100)
    with thread_count(config.ppo.num_threads), make_environments(env) as venv:
        try:
            record(
                *(venv, _player(chosen, venv), chosen.out),
                episodes=episodes,
                steps=chosen.steps,
                deterministic=settings.deterministic,
                seed=settings.seed,
                metadata=facts,
            )
        except FileExistsError as error:
            raise UserError(str(error)) from error
    dataset = EntityDataset(chosen.out, verify=False)
    whole = [episode.total_reward for episode in dataset.episodes if episode.is_complete]
    mean = f", mean return {sum(whole) / len(whole):.2f}" if whole else ""
    Console().print(
        f"{chosen.out}: {len(dataset.decisions):,} steps, {len(whole)} whole episodes{mean}",
        highlight=False,
        soft_wrap=True,
    )


def _name(chosen: RecordArguments) -> str:
    if chosen.bots:
        return f"bots: {', '.join(chosen.bots)}"
    return "random" if chosen.random else str(chosen.checkpoint or chosen.run)


def _player(chosen: RecordArguments, venv: EntityVectorEnv) -> Any:
    """Return what `record` plays with: an agent, bots of μRTS, or None for random actions.

    Raises:
        UserError: there is no checkpoint or bot, or it does not fit the environment.
    """
    if chosen.random:
        return None
    if not chosen.bots:
        return load_agent(chosen.checkpoint or chosen.run, venv.single_observation_space)
    from ..adapters.microrts.bot_players import BotPlayers

    try:
        return BotPlayers(venv, chosen.bots)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise UserError(f"--bots: {error}") from error
