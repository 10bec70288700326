"""`entitize eval`: whole episodes on levels that training did not see, with confidence intervals."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..envs import EntityVectorEnv
from ..experiments import (
    RANDOM,
    EvalConfig,
    Levels,
    Series,
    UserError,
    check_at_least,
    check_series,
    evaluation_env,
    parse,
    settings_of,
)
from ..experiments.errors import user_errors
from ..experiments.listening import saying_how_many_are_missing
from ..experiments.networks import load_player
from ..policies import ActingPolicy
from ..trainers import (
    EpisodeResults,
    Interval,
    MatchResults,
    RunLockedError,
    evaluate,
    play_matches,
    say,
)
from ..trainers.self_play.games import games_of
from .agent_flags import AgentFlags


@dataclass(frozen=True, kw_only=True)
class EvalArguments(AgentFlags):
    """Play whole episodes with a trained agent, and print the mean return with its 95 % bootstrap interval.

    Example: entitize eval runs/coinrun --random. Against another agent: entitize eval runs/new --against
    runs/old. To play the bots of μRTS: entitize eval microrts RUN (a run folder called microrts is
    ./microrts).
    """

    episodes: int | None = None
    """Episodes to play (default: the number in the run's configuration)."""
    num_envs: int | None = None
    """Lanes to play in (default: the number in the run's configuration)."""
    random: bool = False
    """Compare with the random policy."""
    against: tuple[Path, ...] = ()
    """Run or checkpoint folders of other agents, or bots of your own, module:function: print the share of
    games that each agent wins against each other (and with --random against the random policy), in games that
    several lanes play. The number of episodes is that of the games of each pair."""
    levels: Levels = "held-out"
    """Levels to play: held-out from training, or those of training."""
    vary: Series = field(default_factory=dict)
    """Options to play under several values of, a line for each: nrobots=1,2,4. Several vary together.
    Default: as the run's configuration says."""
    by: str | None = None
    """Also a line for each value that the info of an episode's last step has under this name, such as
    level_seed or outcome; of many values those with the lowest and highest returns."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(self, 1, "episodes", "num_envs")
        check_series(self.vary)

    def agents(self, venv: EntityVectorEnv) -> dict[str, ActingPolicy]:
        """Return the agents that play in `venv`, by name.

        Raises:
            UserError: an agent is given twice; or see `load_player`.
        """
        paths = [self.path, *self.against]
        if len({path.resolve() for path in paths}) < len(paths):
            raise UserError(f"--against: expected each agent once, got {', '.join(map(str, paths))}")
        names = [_name(path) for path in paths]
        if len({RANDOM, *names}) <= len(names):
            names = [str(path) for path in paths]
        agents = {name: load_player(path, venv) for name, path in zip(names, paths, strict=True)}
        return {RANDOM: self.load(venv, is_random=True), **agents} if self.random else agents


def main(arguments: Sequence[str]) -> None:
    """Parse and run the command, or `eval microrts`."""
    if arguments[:1] == ["microrts"]:
        # With the packages that draw, which other evaluations do without.
        from ..experiments.microrts import MicroRTSEvalArguments, evaluate_matches

        with user_errors(RunLockedError):
            evaluate_matches(parse(MicroRTSEvalArguments, "eval microrts", arguments[1:]))
        return
    chosen = parse(EvalArguments, "eval", arguments)
    if not chosen.against and "--against" in arguments:  # as where a shell's variable is empty
        raise UserError("--against: expected run or checkpoint folders, got none")
    if chosen.by and chosen.against:
        raise UserError("--by: expected it without --against, whose table has no returns. Remove it")
    if chosen.by in chosen.vary:
        raise UserError(f"--by {chosen.by}: expected another name than those of --vary")
    config, settings = chosen.read()
    lanes = chosen.num_envs or settings.num_envs
    settings = replace(settings, episodes=chosen.episodes or settings.episodes, num_envs=lanes)
    rows: list[TableRow] = []
    told: list[str] = []  # about the levels of each setting
    for setting in settings_of(chosen.vary or settings.vary):
        evaluation = settings
        if chosen.against:  # whole games, by default as many as in training
            num_envs = chosen.num_envs or config.env.num_envs
            evaluation = replace(settings, num_envs=num_envs, episodes=max(num_envs, settings.episodes))
        env, levels = evaluation_env(config.env, evaluation, chosen.levels, {**chosen.kwargs, **setting})
        with chosen.environments(config, env) as venv, saying_how_many_are_missing(env.id, venv):
            agents = chosen.agents(venv)
            if chosen.against:
                title = _title(config.env.id, {**chosen.kwargs, **setting})
                results = _play_matches(agents, venv, settings)
                caption = f"{title}, {levels}: share of {settings.episodes} games won, draws count half"
                say(Console(), f"{caption}\n{results}")
            else:
                judged = judge(agents, venv, settings, chosen.by)
                for name, result in judged.items():
                    rows += _split_rows((name, setting, result), chosen.by)
        told.append(levels)
    if not chosen.against:
        title = _title(config.env.id, chosen.kwargs)
        if chosen.by:
            told += _notes(rows, chosen.by)
        Console().print(results_table(title, "; ".join(dict.fromkeys(told)), rows))


def _title(name: str, options: Mapping[str, Any]) -> str:
    return " ".join([name, *(f"{name}={value}" for name, value in options.items())])


def _name(path: Path) -> str:
    """The folder's name; of a run of an experiment, which is called by its seed, the network's as well.

    A checkpoint has its run's name before its own.
    """
    path = path.resolve()
    if path.parent.name in ("checkpoints", "opponents"):
        return f"{path.parent.parent.name}/{path.name}"
    return f"{path.parent.name}/{path.name}" if path.name.isdecimal() else path.name


def judge(
    agents: Mapping[str, ActingPolicy], venv: EntityVectorEnv, settings: EvalConfig, by: str | None = None
) -> dict[str, EpisodeResults]:
    """Every agent's episodes, all from the same seed, with infos under the key `by`."""
    keywords = () if by is None else (by,)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "evaluate: info_keywords", UserWarning)  # the caption says it
        return {
            name: evaluate(actor, venv, settings.episodes, settings.deterministic, settings.seed, keywords)
            for name, actor in agents.items()
        }


def _play_matches(
    agents: Mapping[str, ActingPolicy], venv: EntityVectorEnv, settings: EvalConfig
) -> MatchResults:
    """Let all agents play each other.

    Raises:
        UserError: no two lanes play in one game.
    """
    try:
        games_of(venv, None)
    except ValueError as error:
        raise UserError(f"--against: {error}") from error
    return play_matches(
        agents, venv, settings.episodes, deterministic=settings.deterministic, seed=settings.seed
    )


#: Of a table: an agent, the options of the environment that differ between lines, and its episodes.
TableRow: TypeAlias = tuple[str, Mapping[str, Any], EpisodeResults]


#: Lines of values of an info, of which half have the lowest returns and half the highest.
_MOST_VALUES = 20
#: In the column of such values: all episodes.
_ALL = "all"


def _split_rows(row: TableRow, by: str | None) -> list[TableRow]:
    """Return the row of all episodes, and those of the values of their infos under the key `by`."""
    name, setting, result = row
    if by is None or by not in result.infos:
        return [row]
    with user_errors(TypeError):  # arrays and dicts
        parts = list(result.split(by).items())
    if len(parts) > _MOST_VALUES:
        parts.sort(key=lambda part: part[1].returns.mean())
        parts = parts[: _MOST_VALUES // 2] + parts[-_MOST_VALUES // 2 :]
    return [
        (name, {**setting, by: _ALL}, result),
        *((name, {**setting, by: value}, part) for value, part in parts),
    ]


def _notes(rows: Sequence[TableRow], by: str) -> list[str]:
    """Return what the caption says of the values of infos under the key `by`."""
    whole = [result for _, setting, result in rows if setting.get(by, _ALL) == _ALL]
    counts = [len(result.split(by)) if by in result.infos else 0 for result in whole]
    if not max(counts):
        return [f"no episode's last info has {by!r}"]
    half = _MOST_VALUES // 2
    many = max(counts) > _MOST_VALUES
    return [f"{by}: the {half} lowest and the {half} highest of {max(counts)}"] if many else []


def results_table(title: str, caption: str, rows: Sequence[TableRow]) -> Table:
    """One line per agent and setting: mean return, its interval, episodes and their mean length.

    With their success rate, if episodes have one.
    """
    table = Table(title=escape(title), caption=escape(caption), min_width=len(caption) + 2)
    table.add_column("agent")
    has_success = any(result.success_rate for _, _, result in rows)
    options = dict.fromkeys(name for _, setting, _ in rows for name in setting)
    num_cells = 0 if not has_success else 1 if options else 2  # on 80 columns there is room for no more
    success = ("success", "95 %")[:num_cells]
    for heading in (*options, "return", "95 % interval", *success, "episodes", "steps"):
        is_interval = "95 %" in heading
        width = None if is_interval else len(heading)
        table.add_column(escape(heading), justify="right", no_wrap=is_interval, min_width=width)
    for name, setting, result in rows:
        table.add_row(
            escape(name),
            *(escape(str(setting.get(option, _ALL))) for option in options),
            *_cells(result.interval()),
            *_cells(result.success_rate)[:num_cells],
            str(len(result.returns)),
            f"{result.lengths.mean():.0f}",
        )
    return table


def _cells(interval: Interval | None) -> tuple[str, str]:
    """Return a mean and its bounds as they stand in a table."""
    if interval is None:
        return "–", "–"
    return f"{interval.mean:.2f}", interval.bounds(" … ") or "–"
