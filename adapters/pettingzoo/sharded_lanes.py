"""`ShardedGameLanes`: PettingZoo games in worker processes, each agent in a lane."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ...envs.seeds import Seeds
from ...envs.vector.process_vector import check_pickles
from ...envs.vector.sharded_vector import ShardedVectorEnv
from ...envs.vector.workers.worker_pool import WORKER_TIMEOUT, shares
from .lanes import GameLanes, game_seed, lane_name


class ShardedGameLanes(ShardedVectorEnv):
    """The lanes of `GameLanes` in worker processes, each of which plays some of the games.

    Made by `from_pettingzoo(…, num_workers=n)`. Seeds, lanes, observations and infos are those of
    `GameLanes`; opponents draw other random numbers. What a game or an opponent raises is a `WorkerError`,
    and so is a wrong observation; then all games are closed.

    Args:
        make_lanes: makes the lanes of games, from the functions that make these and the index of the first.
        makers: one function per game that makes it; pickled with cloudpickle.
        learners: the agents of a game that have lanes.
        num_workers: how many processes share the games.
        worker_timeout: see `ShardedVectorEnv`.

    Attributes:
        agents: for each lane the index of its game and the name of its agent.

    Raises:
        ValueError: `num_workers` is not between 1 and the number of games.
        TypeError: something can't be pickled.
        WorkerError: a game could not be made.
    """

    def __init__(
        self,
        make_lanes: Callable[[Sequence[Callable[[], Any]], int], GameLanes],
        makers: Sequence[Callable[[], Any]],
        learners: Sequence[str],
        num_workers: int,
        worker_timeout: float | None = WORKER_TIMEOUT,
    ) -> None:
        self._runs = shares([1] * len(makers), num_workers, "games")
        env_fns = [partial(make_lanes, makers[run.start : run.stop], run.start) for run in self._runs]
        for run, env_fn in zip(self._runs, env_fns, strict=True):
            check_pickles(env_fn, f"game {run.start}")
        num_lanes = [len(run) * len(learners) for run in self._runs]
        super().__init__(env_fns, num_lanes, worker_timeout=worker_timeout)
        self.agents = [(game, agent) for game in range(len(makers)) for agent in learners]
        self.lane_names = [lane_name(lane, game, agent) for lane, (game, agent) in enumerate(self.agents)]

    def _seeds(self, seed: Seeds) -> list[Seeds]:
        """Each worker's: `seed` + the index of its first game."""
        first = game_seed(seed)
        return [None if first is None else first + run.start for run in self._runs]
