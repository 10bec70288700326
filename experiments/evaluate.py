"""`entitize eval`: whole episodes on levels that training did not see, with confidence intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import tyro
from rich.console import Console
from rich.table import Table

from ..envs import EntityVectorEnv
from ..trainers import EpisodeResults, bootstrap_interval, evaluate
from ..trainers.evaluation import Actor
from ..trainers.threads import thread_count
from .agents import RANDOM, RandomActor, load_agent
from .arguments import parse
from .config import EvalConfig, read_run_config
from .environments import held_out, make_environments
from .microrts_lanes import with_lanes


@dataclass(frozen=True)
class EvalArguments:
    """Play whole episodes with a trained agent; prints the mean return with its 95 % bootstrap interval.

    `entitize eval microrts` plays against the bots of μRTS (a run folder of that name is ./microrts).
    """

    run: tyro.conf.Positional[Path]
    """The run folder."""
    episodes: int | None = None
    """Episodes to play (default: as the run's configuration says)."""
    random: bool = False
    """Compare with the random policy."""
    levels: Literal["held-out", "training"] = "held-out"
    """Play on levels that training did not see, or on those that it did."""
    deterministic: bool = False
    """Always take the most probable choice instead of drawing one."""
    seed: int | None = None
    """Seeds environments and actions (default: as the run's configuration says)."""
    checkpoint: Path | None = None
    """A checkpoint folder (default: the run's newest)."""


def main(arguments: Sequence[str]) -> None:
    """Parse and run the command, or `eval microrts`."""
    if arguments[:1] == ["microrts"]:
        from .microrts_eval import main as play_bots

        play_bots(arguments[1:])
        return
    chosen = parse(EvalArguments, "eval", arguments)
    config = read_run_config(chosen.run)
    settings = override(config.eval, chosen.episodes, chosen.seed, chosen.deterministic)
    env, told = config.env, "the training levels"
    if chosen.levels == "held-out":
        env, told = held_out(config.env, settings)
    env = with_lanes(env, min(settings.num_envs, settings.episodes))
    with thread_count(config.ppo.num_threads), make_environments(env) as venv:
        path = chosen.checkpoint or chosen.run
        agents: dict[str, Actor] = {path.resolve().name: load_agent(path, venv.single_observation_space)}
        if chosen.random:
            agents = {RANDOM: RandomActor(venv.single_action_space), **agents}
        results = judge(agents, venv, settings)
    Console().print(results_table(config.env.id, told, results))


def override(settings: EvalConfig, episodes: int | None, seed: int | None, deterministic: bool) -> EvalConfig:
    """A run's settings with what the command line says instead."""
    return replace(
        settings,
        episodes=settings.episodes if episodes is None else episodes,
        seed=settings.seed if seed is None else seed,
        deterministic=settings.deterministic or deterministic,
    )


def judge(
    agents: Mapping[str, Actor], venv: EntityVectorEnv, settings: EvalConfig
) -> dict[str, EpisodeResults]:
    """Every agent's episodes, all from the same seed."""
    return {
        name: evaluate(actor, venv, settings.episodes, settings.deterministic, settings.seed)
        for name, actor in agents.items()
    }


def results_table(title: str, caption: str, results: Mapping[str, EpisodeResults]) -> Table:
    """One line per agent: mean return, its interval, episodes and their mean length."""
    table = Table(title=title, caption=caption, min_width=len(caption) + 2)
    table.add_column("agent")
    for heading in ("return", "95 % interval", "episodes", "steps"):
        table.add_column(heading, justify="right")
    for name, result in results.items():
        interval = bootstrap_interval(result.returns)
        bounds = f"{interval.low:.2f} … {interval.high:.2f}"
        table.add_row(
            name, f"{interval.mean:.2f}", bounds, str(len(result.returns)), f"{result.lengths.mean():.0f}"
        )
    return table
