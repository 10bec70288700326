"""Check what wrapped environments return: plain results, and one number per step as the reward."""

from __future__ import annotations

import inspect
import math
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv, VectorWrapper
from numpy.typing import NDArray

from ...envs import ObservationError
from ...envs.actions.array_checks import real_numbers
from ...envs.returned import env_name, reset_values, step_values

_WAYS_OUT = (
    "Combine them with a wrapper such as mo_gymnasium.wrappers.LinearReward, or, where each number belongs to"
    " an agent, use from_pettingzoo"
)

#: Packages whose wrappers pass on rewards of several numbers, but for Gymnasium's reward transformations.
_KEEPING = ("gymnasium", __name__.partition(".")[0])


def check_rewards(env: gymnasium.Env[Any, Any], venv: VectorEnv[Any, Any, Any] | None = None) -> None:
    """Refuse an environment whose rewards are known to be several numbers.

    Multi-objective environments declare a `reward_space` (MO-Gymnasium's convention). Multi-agent ones with
    Gymnasium's interface (lb-foraging, rware) have `n_agents` observations and actions in Tuples, or get a
    reward per agent from a wrapper (highway-env). Any wrapper around them with a `step` or `reward` of its
    own may make one number of these, except Gymnasium's and MO-Gymnasium's that are known not to.

    Args:
        venv: the vector environment that `env` is in, perhaps with wrappers of its own.

    Raises:
        TypeError: the message says how to get one number.
    """
    layer: Any = venv
    while isinstance(layer, VectorWrapper):
        if _may_combine_rewards(layer):
            return
        layer = layer.env
    layer = env
    while (got := _declared_rewards(layer)) is None and isinstance(layer, gymnasium.Wrapper):
        if _may_combine_rewards(layer):
            return
        layer = layer.env
    got = _agents_rewards(env, layer) if got is None else got
    if got:
        raise TypeError(
            f"{env_name(env)}: rewards of several numbers: expected one number, got {got}. {_WAYS_OUT}"
        )


def _declared_rewards(layer: Any) -> str | None:
    """Return the rewards that a single layer declares; "" for one number, None for no declaration."""
    kind = type(layer)
    if kind.__name__ == "MultiAgentWrapper" and _package(kind) == "highway_env":
        return "a tuple of rewards, one per vehicle (highway_env's MultiAgentWrapper)"
    # Static: some wrappers pass on the attributes of the environment inside.
    if inspect.getattr_static(layer, "reward_space", None) is None:
        return None
    space = layer.reward_space
    if not isinstance(space, gymnasium.Space) or space.shape is None:
        return None
    return repr(space) if math.prod(space.shape) != 1 else ""


def _may_combine_rewards(wrapper: Any) -> bool:
    """Return False for a wrapper that is known to pass on rewards of several numbers as several numbers."""
    for method in ("step", "reward", "rewards"):
        owner = next((kind for kind in type(wrapper).__mro__ if method in vars(kind)), None)
        package, name = ("", "") if owner is None else (_package(owner), owner.__name__)
        is_known = package in _KEEPING or (package == "mo_gymnasium" and name.startswith("MO"))
        is_transform = method != "step" and "Transform" in name and type(wrapper).__name__ != "ClipReward"
        if owner is not None and (is_transform or not is_known):
            return True
    return False


def _package(kind: type) -> str:
    return kind.__module__.partition(".")[0]


def _agents_rewards(env: gymnasium.Env[Any, Any], base: Any) -> str:
    """Return the rewards of agents that observe, act and are rewarded separately; "" if that is unknown."""
    count = getattr(base, "n_agents", 0)
    spaces = (getattr(env, "observation_space", None), getattr(env, "action_space", None))
    separate = all(isinstance(space, gymnasium.spaces.Tuple) and len(space) == count for space in spaces)
    return (
        f"those of {count} agents (`n_agents`, a Tuple of {count} actions)" if separate and count > 1 else ""
    )


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

    Attributes:
        last: the last observation.

    Raises:
        ObservationError: `reset` or `step` returned other values.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], name: str) -> None:
        super().__init__(env)
        self._name = name
        self.last: Any = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        where = f"{self._name}.reset"
        observation, info = reset_values(where, self.env.reset(seed=seed, options=options))
        return self._observed(where, observation), info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        where = f"{self._name}.step"
        observation, reward, terminated, truncated, info = step_values(
            where, self.env.step(action), scalar_reward
        )
        return self._observed(where, observation), reward, terminated, truncated, info

    def _observed(self, where: str, observation: Any) -> Any:
        if observation is None:
            raise ObservationError(f"{where}: expected an observation, got None")
        self.last = observation
        return observation
