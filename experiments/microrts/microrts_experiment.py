"""`entitize experiment microrts`: RogueNet and the published networks on maps, judged against the bots."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import tyro

from ...adapters.microrts.java.maps import Map, find_map
from ..arguments import check_at_least
from ..errors import UserError
from ..queue.queue_flags import QueueFlags, configured, names, read_base
from ..queue.training_jobs import EvaluationFlags, TrainingJob

#: Name of a network in an experiment -> the configuration that trains it, and its options.
NETWORKS: dict[str, tuple[str, dict[str, Any]]] = {
    "roguenet": ("microrts", {}),
    "transformer": ("microrts_transformer", {"position": "one_hot"}),
    "transformer_embedding": ("microrts_transformer", {"position": "embedding"}),
    "gridnet": ("microrts_gridnet", {}),
    "uas": ("microrts_uas", {}),
}
#: RogueNet has a configuration of its own for maps of at most so many cells.
_SMALL_MAP, _SMALL_MAP_CONFIG = 64, "microrts_8x8"
#: Up to so many cells the paper tells them to the TransformerNet one-hot; wider, its heads don't fit.
_ONE_HOT = 64


@dataclass(frozen=True, kw_only=True)
class MicroRTSArguments(QueueFlags):
    """Train networks on maps of μRTS, then evaluate them against its bots.

    Example: entitize experiment microrts --maps 8x8 --out runs/microrts -- --ppo.checkpoint-interval 200000.
    The same command continues after a stop or a kill. Flags after `--` are those of `entitize train`; another
    number of environments needs other opponents: `-- --env.num-envs 12 --env.kwargs opponents=coacAI`.
    """

    maps: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="A,B")] = ()
    """Maps (default: 8x8,16x16); NxN is basesWorkersNxN."""
    net: Annotated[
        tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(aliases=["--nets"], metavar="A,B")
    ] = ()
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
    """The runs that are asked for. `transformer` is left out where a map is too large for it.

    Raises:
        UserError: there is no such map, network or flag.
    """
    boards = _boards(chosen.maps or ("8x8,16x16",))
    networks = names("network", chosen.net or ["all"], NETWORKS)
    pairs = [
        (board, network)
        for network in networks
        for board in boards
        if network != "transformer" or board.width * board.height <= _ONE_HOT
    ]
    if not pairs:
        raise UserError(
            "transformer tells at most 64 cells apart; on larger maps there is transformer_embedding"
        )
    bases = {name: read_base(name, train_flags) for name in {_config_of(*pair) for pair in pairs}}
    evaluation = EvaluationFlags(chosen.eval_games, chosen.all_bots, chosen.eval_max_steps)
    jobs = []
    for seed in range(chosen.seeds):
        for board, network in pairs:
            base = bases[_config_of(board, network)]
            base = replace(base, baseline={**base.baseline, **NETWORKS[network][1]})
            config = configured(base, f"MicroRTS/{board.name}", seed, chosen)
            jobs.append(TrainingJob(board.name, network, seed, config, evaluation))
    return jobs


def _config_of(board: Map, network: str) -> str:
    if network == "roguenet" and board.width * board.height <= _SMALL_MAP:
        return _SMALL_MAP_CONFIG
    return NETWORKS[network][0]


def _boards(words: Sequence[str]) -> list[Map]:
    asked = [name.strip() for word in words for name in word.split(",") if name.strip()]
    full = [f"basesWorkers{name}" if re.fullmatch(r"\d+x\d+", name) else name for name in asked]
    try:
        return [find_map(name) for name in dict.fromkeys(full)]
    except (ValueError, ImportError) as error:
        raise UserError(str(error)) from error
