"""`PlainLanes`: environments stepped one after the other, whose wrong observations are named and whose infos
may differ in shape and type."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv

from ...envs import ObservationError
from ...envs.vector.infos import copied_info, merge_infos
from .results import PlainResults
from .views.batches import by_name, components
from .views.scope import ARRAY_SPACES


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
            infos[lane] = copied_info(infos[lane])  # a reset comes next, which may change them
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
            misfit = results.last is not None and _misfit(space, results.last, "observation_space")
            if misfit:
                raise ObservationError(f"env {lane} ({self._name}): {where}: {misfit}") from error


def _misfit(space: spaces.Space[Any], observation: Any, place: str) -> str | None:
    """Return why an observation has no place in a batch of `space`; None if it has one."""
    if isinstance(space, ARRAY_SPACES):
        return _array_misfit(space, observation, place)
    if isinstance(space, spaces.Tuple):
        if not isinstance(observation, tuple | list) or len(observation) != len(space.spaces):
            return f"{place}: expected a tuple of {len(space.spaces)}, got {observation!r}"
    elif isinstance(space, spaces.Dict):
        try:
            observation = by_name(space, observation)
        except TypeError as error:
            return f"{place}: {str(error).removeprefix('observation: ')}"
        missing = [key for key in space.spaces if key not in observation]
        if missing:
            return f"{place}: expected the component {missing[0]!r}, got only {list(observation)}"
    else:
        return None
    misfits = (_misfit(part, observation[key], f"{place}[{name!r}]") for key, name, part in components(space))
    return next(filter(None, misfits), None)


def _array_misfit(space: Any, observation: Any, place: str) -> str | None:
    try:
        array = np.asarray(observation)
    except ValueError as error:
        return f"{place}: expected an array of shape {space.shape}, got {observation!r} ({error})"
    if array.shape != space.shape:
        return f"{place}: expected an array of shape {space.shape}, got {array.shape}"
    if not np.can_cast(array.dtype, space.dtype, "same_kind"):
        return f"{place}: expected {space.dtype}, got {observation!r}"
    return None
