"""Check what an author's environment returns, so that an error names the environment and the value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from .actions.array_checks import real_number
from .errors import ObservationError

_STEP = "(observation, reward, terminated, truncated, info)"
_RESET = "(observation, info)"

#: Vector environments return rewards as float32, where a larger one is infinite.
LARGEST_REWARD = float(np.finfo(np.float32).max)


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
        if not _is_flag(flag):
            raise ObservationError(
                f"{where}: expected terminated and truncated as bools, got {terminated!r} and {truncated!r}"
            )
    return observation, reward, bool(terminated), bool(truncated), _info(where, info)


def lane_flags(where: str, name: str, flags: Any, num_envs: int) -> NDArray[np.bool_]:
    """Return a vector environment's flags, `terminated` or `truncated`, as bools (num_envs,).

    A lane's flag may be whatever `step_values` accepts of a single environment.

    Raises:
        ObservationError: not one flag per lane, or one has the wrong type.
    """
    array = np.asarray(flags)
    is_right = array.dtype.kind in _FLAG_KINDS or (array.dtype == object and all(map(_is_flag, array.flat)))
    if array.shape != (num_envs,) or not is_right:
        raise ObservationError(
            f"{where}: expected {name} as bools of shape ({num_envs},), got {_short(flags)}"
        )
    return array.astype(bool)


def reset_values(where: str, result: Any) -> tuple[Any, dict[str, Any]]:
    """Return what a reset returned: an observation and an info.

    Raises:
        ObservationError: these are not two values, or the info is no dict.
    """
    observation, info = _values(where, result, _RESET, 2)
    return observation, _info(where, info)


def vector_step_values(where: Callable[[], str], result: Any, num_envs: int) -> tuple[Any, ...]:
    """Return what a vector environment's step returned, one reward and two flags per lane.

    `where` makes the place that errors name.

    Raises:
        ObservationError: these are not five values, or one has the wrong type or shape.
    """
    values = result if type(result) is tuple and len(result) == 5 else _values(where(), result, _STEP, 5)
    _, rewards, terminated, truncated, info = values
    try:  # np.shape takes five times as long
        if rewards.shape == terminated.shape == truncated.shape == (num_envs,) and type(info) is dict:
            return values
    except AttributeError:
        pass
    for name, lanes in zip(("rewards", "terminated", "truncated"), values[1:4], strict=True):
        if np.shape(lanes) != (num_envs,):
            raise ObservationError(f"{where()}: expected {name} of shape ({num_envs},), got {lanes!r}")
    _info(where(), info)
    return values


def tuple_words(result: Any) -> str:
    """Describe a returned value of a wrong form: the length of a tuple, the type of anything else."""
    return f"a tuple of {len(result)}" if isinstance(result, tuple) else type(result).__name__


def env_name(env: Any) -> str:
    """Return the name of an environment in error messages: its id, else its class."""
    spec = getattr(env, "spec", None)
    return spec.id if spec is not None else type(env.unwrapped).__name__


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
#: NumPy's kinds of arrays of flags; floats because physics engines on accelerators (Brax) return them.
_FLAG_KINDS = "biuf"


def _is_flag(flag: Any) -> bool:
    """Return True for a bool, an integer, or an array of one number: NumPy's, JAX's or torch's."""
    if isinstance(flag, _FLAGS):
        return True
    if not (hasattr(flag, "dtype") and hasattr(flag, "__array__")):
        return False
    array = np.asarray(flag)
    return array.size == 1 and array.dtype.kind in _FLAG_KINDS


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


def other_package_hint(env: object) -> str:
    """Return the function for an environment of another package, in a sentence; "" for others."""
    packages = {kind.__module__.partition(".")[0] for kind in type(env).__mro__}
    known = {"entity_gym": "from_entity_gym", "pettingzoo": "from_pettingzoo"}
    return next((f" Use entitize.{known[name]}" for name in known if name in packages), "")


def old_gym_hint(env: Any) -> str:
    """Return advice, in a sentence, where something steps like an environment of the old gym; else ""."""
    if not (callable(getattr(env, "step", None)) and callable(getattr(env, "reset", None))):
        return ""
    return (
        " If it is one of the old gym, the package shimmy makes one of Gymnasium of it:"
        " shimmy.GymV21CompatibilityV0(env=env)"
    )
