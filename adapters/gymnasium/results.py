"""Check what wrapped environments return: plain results, and one number per step as the reward."""

from __future__ import annotations

import math
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from ...envs import ObservationError
from ...envs.actions.array_checks import real_numbers
from ...envs.returned import env_name, reset_values, step_values

_WAYS_OUT = (
    "Combine them with a wrapper such as mo_gymnasium.wrappers.LinearReward, or, where each number belongs to"
    " an agent, use from_pettingzoo"
)


def check_rewards(env: gymnasium.Env[Any, Any]) -> None:
    """Refuse an environment that declares rewards of several numbers.

    Multi-objective environments declare a `reward_space` (MO-Gymnasium's convention). Multi-agent ones with
    Gymnasium's interface (lb-foraging, rware) have `n_agents` observations and actions in Tuples. A wrapper
    named LinearReward, or any of Gymnasium's reward wrappers, may make one number of them.

    Raises:
        TypeError: the message says how to get one number.
    """
    space = getattr(env.unwrapped, "reward_space", None)
    declared = isinstance(space, gymnasium.Space) and space.shape is not None and math.prod(space.shape) != 1
    agents = _num_agents(env)
    if not declared and agents < 2:
        return
    layer: Any = env
    while isinstance(layer, gymnasium.Wrapper):
        if isinstance(layer, gymnasium.RewardWrapper) or type(layer).__name__ == "LinearReward":
            return
        layer = layer.env
    got = space if declared else f"those of {agents} agents (`n_agents`, a Tuple of {agents} actions)"
    raise TypeError(
        f"{env_name(env)}: rewards of several numbers: expected one number, got {got}. {_WAYS_OUT}"
    )


def _num_agents(env: gymnasium.Env[Any, Any]) -> int:
    """Return the number of agents that observe, act and are rewarded separately; 0 if that is unknown.

    Unknown also with a wrapper of somebody else's that changes steps: it may sum the rewards.
    """
    layer: Any = env
    while isinstance(layer, gymnasium.Wrapper):
        changes_steps = type(layer).step is not gymnasium.Wrapper.step
        if changes_steps and type(layer).__module__.partition(".")[0] != "gymnasium":
            return 0
        layer = layer.env
    count = getattr(env.unwrapped, "n_agents", 0)
    each = (getattr(env, "observation_space", None), getattr(env, "action_space", None))
    separate = all(isinstance(space, gymnasium.spaces.Tuple) and len(space) == count for space in each)
    return count if separate else 0


def scalar_reward(name: str, reward: Any) -> float:
    """Return one environment's reward as a float.

    Raises:
        ObservationError: it is not one number.
    """
    if isinstance(reward, float | np.floating):  # nearly always
        return float(reward)
    numbers = _numbers(name, reward)
    if numbers.size != 1:
        raise ObservationError(
            f"{name}: reward: expected one number, got an array of shape {numbers.shape}. {_WAYS_OUT}"
        )
    return float(numbers.reshape(-1)[0])


def lane_rewards(name: str, rewards: Any, num_envs: int) -> NDArray[np.float32]:
    """Return the rewards of a vector environment as float32 (num_envs,).

    Raises:
        ObservationError: not one number per lane.
    """
    numbers = _numbers(name, rewards)
    if numbers.shape != (num_envs,):
        raise ObservationError(
            f"{name}: rewards: expected one number per lane, shape ({num_envs},), got shape {numbers.shape}."
            f" {_WAYS_OUT}"
        )
    return numbers.astype(np.float32)


def _numbers(name: str, given: Any) -> NDArray[Any]:
    try:
        return real_numbers(given)
    except ValueError:
        raise ObservationError(f"{name}: reward: expected one number, got {given!r}. {_WAYS_OUT}") from None


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
