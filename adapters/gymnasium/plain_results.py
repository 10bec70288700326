"""`PlainResults`: check what the lanes of a Gymnasium vector environment return."""

from __future__ import annotations

from typing import Any

import gymnasium

from ...envs import ObservationError
from ...envs.returned import reset_values, step_values
from .rewards import scalar_reward


class PlainResults(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment whose `reset` and `step` return plain values.

    `SyncVectorEnv` unpacks results without checking them, so an error there would not name the environment.

    Raises:
        ObservationError: `reset` or `step` returned other values.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], name: str) -> None:
        super().__init__(env)
        self._name = name

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        where = f"{self._name}.reset"
        observation, info = reset_values(where, self.env.reset(seed=seed, options=options))
        return _observed(where, observation), info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        where = f"{self._name}.step"
        observation, reward, terminated, truncated, info = step_values(
            where, self.env.step(action), scalar_reward
        )
        return _observed(where, observation), reward, terminated, truncated, info


def _observed(where: str, observation: Any) -> Any:
    if observation is None:
        raise ObservationError(f"{where}: expected an observation, got None")
    return observation
