"""Spaces as JSON-able dicts, so that a checkpoint says what its network sees and does."""

from __future__ import annotations

from typing import Any

from ..envs import Categorical, EntityActionSpace, EntitySpace, GlobalCategorical, SelectEntity
from ..envs.spaces import ActionSpace

_KINDS: dict[str, type[ActionSpace]] = {
    kind.__name__: kind for kind in (Categorical, GlobalCategorical, SelectEntity)
}


def space_schema(space: EntitySpace) -> dict[str, Any]:
    """Everything that `space_from_schema` needs to build an equal space; order matters and is kept."""
    return {
        "entities": {name: list(features) for name, features in space.entities.items()},
        "global_features": list(space.global_features),
        "hidden": space.hidden,
        "actions": {name: _action_schema(action) for name, action in space.actions.spaces.items()},
    }


def _action_schema(action: Any) -> dict[str, Any]:
    kind = type(action).__name__
    if kind not in _KINDS:
        raise ValueError(f"action spaces of kind {kind} can't be stored; known are {', '.join(_KINDS)}")
    return (
        {"kind": kind, "choices": list(action.choices)} if isinstance(action, Categorical) else {"kind": kind}
    )


def space_from_schema(schema: dict[str, Any]) -> EntitySpace:
    """The space that `space_schema` described.

    Raises:
        ValueError: an action's kind is unknown.
        KeyError: a part is missing.
    """
    actions = {}
    for name, action in schema["actions"].items():
        if action["kind"] not in _KINDS:
            raise ValueError(f"action {name!r} is of the unknown kind {action['kind']!r}")
        options = {"choices": action["choices"]} if "choices" in action else {}
        actions[name] = _KINDS[action["kind"]](**options)
    return EntitySpace(
        schema["entities"], EntityActionSpace(actions), schema["global_features"], schema["hidden"]
    )


def schema_difference(ours: dict[str, Any], theirs: dict[str, Any]) -> str | None:
    """The first difference between two schemas in words ("X here, Y there"); None: they are equal."""
    for part, noun in (("entities", "entity type"), ("actions", "action")):
        for name in [*ours[part], *(n for n in theirs[part] if n not in ours[part])]:
            if ours[part].get(name) != theirs[part].get(name):
                here, there = (side[part].get(name, "absent") for side in (ours, theirs))
                return f"{noun} {name!r}: {here} here, {there} there"
        if list(ours[part]) != list(theirs[part]):
            return f"order of {part}: {list(ours[part])} here, {list(theirs[part])} there"
    for part in ("global_features", "hidden"):
        if ours[part] != theirs[part]:
            return f"{part}: {ours[part]} here, {theirs[part]} there"
    return None
