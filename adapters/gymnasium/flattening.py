"""Entity observations as a flat Dict of arrays, and actions by name as one flat action.

Shape alphabet: A actors, C choices.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from ...envs import ActionSpace, EntitySpace


def observation_paths(space: EntitySpace) -> list[tuple[str, ...]]:
    """Return the arrays of an observation, by their keys."""
    paths: list[tuple[str, ...]] = [("entities", name) for name in space.entities]
    paths += [("globals",)] if space.global_features else []
    paths += [("frame",)] if space.frame is not None else []
    paths += [("visible", name) for name in space.entities] if space.hidden else []
    for name, action in space.actions.items():
        keys = [key for key in ("actors", "actees", "mask") if key in action.mask_space().spaces]
        paths += [("actions", name, key) for key in keys]
    return paths


def part_at(whole: Any, path: tuple[str, ...]) -> Any:
    """Return the part of nested dicts at `path`."""
    for key in path:
        whole = whole[key]
    return whole


def renamed_keys(keys: Iterable[str], separator: str) -> dict[str, str]:
    """Return the names of `keys` with another separator than "/".

    Raises:
        ValueError: two of them would be the same.
    """
    renamed = {key: key.replace("/", separator) for key in keys}
    if len(set(renamed.values())) < len(renamed):
        raise ValueError(
            f"separator: expected one that keeps all keys distinct, got {separator!r} for"
            f" {', '.join(renamed)}"
        )
    return renamed


def padded_action(action: ActionSpace, max_actors: int, max_actees: int) -> spaces.Space[Any]:
    """Return the space of an action's choices for `max_actors` actors, or of its one global choice."""
    one = action.gymnasium_space(max_actees)
    if action.is_global:
        return one
    if isinstance(one, spaces.Box):
        low, high = (np.tile(bound, (max_actors, 1)) for bound in (one.low, one.high))
        return spaces.Box(low, high, dtype=np.float32)
    if isinstance(one, spaces.MultiDiscrete):
        return spaces.MultiDiscrete(np.tile(one.nvec, (max_actors, 1)))
    assert isinstance(one, spaces.Discrete)
    return spaces.MultiDiscrete(np.full(max_actors, one.n))


class FlatActions:
    """The padded actions of an environment in a row, as one space, for learners without dicts of actions.

    `space` is a Discrete if there is one choice in all, otherwise a MultiDiscrete of all of them; continuous
    actions are one Box.

    Args:
        env_name: the environment's name in errors.
        parts: the padded space of each action, in the order of the row.

    Raises:
        ValueError: some actions are choices and others real numbers, which no flat space holds together.
    """

    def __init__(self, env_name: str, parts: Mapping[str, spaces.Space[Any]]) -> None:
        self._shapes = {name: part.shape or () for name, part in parts.items()}
        self._cuts = np.cumsum([int(np.prod(shape)) for shape in self._shapes.values()])[:-1]
        self.space: spaces.Space[Any]
        boxes = [part for part in parts.values() if isinstance(part, spaces.Box)]
        if boxes and len(boxes) < len(parts):
            raise ValueError(
                f"{env_name}: flat actions: expected only discrete or only continuous actions, got both among"
                f" {list(parts)}. Use layout='padded' without flat_actions"
            )
        if boxes:
            low, high = (
                np.concatenate([np.ravel(getattr(p, side)) for p in boxes]) for side in ("low", "high")
            )
            self.space = spaces.Box(low, high, dtype=np.float32)
            return
        counts = [part.n if isinstance(part, spaces.Discrete) else part.nvec for part in parts.values()]  # type: ignore[attr-defined]
        choices = np.concatenate([np.ravel(count) for count in counts])
        self.space = spaces.Discrete(int(choices[0])) if len(choices) == 1 else spaces.MultiDiscrete(choices)

    def split(self, action: Any) -> dict[str, Any]:
        """Return a flat action as actions by name."""
        pieces = np.split(np.ravel(action), self._cuts)
        named = zip(self._shapes.items(), pieces, strict=True)
        return {name: piece.reshape(shape)[()] for (name, shape), piece in named}


def flat_masks(masks: Iterable[tuple[NDArray[Any], NDArray[np.int64]]]) -> NDArray[np.bool_]:
    """Return masks (A, C) of 0 and 1 in a row, bool (sum of A * C,).

    With each mask comes the column where each choice of an actor begins. A choice of which nothing is allowed
    is allowed its 0.
    """
    flags = []
    for mask, starts in masks:
        allowed = mask.astype(bool)
        allowed[:, starts] |= ~np.logical_or.reduceat(allowed, starts, axis=1)
        flags.append(allowed.reshape(-1))
    return np.concatenate(flags)
