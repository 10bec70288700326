"""`ShardedVectorEnv`: native vector environments in worker processes, as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ragged import RaggedArray, keep_freed_memory
from ..batch.entity_batch import EntityBatch
from ..errors import WorkerError
from ..seeds import Seeds, lane_seeds
from .infos import join_infos
from .vector_env import EntityVectorEnv, StepResult
from .workers.worker import VectorEnvFn
from .workers.worker_pool import WORKER_TIMEOUT, WorkerPool, closing_on_failure


class ShardedVectorEnv(EntityVectorEnv):
    """Steps several vector environments, each in a process, as one whose lanes are theirs in turn.

    For environments that step all their lanes at once: engines of which a process has one, and kernels that
    run on one core. Observations and actions travel through shared memory, which grows when a batch does not
    fit; infos are pickled, and joined (see `join_infos`). Warnings that are raised in a worker are raised
    again here. Workers are started afresh ("spawn"), so a script must make this environment under
    `if __name__ == "__main__":`.

    The environment whose first lane is i is reset with `seed + i`: results are those of one process
    wherever lane i of an environment depends on nothing but `seed + i`.

    Args:
        env_fns: one function per process that makes its vector environment; pickled with cloudpickle. Their
            spaces must be the same.
        num_lanes: how many lanes each of them has.
        seed: seeds the first `reset` that gives none.
        worker_timeout: seconds after which a worker that does not answer is ended, with a `WorkerError`; the
            first reset and the first step may take ten times as long. None: never.

    Raises:
        ValueError, TypeError, ImportError: what an `env_fn` raised; or another number of `num_lanes`.
        ActionError: an action is unknown, of the wrong length or not allowed; no lane has moved.
        WorkerError: anything else raised in some lanes, or a worker died or did not answer; the lanes are
            named. All other environments have been closed and all processes ended.
    """

    def __init__(
        self,
        env_fns: Sequence[VectorEnvFn],
        num_lanes: Sequence[int],
        seed: int | None = None,
        worker_timeout: float | None = WORKER_TIMEOUT,
    ) -> None:
        if not env_fns or len(env_fns) != len(num_lanes):
            raise ValueError(
                f"env_fns: expected one env_fn or more and as many numbers of lanes, got {len(env_fns)}"
                f" env_fns and {len(num_lanes)} numbers of lanes"
            )
        keep_freed_memory()
        try:
            self._pool = WorkerPool(env_fns, num_lanes, worker_timeout)
        except WorkerError as error:
            refusal = error.__cause__
            if not isinstance(refusal, (ValueError, TypeError, ImportError)):
                raise
            for note in getattr(error, "__notes__", ()):
                refusal.add_note(note)
            raise refusal from None
        self._pool.warn()
        self._first_seed = seed
        self.num_envs = sum(num_lanes)
        self.single_observation_space = self._pool.space
        self.single_action_space = self._pool.space.actions
        self.metadata, self.render_mode = self._pool.metadata, self._pool.render_mode
        self.lane_games = self._pool.lane_games

    @property
    def worker_lanes(self) -> tuple[range, ...]:
        """The lanes of each worker."""
        return tuple(self._pool.lanes)

    @property
    def worker_pids(self) -> tuple[int, ...]:
        """The id of each worker's process, to watch or debug it; none once the environment is closed."""
        return tuple(worker.pid for worker in self._pool.workers)

    @property
    def worker_timeout(self) -> float | None:
        """Seconds after which a worker that does not answer is ended (None: never); it may be assigned."""
        return self._pool.timeout

    @worker_timeout.setter
    def worker_timeout(self, seconds: float | None) -> None:
        self._pool.timeout = seconds

    def _seeds(self, seed: Seeds) -> list[Seeds]:
        """Each environment's: a number where one was given, otherwise one (or None) for each of its lanes."""
        seeds = lane_seeds(seed, self.num_envs)
        if seed is None or isinstance(seed, (int, np.integer)):
            return [seeds[lanes.start] for lanes in self._pool.lanes]
        return [seeds[lanes.start : lanes.stop] for lanes in self._pool.lanes]

    def _reset(
        self, seeds: list[Seeds], options: dict[str, Any] | None
    ) -> tuple[EntityBatch, dict[str, Any]]:
        with closing_on_failure(self):
            batch, infos = self._pool.reset(seeds, options)
        self._pool.warn()
        return batch, self._joined_info(infos)

    def _step(self, actions: dict[str, RaggedArray]) -> StepResult:
        with closing_on_failure(self):
            step, final, infos = self._pool.step(actions)
        self._pool.warn()
        info = self._joined_info(infos)
        if final is not None:
            info["final_obs"] = final
        return *step[:4], info

    def set_progress(self, fraction: float) -> None:
        """Pass the fraction on to every environment."""
        self._check_open()
        with closing_on_failure(self):
            self._pool.set_progress(fraction)
        self._pool.warn()

    def _render(self) -> tuple[Any, ...]:
        with closing_on_failure(self):
            return self._pool.render()

    def close_extras(self, **kwargs: Any) -> None:
        self._pool.close()

    def _joined_info(self, infos: list[dict[str, Any]]) -> dict[str, Any]:
        """Return the info of all lanes from those of the workers."""
        return join_infos(infos, [len(lanes) for lanes in self._pool.lanes])
