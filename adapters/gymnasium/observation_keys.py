"""Names of the arrays of an observation in a flat Dict."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...envs import EntitySpace


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
