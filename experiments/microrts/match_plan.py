"""The games of `entitize eval microrts`, from its flags and the configuration of the run."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from ...adapters.microrts import Options, check_bot, check_installed, find_map, weights_array
from ...envs.errors import checked_options
from ...envs.seeds import EVALUATION_SEED
from ...policies import newest_checkpoint
from ...trainers import read_checkpoint
from ..arguments import Names, Pairs, check_at_least
from ..config import read_run_config
from ..environments import EnvConfig, boards_of, is_microrts
from ..errors import UserError, differences, user_errors
from ..networks import RANDOM
from .matches import MatchJob, MatchSettings, ResultsFile, plan_jobs, read_settings
from .published_microrts import ALL_BOTS, SEARCH_BOTS

#: The results of `entitize eval microrts RUN` in the run folder.
RESULTS = Path("eval_microrts", "results.jsonl")
#: Before the name of an agent: the setting that identifies its checkpoint.
CHECKPOINT_OF = "checkpoint of "


@dataclass(frozen=True)
class MicroRTSEvalArguments:
    """Play a trained agent against the scripted bots of μRTS: wins, ties, losses and returns with intervals.

    Example: entitize eval microrts runs/basesWorkers8x8 --games 100. After a stop, the same command continues
    with the missing games.
    """

    run: tyro.conf.Positional[Path | None] = None
    """The run folder."""
    games: int = 100
    """Games against each bot on each map."""
    map: str | None = None
    """The map (default: the run's)."""
    maps: Names = ()
    """Several maps."""
    side: Literal["both", "0", "1"] = "both"
    """The side of the agent; both: half of the games each."""
    bots: Names = ()
    """The bots to play (default: the thirteen of the papers, and mayari)."""
    fast: bool = False
    """Leave out the search bots, which take 10 to 100 ms per step."""
    random: bool = False
    """Also play with the random policy, or only with it if no run is given."""
    against: Path | None = None
    """Play against another run, and against bots only with --bots or --fast."""
    max_steps: int = 2000
    """Ticks until a game is a tie: 2000 in the papers, 4000 in Huang et al."""
    deterministic: bool = False
    """Take the most probable action instead of sampling, as the papers do."""
    seed: int = EVALUATION_SEED
    """Seed of environments and actions."""
    kwargs: Annotated[Pairs, tyro.conf.arg(aliases=("--options",))] = field(default_factory=dict)
    """Options of the environment that differ from training, or that are missing in the run's configuration,
    e.g. features=planes (--options: the flag's former name)."""
    workers: int | None = None
    """Worker processes, each with its own JVM (default: one per core); 0: play in this process."""
    checkpoint: Path | None = None
    """A checkpoint folder (default: the run's newest)."""
    out: Path | None = None
    """The folder of the results (default: eval_microrts in the run folder)."""

    def __post_init__(self) -> None:
        if self.run is None and not self.random:
            raise ValueError("give a run folder, or --random, or both")
        if self.run is None and (self.checkpoint or self.against):
            raise ValueError("--checkpoint and --against need a run folder")
        if self.map is not None and self.maps:
            raise ValueError("give --map or --maps, not both")
        if self.bots and self.fast:
            raise ValueError("give --bots or --fast, not both")
        for name in ("bots", "maps"):
            names = getattr(self, name)
            if len(set(names)) < len(names):
                raise ValueError(f"--{name} names one twice: {' '.join(names)}")
        check_at_least(self, 2 if self.side == "both" else 1, "games")
        check_at_least(self, 0, "workers", "seed")


@dataclass(frozen=True)
class MatchPlan:
    """The games to play."""

    jobs: list[MatchJob]
    settings: MatchSettings
    identity: dict[str, Any]  # what games must have in common to be counted together, by name
    own_weights: list[float] | None  # of rewards: those of --kwargs or of the training, where not the papers'
    out: Path

    def results(self) -> ResultsFile:
        """Open the file of results.

        Raises:
            UserError: it holds games by other settings, or can't be used.
        """
        return ResultsFile(self.out / RESULTS.name, self.identity)


def _name_of(run: Path, taken: Collection[str]) -> str:
    """Return the name of a run's folder, with that of the folder around it where another has the same."""
    run = run.resolve()
    return f"{run.parent.name}/{run.name}" if run.name in taken else run.name


def make_plan(chosen: MicroRTSEvalArguments) -> MatchPlan:
    """Return the plan of a command.

    Raises:
        UserError: there is no such run, map, bot, option or checkpoint, or they don't go together.
    """
    env = _environment_of(chosen.run, chosen)
    bots = chosen.bots or tuple(bot for bot in ALL_BOTS if not chosen.fast or bot not in SEARCH_BOTS)
    out = chosen.out or (chosen.run or Path()) / RESULTS.parent
    agents: dict[str, Path] = {}
    with user_errors(ValueError, TypeError, ImportError):  # CheckpointError is a ValueError
        check_installed()
        maps = chosen.maps or [board.name for board in boards_of(env.id, env.kwargs)]
        options = _options_of(env, chosen)
        own_weights = weights_array({**env.kwargs, **chosen.kwargs}.get("reward_weights"))
        for board in maps:
            find_map(board)
        for bot in bots:
            check_bot(bot)
        if chosen.run is not None:
            agents[_name_of(chosen.run, (*bots, RANDOM))] = chosen.checkpoint or newest_checkpoint(chosen.run)
        if chosen.against is not None:
            rival = _name_of(chosen.against, (*agents, *bots, RANDOM))
            _check_same_options(options, _options_of(_environment_of(chosen.against, chosen), chosen))
            agents[rival] = newest_checkpoint(chosen.against)
            bots = (*bots, rival) if chosen.bots or chosen.fast else (rival,)
            out = chosen.out or out.with_name(f"eval_microrts_against_{chosen.against.resolve().name}")
        # Options at their defaults are left out, so that one that is added later changes nothing.
        usual = {**asdict(Options()), "max_steps": options["max_steps"]}
        identity = {
            "max_steps": options["max_steps"],
            **{f"option {name}": value for name, value in options.items() if value != usual[name]},
            **{f"{CHECKPOINT_OF}{name}": fingerprint(path) for name, path in agents.items()},
        }
    identity |= {"deterministic": chosen.deterministic, "seed": chosen.seed}
    players = [*list(agents)[:1], *([RANDOM] if chosen.random else [])]
    sides = (0, 1) if chosen.side == "both" else (int(chosen.side),)
    return MatchPlan(
        plan_jobs(players, maps, bots, sides, chosen.games),
        MatchSettings(agents, options, chosen.deterministic, chosen.seed),
        identity,
        None if (own_weights == weights_array(None)).all() else own_weights.tolist(),
        out,
    )


def _environment_of(run: Path | None, chosen: MicroRTSEvalArguments) -> EnvConfig:
    """Return the environment of a run, or a plain one, on the map that is asked for."""
    plain = EnvConfig(id=f"MicroRTS/{chosen.map or 'basesWorkers16x16'}")
    if run is None:
        return plain
    if not run.is_dir():
        raise UserError(f"{run}: expected a run folder, got no folder")
    try:
        env = read_run_config(run).env
    except UserError as error:
        if chosen.map or chosen.maps:  # a run of the Python interface, say
            return plain
        raise UserError(f"{error}\n(give --map, and with --kwargs what the agent needs)") from error
    if not is_microrts(env.id) and not chosen.map and not chosen.maps:
        hint = ". For an environment of your own that plays it, give --map or --maps" if ":" in env.id else ""
        raise UserError(f"{run} was trained in {env.id}, which is not MicroRTS{hint}")
    if chosen.map:
        kwargs = {name: value for name, value in env.kwargs.items() if name != "maps"}
        return EnvConfig(id=plain.id, kwargs=kwargs)
    return env


def _options_of(env: EnvConfig, chosen: MicroRTSEvalArguments) -> dict[str, Any]:
    """Return all options of the games: those of training, changed by the command; bots search in full."""
    seen = {part.name for part in fields(Options)}
    trained = {name: value for name, value in env.kwargs.items() if name in seen}
    usual = {"search_iterations": None, "max_steps": chosen.max_steps}
    given = {name: value for name, value in chosen.kwargs.items() if name != "reward_weights"}
    return asdict(checked_options("MicroRTS", Options, {**trained, **usual, **given}))


def _check_same_options(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> None:
    """Check that two agents that play each other were trained with the same options."""
    if differ := differences(theirs, ours, "here"):
        raise UserError(f"the runs can't play each other: {differ}")


def has_played(checkpoint: Path, results: Path) -> bool:
    """Return True if a file of results says that its games were played by this checkpoint alone."""
    try:
        settings = read_settings(results)
        agents = [value for name, value in settings.items() if name.startswith(CHECKPOINT_OF)]
        return agents == [fingerprint(checkpoint)]
    except (UserError, OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def fingerprint(path: Path) -> str:
    """Return the step and the hash of a checkpoint, which do not depend on its folder."""
    metadata = read_checkpoint(path).metadata
    return f"step {metadata.get('step')}, SHA-256 {metadata['sha256']['checkpoint.json'][:16]}"
