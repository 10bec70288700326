"""Actions by name as one flat action, for learners that know no dicts of actions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray


class FlatActions:
    """The padded actions of an environment in a row, as one space.

    `space` is a Discrete where there is one choice in all, else a MultiDiscrete of all of them; real numbers
    are one Box.

    Args:
        env_name: what to call the environment in errors.
        parts: by action, the spaces that stand in a row, in that order.

    Raises:
        ValueError: some actions are choices and others real numbers, which no flat space holds together.
    """

    def __init__(self, env_name: str, parts: Mapping[str, spaces.Space[Any]]) -> None:
        self._parts = dict(parts)
        self.space = _together(env_name, self._parts)

    def split(self, action: Any) -> dict[str, Any]:
        """A flat action as actions by name."""
        flat, position, parts = np.ravel(action), 0, {}
        for name, part in self._parts.items():
            size = int(np.prod(part.shape))  # type: ignore[arg-type]
            piece = flat[position : position + size].reshape(part.shape)  # type: ignore[arg-type]
            parts[name] = np.int64(piece) if isinstance(part, spaces.Discrete) else piece
            position += size
        return parts


def _together(env_name: str, named: Mapping[str, spaces.Space[Any]]) -> spaces.Space[Any]:
    parts = list(named.values())
    if all(isinstance(part, spaces.Box) for part in parts):
        low, high = (np.concatenate([np.ravel(getattr(p, side)) for p in parts]) for side in ("low", "high"))
        return spaces.Box(low, high, dtype=np.float32)
    if any(isinstance(part, spaces.Box) for part in parts):
        raise ValueError(
            f"{env_name}: flat actions: expected only discrete or only continuous actions, got both among"
            f" {list(named)}. Use layout='padded' without flat_actions"
        )
    counts = [np.ravel(part.n if isinstance(part, spaces.Discrete) else part.nvec) for part in parts]  # type: ignore[attr-defined]
    choices = np.concatenate(counts)
    return spaces.Discrete(int(choices[0])) if len(choices) == 1 else spaces.MultiDiscrete(choices)


def flat_masks(masks: Iterable[tuple[NDArray[Any], NDArray[np.int64]]]) -> NDArray[np.bool_]:
    """Masks (A, C) of 0 and 1 in a row, bool (sum of A * C,).

    With each mask comes the column where each choice begins of those that an actor makes. Of a choice of
    which nothing is allowed, the 0 is.
    """
    flags = []
    for mask, starts in masks:
        allowed = mask.astype(bool)
        allowed[:, starts] |= ~np.logical_or.reduceat(allowed, starts, axis=1)
        flags.append(allowed.reshape(-1))
    return np.concatenate(flags)
