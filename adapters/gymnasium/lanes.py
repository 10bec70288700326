"""`PlainLanes`: environments stepped one after the other, whose wrong observations are named and whose infos
may differ in shape and type."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import SyncVectorEnv

from ...envs import ObservationError
from ...envs.vector.infos import copied, merge_infos
from .lane_errors import misfit
from .results import PlainResults


class PlainLanes(SyncVectorEnv):
    """A `SyncVectorEnv` of environments with `PlainResults`.

    `SyncVectorEnv` puts observations into arrays without checking them, so NumPy's errors would name neither
    the environment nor the part of its observation. It also takes the shape and type of an info from the
    first lane; here infos are merged as in a `ListVectorEnv`.

    Args:
        env_fns: one function per lane that makes its environment.
        name: the environments in errors.

    Raises:
        ObservationError: an observation does not fit into the batch.
    """

    def __init__(self, env_fns: list[Callable[[], gymnasium.Env[Any, Any]]], name: str) -> None:
        self._name = name
        self._results: list[PlainResults] = []
        super().__init__([partial(self._plain, make) for make in env_fns])

    def _plain(self, make: Callable[[], gymnasium.Env[Any, Any]]) -> PlainResults:
        self._results.append(PlainResults(make(), self._name))
        return self._results[-1]

    def reset(self, **options: Any) -> Any:
        try:
            observation, infos = super().reset(**options)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            self._explain("reset", error)
            raise
        return observation, self._merged(infos)

    def step(self, actions: Any) -> Any:
        try:
            *results, infos = super().step(actions)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            self._explain("step", error)
            raise
        for lane in np.flatnonzero(self._terminations | self._truncations):
            infos[lane] = copied(infos[lane])  # a reset comes next, which may change them
        return *results, self._merged(infos)

    def _add_info(self, vector_infos: Any, env_info: dict[str, Any], env_num: int) -> Any:
        """Collect infos by lane, for `_merged`."""
        vector_infos[env_num] = env_info
        return vector_infos

    def _merged(self, infos: Any) -> dict[str, Any]:
        """Merge infos that `_add_info` collected."""
        return merge_infos(infos, self.num_envs)

    def _explain(self, where: str, error: Exception) -> None:
        """Raise an ObservationError if the last observation of a lane is the cause of an error."""
        if isinstance(error, ObservationError):
            return
        space = self.single_observation_space
        for lane, results in enumerate(self._results):
            reason = results.last is not None and misfit(space, results.last, "observation_space")
            if reason:
                raise ObservationError(f"env {lane} ({self._name}): {where}: {reason}") from error
