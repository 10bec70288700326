"""`entitize eval`: whole episodes on levels that training did not see, with confidence intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

import tyro
from rich.console import Console
from rich.table import Table

from ..envs import EntityVectorEnv
from ..experiments.agents import RANDOM, RandomActor, load_agent
from ..experiments.arguments import parse
from ..experiments.config import TrainConfig
from ..experiments.env_config import EnvConfig, EvalConfig, Pairs
from ..experiments.environments import held_out, make_environments
from ..experiments.microrts.microrts_lanes import with_lanes
from ..experiments.run_config import EnvChoice, read_run_config
from ..experiments.variations import Series, check_series, settings_of
from ..trainers import EpisodeResults, bootstrap_interval, evaluate
from ..trainers.evaluation import Actor
from ..trainers.threads import thread_count


@dataclass(frozen=True)
class EvalArguments:
    """Play whole episodes with a trained agent, and print the mean return with its 95 % bootstrap interval.

    Example: entitize eval runs/coinrun --random. To play the bots of μRTS: entitize eval microrts RUN
    (a run folder called microrts is ./microrts).
    """

    run: tyro.conf.Positional[Path]
    """The run folder."""
    episodes: int | None = None
    """Episodes to play (default: the number in the run's configuration)."""
    random: bool = False
    """Compare with the random policy."""
    levels: Literal["held-out", "training"] = "held-out"
    """Levels to play: held-out from training, or those of training."""
    deterministic: bool = False
    """Take the most probable action instead of sampling."""
    seed: int | None = None
    """Seed of environments and actions (default: that of the run's configuration)."""
    checkpoint: Path | None = None
    """A checkpoint folder (default: the run's newest)."""
    env: EnvChoice = field(default_factory=EnvChoice)
    kwargs: Pairs = field(default_factory=dict)
    """Options of the environment that differ from training, e.g. nrobots=4."""
    vary: Series = field(default_factory=dict)
    """Options to play under several values of, a line for each: nrobots=1,2,4. Several vary together.
    Default: as the run's configuration says."""

    def __post_init__(self) -> None:
        if self.episodes is not None and self.episodes < 1:
            raise ValueError(f"--episodes must be at least 1, got {self.episodes}")
        if self.seed is not None and self.seed < 0:
            raise ValueError(f"--seed must not be negative, got {self.seed}")
        check_series(self.vary)


def main(arguments: Sequence[str]) -> None:
    """Parse and run the command, or `eval microrts`."""
    if arguments[:1] == ["microrts"]:
        # With the packages that draw, which other evaluations do without.
        from ..experiments.microrts.match_evaluation import evaluate_matches
        from ..experiments.microrts.match_plan import MicroRTSEvalArguments

        evaluate_matches(parse(MicroRTSEvalArguments, "eval microrts", arguments[1:]))
        return
    chosen = parse(EvalArguments, "eval", arguments)
    config = read_run_config(chosen.run, chosen.env)
    settings = override(config.eval, chosen.episodes, chosen.seed, chosen.deterministic)
    path = chosen.checkpoint or chosen.run
    rows: list[TableRow] = []
    with thread_count(config.ppo.num_threads):
        for setting in settings_of(chosen.vary or settings.vary):
            env, told = _environment(config, settings, {**chosen.kwargs, **setting}, chosen.levels)
            with make_environments(env) as venv:
                agents: dict[str, Actor] = {_name(path): load_agent(path, venv.single_observation_space)}
                if chosen.random:
                    agents = {RANDOM: RandomActor(venv.single_action_space), **agents}
                rows += [(name, setting, result) for name, result in judge(agents, venv, settings).items()]
    title = " ".join([config.env.id, *(f"{name}={value}" for name, value in chosen.kwargs.items())])
    Console().print(varied_table(title, told, rows))


def _name(path: Path) -> str:
    """The folder's name; of a run of an experiment, which is called by its seed, the network's as well."""
    path = path.resolve()
    return f"{path.parent.name}/{path.name}" if path.name.isdecimal() else path.name


def _environment(
    config: TrainConfig, settings: EvalConfig, changes: Mapping[str, Any], levels: str
) -> tuple[EnvConfig, str]:
    """The environments to play in, with `changes` of their options, and in words what they are."""
    if levels == "held-out":
        return held_out(config.env, replace(settings, kwargs={**settings.kwargs, **changes}))
    env = replace(config.env, kwargs={**config.env.kwargs, **changes})
    return with_lanes(env, min(settings.num_envs, settings.episodes)), "the training levels"


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
    return varied_table(title, caption, [(name, {}, result) for name, result in results.items()])


#: Of a table: an agent, the options of the environment that differ between lines, and its episodes.
TableRow: TypeAlias = tuple[str, Mapping[str, Any], EpisodeResults]


def varied_table(title: str, caption: str, rows: Sequence[TableRow]) -> Table:
    """Return the `results_table` of several settings of the same options, with a column for each option."""
    table = Table(title=title, caption=caption, min_width=len(caption) + 2)
    table.add_column("agent")
    for option in rows[0][1]:
        table.add_column(option, justify="right")
    for heading in ("return", "95 % interval", "episodes", "steps"):
        table.add_column(heading, justify="right")
    for name, setting, result in rows:
        interval = bootstrap_interval(result.returns)
        numbers = (
            f"{interval.mean:.2f}",
            f"{interval.low:.2f} … {interval.high:.2f}",
            str(len(result.returns)),
            f"{result.lengths.mean():.0f}",
        )
        table.add_row(name, *map(str, setting.values()), *numbers)
    return table
