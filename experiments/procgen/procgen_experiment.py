"""`entitize experiment procgen`: networks on games, with the hyper-parameters of their configurations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import tyro

from ...adapters.procgen.games import GAMES
from ..queue.queue_flags import QueueFlags, configured, names, read_base
from ..queue.training_jobs import TrainingJob

#: Name of a network in an experiment -> the configuration that trains it.
NETWORKS = {
    "roguenet": "procgen",
    "roguenet_normalized": "procgen_normalized",
    "roguenet_fourier": "procgen_fourier",
    "impala": "procgen_impala",
}


@dataclass(frozen=True, kw_only=True)
class ProcgenArguments(QueueFlags):
    """Train networks on Procgen's games: one run for each game, network and seed.

    Example: entitize experiment procgen --games maze,heist --out runs/procgen -- --env.num-envs 32.
    The same command continues after a stop or a kill. Flags after `--` are those of `entitize train`.
    """

    games: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="A,B")] = ()
    """Games, or all (default)."""
    net: Annotated[
        tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(aliases=["--nets"], metavar="A,B")
    ] = ()
    """Networks: roguenet (default), roguenet_normalized, roguenet_fourier, impala."""


def procgen_jobs(chosen: ProcgenArguments, train_flags: Sequence[str] = ()) -> list[TrainingJob]:
    """The runs that are asked for.

    Raises:
        UserError: there is no such game, network or flag.
    """
    games = names("game", chosen.games or ["all"], GAMES)
    bases = {
        net: read_base(NETWORKS[net], train_flags)
        for net in names("network", chosen.net or ["roguenet"], NETWORKS)
    }
    return [
        TrainingJob(game, network, seed, configured(base, f"Procgen/{game}", seed, chosen))
        for seed in range(chosen.seeds)
        for network, base in bases.items()
        for game in games
    ]
