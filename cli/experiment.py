"""`entitize experiment KIND`: many runs, one command."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import tyro

from ..adapters.microrts import Map, find_map
from ..adapters.procgen import GAMES
from ..experiments import TrainConfig, UserError, check_at_least, parse
from ..experiments.ablations import Study, ablation_config, find_study, read_studies
from ..experiments.arguments import Names
from ..experiments.config_file import plain, value_of
from ..experiments.errors import check_known, user_errors
from ..experiments.network_options import EXPERIMENT_NETWORKS
from ..experiments.queue import (
    EvaluationFlags,
    QueueFlags,
    TrainingJob,
    chosen_names,
    configured,
    read_base,
    run_jobs,
    split_train_flags,
)

#: Name of a network in an experiment -> the configuration that trains it.
PROCGEN_NETWORKS = {name: known.procgen for name, known in EXPERIMENT_NETWORKS.items() if known.procgen}
MICRORTS_NETWORKS = {name: known.microrts for name, known in EXPERIMENT_NETWORKS.items() if known.microrts}


@dataclass(frozen=True, kw_only=True)
class ProcgenArguments(QueueFlags):
    """Train networks on Procgen's games: one run for each game, network and seed.

    Example: entitize experiment procgen --games maze,heist --out runs/procgen -- --env.num-envs 32.
    The same command continues after a stop or a kill. Flags after `--` are those of `entitize train`.
    """

    games: Names = ()
    """Games, or all (default)."""
    net: Annotated[Names, tyro.conf.arg(aliases=["--nets"])] = ()
    """Networks: roguenet (default), roguenet_large, roguenet_reference, impala."""


def procgen_jobs(chosen: ProcgenArguments, train_flags: Sequence[str] = ()) -> list[TrainingJob]:
    """Return the runs that are asked for.

    Raises:
        UserError: there is no such game, network or flag.
    """
    games = chosen_names("game", chosen.games or ["all"], GAMES)
    bases = {
        net: read_base(PROCGEN_NETWORKS[net], train_flags)
        for net in chosen_names("network", chosen.net or ["roguenet"], PROCGEN_NETWORKS)
    }
    return [
        TrainingJob(game, network, seed, configured(base, f"Procgen/{game}", seed, chosen))
        for seed in range(chosen.seeds)
        for network, base in bases.items()
        for game in games
    ]


#: RogueNet has a configuration of its own for maps of at most so many cells.
_SMALL_MAP, _SMALL_MAP_CONFIG = 64, "microrts_8x8"
#: Up to so many cells `transformer` can encode positions one-hot, as in the paper.
_ONE_HOT = 64


@dataclass(frozen=True, kw_only=True)
class MicroRTSArguments(QueueFlags):
    """Train networks on maps of μRTS, then evaluate them against its bots.

    Example: entitize experiment microrts --maps 8x8 --out runs/microrts -- --ppo.checkpoint-interval 200000.
    The same command continues after a stop or a kill. Flags after `--` are those of `entitize train`; another
    number of environments needs other opponents: `-- --env.num-envs 12 --env.kwargs opponents=coacAI`.
    """

    maps: Names = ()
    """Maps (default: 8x8,16x16); NxN is basesWorkersNxN."""
    net: Annotated[Names, tyro.conf.arg(aliases=["--nets"])] = ()
    """Networks: roguenet, transformer (up to 8x8), transformer_embedding, gridnet, uas, or all (default)."""
    eval_games: int = 100
    """Games against each bot."""
    eval_max_steps: int = 2000
    """Ticks until a game is a tie: 2000 in the papers, 4000 in Huang et al."""
    all_bots: bool = False
    """Also play the search bots, which takes hours."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(self, 2, "eval_games")  # one for each side
        check_at_least(self, 1, "eval_max_steps")


def microrts_jobs(chosen: MicroRTSArguments, train_flags: Sequence[str] = ()) -> list[TrainingJob]:
    """Return the runs that are asked for. `transformer` is left out where a map is too large for it.

    Raises:
        UserError: there is no such map, network or flag.
    """
    boards = _boards(chosen.maps or ("8x8", "16x16"))
    networks = chosen_names("network", chosen.net or ["all"], MICRORTS_NETWORKS)
    pairs = [
        (board, network)
        for network in networks
        for board in boards
        if network != "transformer" or board.width * board.height <= _ONE_HOT
    ]
    if not pairs:
        raise UserError(f"transformer: expected a map of at most {_ONE_HOT} cells. Use transformer_embedding")
    bases = {name: read_base(name, train_flags) for name in {_config_of(*pair) for pair in pairs}}
    evaluation = EvaluationFlags(chosen.eval_games, chosen.all_bots, chosen.eval_max_steps)
    jobs = []
    for seed in range(chosen.seeds):
        for board, network in pairs:
            base = bases[_config_of(board, network)]
            base = replace(base, baseline={**base.baseline, **EXPERIMENT_NETWORKS[network].options})
            config = configured(base, f"MicroRTS/{board.name}", seed, chosen)
            jobs.append(TrainingJob(board.name, network, seed, config, evaluation))
    return jobs


def _config_of(board: Map, network: str) -> str:
    if network == "roguenet" and board.width * board.height <= _SMALL_MAP:
        return _SMALL_MAP_CONFIG
    return MICRORTS_NETWORKS[network]


def _boards(asked: Sequence[str]) -> list[Map]:
    full = [f"basesWorkers{name}" if re.fullmatch(r"\d+x\d+", name) else name for name in asked]
    with user_errors(ValueError, ImportError):
        return [find_map(name) for name in dict.fromkeys(full)]


@dataclass(frozen=True, kw_only=True)
class AblationArguments(QueueFlags):
    """Train the variants of a study: one run for each game, variant and seed.

    Example: entitize experiment ablation pooling --games heist,maze --out runs/pooling -- --env.num-envs 32.
    `entitize experiment ablation` lists the studies. The same command continues after a stop or a kill. Flags
    after `--` are those of `entitize train`.
    """

    study: tyro.conf.Positional[str]
    """The study, e.g. chunk_size."""
    games: Names = ()
    """Games (default: those of the study), or all that the study allows."""
    variants: Names = ()
    """Variants (default: all)."""


def listing() -> str:
    """Return the studies with their questions, variants and games, as text."""
    lines = ["usage: entitize experiment ablation STUDY --out DIR [OPTIONS] [-- FLAGS OF TRAIN]"]
    for name, study in read_studies().items():
        others = [variant for variant in study.variants if variant != study.baseline]
        variants = f"{study.baseline}, beside {', '.join(others)}"
        lines += ["", f"{name}: {study.question}", f"    {variants}; {', '.join(study.games)}"]
    return "\n".join(lines)


def ablation_jobs(chosen: AblationArguments, train_flags: Sequence[str] = ()) -> list[TrainingJob]:
    """Return the runs that are asked for.

    Raises:
        UserError: there is no such study, game, variant or flag, or a flag sets what the study sets.
    """
    study = find_study(chosen.study)
    games = chosen_names("game", chosen.games or study.games, study.allowed_games())
    variants = chosen_names("variant", chosen.variants or ["all"], study.variants)
    base = _base(chosen.study, study, train_flags)
    jobs = []
    for seed in range(chosen.seeds):
        for game in games:
            for variant in variants:
                config = ablation_config(chosen.study, game, variant, base)
                jobs.append(TrainingJob(game, variant, seed, configured(config, config.env.id, seed, chosen)))
    return jobs


def _base(name: str, study: Study, train_flags: Sequence[str]) -> TrainConfig:
    """The configuration that the variants change, with flags of `entitize train` over it."""
    base = read_base(study.config, train_flags)
    before, after = plain(read_base(study.config, ())), plain(base)
    for key in sorted(study.changes()):
        if value_of(before, key) != value_of(after, key):
            raise UserError(f"{key}: expected none after --, because the study {name} sets it")
    return base


#: Kind -> its flags, the runs that they ask for, and what it does.
KINDS: dict[str, tuple[type[QueueFlags], Callable[..., list[TrainingJob]], str]] = {
    "procgen": (ProcgenArguments, procgen_jobs, "RogueNet and IMPALA on Procgen's games"),
    "microrts": (
        MicroRTSArguments,
        microrts_jobs,
        "RogueNet and the published networks on maps of μRTS, evaluated against its bots",
    ),
    "ablation": (
        AblationArguments,
        ablation_jobs,
        "variants of RogueNet or of its observations, compared with a baseline",
    ),
}
_HELP = """usage: entitize experiment KIND --out DIR [OPTIONS] [-- FLAGS OF TRAIN]

Train many runs in a queue. The same command continues after a stop or a kill.

Example: entitize experiment procgen --games maze,heist --seeds 3 --out runs/procgen

{kinds}

`entitize experiment KIND --help` lists its options."""


def main(arguments: Sequence[str]) -> int:
    """Run a kind of experiment; returns the exit code."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_HELP.format(kinds="\n".join(f"  {name:10} {text}" for name, (_, _, text) in KINDS.items())))
        return 0
    kind, *rest = arguments
    check_known("experiment", kind, KINDS)
    if kind == "ablation" and not rest:
        print(listing())
        return 0
    flags, jobs, _ = KINDS[kind]
    words, train_flags = split_train_flags(rest)
    chosen = parse(flags, f"experiment {kind}", words)
    about = None
    if isinstance(chosen, AblationArguments):
        about = {"study": chosen.study, "baseline": find_study(chosen.study).baseline}
    return run_jobs(kind, jobs(chosen, train_flags), chosen, about)
