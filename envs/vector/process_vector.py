"""`ProcessVectorEnv`: single environments in worker processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import cloudpickle  # type: ignore[import-untyped]

from .list_vector import EnvFn, Infos, ListVectorEnv, lanes_info
from .sharded_vector import ShardedVectorEnv
from .workers.worker_pool import WORKER_TIMEOUT, shares


class ProcessVectorEnv(ShardedVectorEnv):
    """Steps single entity environments in worker processes, with the results of a `ListVectorEnv`.

    How observations, actions, infos and warnings travel: see `ShardedVectorEnv`. A script must make this
    environment under `if __name__ == "__main__":`.

    Args:
        env_fns: one function per lane that makes its environment; pickled with cloudpickle.
        num_workers: how many processes share the lanes, each stepping a run of neighbouring ones.
        worker_timeout: seconds after which a worker that does not answer is ended, with a `WorkerError`; the
            first reset and the first step may take ten times as long. None: never.

    Raises:
        ValueError: `num_workers` is not between 1 and the number of lanes, or `worker_timeout` is
            not positive.
        TypeError: an `env_fn` can't be pickled.
        WorkerError: an environment raised, or a worker died or did not answer; the lanes are named.
            All other environments have been closed and all processes ended.
    """

    def __init__(
        self, env_fns: Sequence[EnvFn], num_workers: int, worker_timeout: float | None = WORKER_TIMEOUT
    ) -> None:
        runs = shares([1] * len(env_fns), num_workers)
        for index, env_fn in enumerate(env_fns):
            check_pickles(env_fn, f"env {index}")
        super().__init__(
            [partial(_WorkerLanes, env_fns[run.start : run.stop], run.start) for run in runs],
            [len(run) for run in runs],
            worker_timeout=worker_timeout,
        )

    def _joined_info(self, infos: list[dict[str, Any]]) -> dict[str, Any]:
        """Merge the infos of all workers' lanes at once: dtypes depend on all of them."""
        infos_, final_infos = (
            {
                lanes.start + lane: info
                for lanes, given in zip(self._pool.lanes, infos, strict=True)
                for lane, info in given[key].items()
            }
            for key in ("infos", "final_infos")
        )
        return lanes_info(infos_, final_infos, self.num_envs)


class _WorkerLanes(ListVectorEnv):
    """A `ListVectorEnv` whose infos the parent merges, with those of other workers."""

    def _info(self, infos: Infos, final_infos: Infos) -> dict[str, Any]:
        return {"infos": infos, "final_infos": final_infos}


def check_pickles(env_fn: Callable[[], Any], name: str) -> None:
    """Raise a TypeError that names the environment if what makes it can't be pickled."""
    try:
        cloudpickle.dumps(env_fn)
    except Exception as error:
        raise TypeError(f"{name}: env_fn: expected a function that can be pickled, got {error}") from error
