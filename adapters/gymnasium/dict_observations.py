"""`DictObservations`: dataclasses and namedtuples as the dicts that vector environments expect.

Also what Gymnasium's worker processes cannot return.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import gymnasium
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, VectorEnv

from ...envs import ObservationError
from .views.batches import as_dicts
from .views.scope import ViewError


class DictObservations(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment with a dict wherever its observation space has a Dict.

    Raises:
        ObservationError: an observation that is neither a dict nor an object with fields.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], name: str) -> None:
        super().__init__(env)
        self._name, self._raw_space = name, env.observation_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        return checked_dicts(self._raw_space, observation, f"{self._name}.reset"), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, *others = self.env.step(action)
        return checked_dicts(self._raw_space, observation, f"{self._name}.step"), *others


def checked_dicts(space: spaces.Space[Any], observation: Any, where: str) -> Any:
    """Return what `as_dicts` does.

    Raises:
        ObservationError: an observation that is neither a dict nor an object with fields.
    """
    try:
        return as_dicts(space, observation)
    except TypeError as error:
        raise ObservationError(f"{where}: {error}") from None


def read_as_dicts(venv: VectorEnv[Any, Any, Any], name: str) -> bool:
    """Let environments of a `SyncVectorEnv` return dicts where their space has a Dict; True if they now do.

    Called after a failed reset only: environments that return dicts stay as they are.
    """
    base = venv.unwrapped
    if not isinstance(base, SyncVectorEnv) or not isinstance(
        base.single_observation_space, spaces.Dict | spaces.Tuple
    ):
        return False
    if any(isinstance(env, DictObservations) for env in base.envs):
        return False
    base.envs = [DictObservations(env, name) for env in base.envs]
    return True


def given_env(env: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
    """Return the environment without what `read_as_dicts` put around it."""
    return env.env if isinstance(env, DictObservations) else env


def explain_workers(venv: VectorEnv[Any, Any, Any], name: str, error: Exception) -> None:
    """Explain an error at the reset of an `AsyncVectorEnv`, if observations that are no dicts are its cause.

    Raises:
        ObservationError: they are.
    """
    base = venv.unwrapped
    if not isinstance(base, AsyncVectorEnv):
        return
    env = base.env_fns[0]()
    try:
        observation, _ = env.reset()
    finally:
        env.close()
    if checked_dicts(env.observation_space, observation, name) is not observation:
        raise ObservationError(
            f"{name}: AsyncVectorEnv: expected observations that are dicts, got {type(observation).__name__}."
            " Use a SyncVectorEnv, which may return dataclasses and namedtuples, or return dicts"
        ) from error


def check_shared_memory(venv: VectorEnv[Any, Any, Any], name: str) -> None:
    """Check that observations of an `AsyncVectorEnv` are not of spaces whose shared memory is read only once.

    Gymnasium (1.4) reads Text and OneOf when it is made, and then returns these first values at every step.

    Raises:
        ViewError: they are.
    """
    base = venv.unwrapped
    if not isinstance(base, AsyncVectorEnv) or not base.shared_memory:
        return
    frozen = _frozen(venv.single_observation_space)
    if frozen is not None:
        raise ViewError(
            f"{name}: AsyncVectorEnv with shared memory, which never updates {frozen}: expected"
            " shared_memory=False, got True. Make it with shared_memory=False and"
            " autoreset_mode=AutoresetMode.SAME_STEP"
        )


def _frozen(space: spaces.Space[Any]) -> spaces.Space[Any] | None:
    """Return a Text or OneOf that `space` contains."""
    if isinstance(space, spaces.Text | spaces.OneOf):
        return space
    parts: Iterable[spaces.Space[Any]] = ()
    if isinstance(space, spaces.Dict):
        parts = space.values()
    elif isinstance(space, spaces.Tuple):
        parts = space
    return next((found for part in parts if (found := _frozen(part)) is not None), None)
