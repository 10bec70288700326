"""Check what an author's environment returns, so that an error names the environment and the value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np

from .actions.array_checks import real_number
from .errors import ObservationError

_STEP = "(observation, reward, terminated, truncated, info)"
_RESET = "(observation, info)"


def step_values(
    where: str, result: Any, read_reward: Callable[[str, Any], float] | None = None
) -> tuple[Any, float, bool, bool, dict[str, Any]]:
    """Return what a single environment's step returned, with a plain reward and plain flags.

    `read_reward` makes a float of `where` and a reward that is none.

    Raises:
        ObservationError: these are not five values, or one has the wrong type.
    """
    observation, reward, terminated, truncated, info = _values(where, result, _STEP, 5)
    if type(reward) is not float:
        reward = (
            _number(where, reward) if read_reward is None or reward is None else read_reward(where, reward)
        )
    for flag in (terminated, truncated):
        if not (isinstance(flag, _FLAGS) or _is_flag_array(flag)):
            raise ObservationError(
                f"{where}: expected terminated and truncated as bools, got {terminated!r} and {truncated!r}"
            )
    return observation, reward, bool(terminated), bool(truncated), _info(where, info)


def reset_values(where: str, result: Any) -> tuple[Any, dict[str, Any]]:
    """Return what a reset returned: an observation and an info.

    Raises:
        ObservationError: these are not two values, or the info is no dict.
    """
    observation, info = _values(where, result, _RESET, 2)
    return observation, _info(where, info)


def vector_step_values(where: str, result: Any, num_envs: int) -> tuple[Any, ...]:
    """Return what a vector environment's step returned, one reward and two flags per lane.

    Raises:
        ObservationError: these are not five values, or one has the wrong type or shape.
    """
    values = _values(where, result, _STEP, 5)
    for name, lanes in zip(("rewards", "terminated", "truncated"), values[1:4], strict=True):
        if np.shape(lanes) != (num_envs,):
            raise ObservationError(f"{where}: expected {name} of shape ({num_envs},), got {lanes!r}")
    _info(where, values[4])
    return values


def is_vector_step(result: Any, num_envs: int) -> bool:
    """Tell fast that `vector_step_values` would return `result` as it is; False where it might not."""
    if type(result) is not tuple or len(result) != 5:
        return False
    _, rewards, terminated, truncated, info = result
    try:
        shapes_fit = rewards.shape == terminated.shape == truncated.shape == (num_envs,)
    except AttributeError:
        return False
    return shapes_fit and type(info) is dict


def tuple_words(result: Any) -> str:
    """Describe a returned value of a wrong form: the length of a tuple, the type of anything else."""
    return f"a tuple of {len(result)}" if isinstance(result, tuple) else type(result).__name__


def check_has_spaces(where: str, env: gymnasium.Env[Any, Any]) -> None:
    """Check that an environment has an observation space and an action space.

    Raises:
        TypeError: one is missing, or is no space.
    """
    for name in ("observation_space", "action_space"):
        space = getattr(env, name, None)
        if not isinstance(space, gymnasium.Space):
            got = "none" if space is None else repr(space)
            raise TypeError(f"{where}: expected {name} to be a gymnasium.Space, got {got}")


_FLAGS = (bool, np.bool_, int, np.integer)


def _is_flag_array(flag: Any) -> bool:
    """Return True for an array of one flag: NumPy's, JAX's or torch's."""
    return hasattr(flag, "dtype") and hasattr(flag, "__array__") and np.asarray(flag).size == 1


def _values(where: str, result: Any, form: str, count: int) -> tuple[Any, ...]:
    if not isinstance(result, tuple | list):
        raise ObservationError(f"{where}: expected {form}, got {_short(result)}")
    if len(result) != count:
        raise ObservationError(f"{where}: expected {count} values {form}, got {len(result)}")
    return tuple(result)


def _number(where: str, reward: Any) -> float:
    try:
        return real_number(reward)
    except ValueError:
        raise ObservationError(f"{where}: expected a number as reward, got {_short(reward)}") from None


def _info(where: str, info: Any) -> dict[str, Any]:
    if isinstance(info, dict):
        return info
    if isinstance(info, Mapping):
        return dict(info)
    raise ObservationError(f"{where}: expected a dict as info, got {_short(info)}")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}… ({type(value).__name__})"
