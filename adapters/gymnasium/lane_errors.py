"""Explanations of errors inside Gymnasium's vector environments that a lane's returned values cause."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv, VectorEnv

from ...envs import ObservationError
from .views.batches import by_name, components
from .views.scope import ARRAY_SPACES

_RETURNED = {
    SyncVectorEnv.reset.__code__: "(observation, info)",
    SyncVectorEnv.step.__code__: "(observation, reward, terminated, truncated, info), the reward one number",
}
_SPACE_UTILITIES = "gymnasium.vector.utils.space_utils"


def explain_lane(venv: VectorEnv[Any, Any, Any], name: str, call: str, error: Exception) -> None:
    """Explain an error in `call` ("reset" or "step") if Gymnasium could not merge what a lane returned.

    Errors of the environments themselves stay as they are, with a note.

    Raises:
        ObservationError: names the lane, the value, and what was expected.
    """
    if isinstance(error, ObservationError):
        return
    base = venv.unwrapped
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    merging = [frame.f_locals for frame in frames if frame.f_code is VectorEnv._add_info.__code__]
    if merging:
        where = f"env {merging[0]['env_num']} ({name}): {call}"
        raise ObservationError(f"{where}: {_info_misfit(merging, base)}: {error}") from error
    if isinstance(base, SyncVectorEnv):
        expected, lane = _RETURNED.get(frames[-1].f_code), frames[-1].f_locals.get("i")
        if expected is not None and lane is not None:
            raise ObservationError(
                f"env {lane} ({name}): {call}: expected {expected}, got others: {error}"
            ) from error
        if any(frame.f_globals.get("__name__") == _SPACE_UTILITIES for frame in frames):
            for lane, observation in enumerate(base._env_obs):
                reason = misfit(base.single_observation_space, observation, "observation_space")
                if reason:
                    raise ObservationError(f"env {lane} ({name}): {call}: {reason}") from error
    error.add_note(f"raised by a lane of {name} in {call}, wrapped by entitize")


def _info_misfit(merging: Sequence[Mapping[str, Any]], base: VectorEnv[Any, Any, Any]) -> str:
    """Return why an info cannot be merged, from the variables of the calls that merge it, outermost first."""
    info = merging[0]["env_info"]
    if not isinstance(info, dict):
        return f"expected info as a dict, got {info!r}"
    place = "info" + "".join(f"[{local['key']!r}]" for local in merging if "key" in local)
    return (
        f"{place}: expected a type and shape as in the first lane (with {type(base).__name__}; infos of"
        f" entitize.make_vec may differ), got {merging[-1].get('value')!r}"
    )


@contextmanager
def explained_reset(venv: VectorEnv[Any, Any, Any], name: str) -> Iterator[None]:
    """Explain errors of `reset` as `explain_lane` does."""
    try:
        yield
    except Exception as error:
        explain_lane(venv, name, "reset", error)
        raise


def contains(space: spaces.Space[Any], value: Any) -> bool:
    """Return True if `value` is of `space`; Gymnasium's own `contains` raises for some that are not."""
    try:
        return space.contains(value)
    except Exception:
        return False


def misfit(space: spaces.Space[Any], observation: Any, place: str) -> str | None:
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
    misfits = (misfit(part, observation[key], f"{place}[{name!r}]") for key, name, part in components(space))
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
