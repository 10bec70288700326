"""`make_vec` of μRTS: a vector environment in this process, or its games shared between several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from functools import partial
from typing import Any

from ...envs import EntityVectorEnv
from .java.bots import expected_cost
from .java.maps import find_map
from .options import Opponents, Options, Side, plan_arguments, plan_games
from .vector_env import MicroRTSVectorEnv


def make_vec(
    map: str,
    num_envs: int = 1,
    *,
    num_workers: int = 0,
    worker_timeout: float | None = 60.0,
    opponents: Opponents | None = None,
    selfplay: int = 0,
    side: Side = 0,
    maps: Sequence[str] | None = None,
    seed: int | None = None,
    **options: Any,
) -> EntityVectorEnv:
    """A `MicroRTSVectorEnv`, or one in workers; what `entitize.make_vec("MicroRTS/<map>")` calls.

    Args:
        num_workers: how many processes play the games, 0: this one. The games are planned as for one process,
            and each worker plays a run of neighbouring ones in a JVM of its own, which are to take as long as
            the others' (against coacAI a game takes twice as long as against a rush). The same seed gives the
            same games.
        worker_timeout: seconds after which a worker that does not answer is ended; None: never.
        options: the arguments of `MicroRTSVectorEnv`, documented there.

    Raises:
        ValueError: `num_workers` is not between 1 and the number of games; and see `MicroRTSVectorEnv`.
    """
    find_map(map)  # raises for an unknown map, also where `maps` are played instead
    if not num_workers:
        options |= {"opponents": opponents, "selfplay": selfplay, "side": side, "maps": maps, "seed": seed}
        return MicroRTSVectorEnv(map, num_envs, **options)
    from ...envs.vector.sharded_vector import ShardedVectorEnv
    from ...envs.vector.workers.worker_pool import shares

    played = Options(
        **{field.name: options[field.name] for field in fields(Options) if field.name in options}
    )
    names = [map] if maps is None else maps
    games = plan_games(names, num_envs, selfplay, opponents, side, played.partial_observability)
    num_lanes = [len(game.players) for game in games]
    costs = [expected_cost(game.bot, played.search_iterations) for game in games]
    runs = shares(costs, num_workers, "games")
    return ShardedVectorEnv(
        [
            partial(MicroRTSVectorEnv, **plan_arguments(games[run.start : run.stop]), **options)
            for run in runs
        ],
        [sum(num_lanes[run.start : run.stop]) for run in runs],
        seed,
        worker_timeout,
    )
