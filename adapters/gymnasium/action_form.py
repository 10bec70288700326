"""`ActionForm`: what actions of a Gymnasium space look like, whatever the bounds of their real numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from ...envs.actions.array_checks import as_float32, real_numbers


class ActionForm:
    """The kinds, shapes and choices of the actions of `space`: Discrete, MultiDiscrete, Box, or Sequence or
    Dict of these. Real numbers need not be float32, nor within the bounds of `space`.
    """

    def __init__(self, space: spaces.Space[Any]) -> None:
        self._space, self._unbounded = space, _without_bounds(space)

    def read(self, action: Any) -> Any | None:
        """Return `action` with real numbers as float32 arrays; None if it has another form, or a NaN."""
        try:
            numbers = _with_float32(self._space, action)
        except ValueError:
            return None
        return numbers if self._unbounded.contains(numbers) else None


def _without_bounds(space: spaces.Space[Any]) -> spaces.Space[Any]:
    if isinstance(space, spaces.Box):
        return spaces.Box(-np.inf, np.inf, space.shape, np.float32)
    if isinstance(space, spaces.Sequence):
        return spaces.Sequence(_without_bounds(space.feature_space), stack=True)
    if isinstance(space, spaces.Dict):
        return spaces.Dict({name: _without_bounds(part) for name, part in space.items()})
    return space


def _with_float32(space: spaces.Space[Any], action: Any) -> Any:
    """Raises ValueError: something stands there that is no real number."""
    if isinstance(space, spaces.Dict) and isinstance(action, Mapping):
        return {
            key: _with_float32(space[key], part) if key in space.spaces else part
            for key, part in action.items()
        }
    if not isinstance(space.feature_space if isinstance(space, spaces.Sequence) else space, spaces.Box):
        return action
    return as_float32(real_numbers(action))
