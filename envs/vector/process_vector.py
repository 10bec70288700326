"""`ProcessVectorEnv`: single environments in worker processes, their batches in shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import cloudpickle  # type: ignore[import-untyped]

from ...ragged import RaggedArray
from .lanes import EnvFn, Infos, LaneReset, LaneStep, LaneVectorEnv
from .workers.worker_hosts import LaneHost
from .workers.worker_pool import WORKER_TIMEOUT, WorkerPool, closing_on_failure, shares


class ProcessVectorEnv(LaneVectorEnv):
    """Steps single entity environments in worker processes. See `LaneVectorEnv`.

    Results are those of `ListVectorEnv` at the same seed. Observations and actions travel through shared
    memory, which grows when a batch does not fit; only infos that are not empty are pickled. Warnings that
    are raised in a worker are raised again here. Workers are started afresh ("spawn"), so a script must make
    this environment under `if __name__ == "__main__":`.

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
            _check_pickles(env_fn, index)
        host_fns = [partial(LaneHost, env_fns[run.start : run.stop], run.start) for run in runs]
        self._pool = WorkerPool(host_fns, [len(run) for run in runs], timeout=worker_timeout)
        self._pool.warn(stacklevel=2)
        self._describe(len(env_fns), *self._pool.introduction)

    def _reset_lanes(self, seeds: list[int | None], options: dict[str, Any] | None) -> LaneReset:
        with closing_on_failure(self):
            mine = [seeds[lanes.start : lanes.stop] for lanes in self._pool.lanes]
            batch, rests = self._pool.reset(mine, options)
        self._pool.warn(stacklevel=4)
        return LaneReset(batch, _joined([infos for infos, _ in rests]))

    def _step_lanes(self, actions: dict[str, RaggedArray]) -> LaneStep:
        with closing_on_failure(self):
            step, rests = self._pool.step(actions)
        self._pool.warn(stacklevel=5)
        step.infos = _joined([infos for infos, _ in rests])
        step.final_infos = _joined([final_infos for _, final_infos in rests])
        return step

    def _render(self) -> tuple[Any, ...]:
        with closing_on_failure(self):
            return self._pool.render()

    def close_extras(self, **kwargs: Any) -> None:
        self._pool.close()


def _check_pickles(env_fn: EnvFn, index: int) -> None:
    try:
        cloudpickle.dumps(env_fn)
    except Exception as error:
        raise TypeError(
            f"env {index}: env_fn: expected a function that can be pickled, got {error}"
        ) from error


def _joined(parts: Sequence[Infos]) -> Infos:
    return {lane: info for part in parts for lane, info in part.items()}
