"""Spaces as JSON-able dicts, so that a checkpoint says what its network sees and does."""

from __future__ import annotations

import inspect
from types import UnionType
from typing import Any

from ...suggestions import unknown
from ..actions.action_space import ActionSpace
from ..actions.entity_action_space import EntityActionSpace
from ..actions.kinds import KINDS
from .entity_space import EntitySpace


def space_schema(space: EntitySpace) -> dict[str, Any]:
    """Everything that `space_from_schema` needs to build an equal space; order matters and is kept."""
    schema = {
        "entities": {name: list(features) for name, features in space.entities.items()},
        "global_features": list(space.global_features),
        "hidden": space.hidden,
        "actions": {name: _action_schema(action) for name, action in space.actions.items()},
    }
    if space.frame is not None:
        schema["frame"] = list(space.frame)
    return schema


def _action_schema(action: ActionSpace) -> dict[str, Any]:
    kind = type(action).__name__
    if KINDS.get(kind) is not type(action):
        raise ValueError(f"action space cannot be stored: expected one of {', '.join(KINDS)}, got {kind}")
    return {"kind": kind, **action.schema()}


def space_from_schema(schema: dict[str, Any]) -> EntitySpace:
    """The space that `space_schema` described.

    Raises:
        ValueError: an action's kind is unknown, or names repeat.
        TypeError: a part is of another type.
        KeyError: a part is missing.
    """
    check_schema(schema)
    actions = {}
    for name, action in schema["actions"].items():
        kind = KINDS.get(action["kind"])
        if kind is None:
            known = ", ".join(KINDS)
            raise ValueError(f"action {name!r}: kind: expected one of {known}, got {action['kind']!r}")
        options = {part: value for part, value in action.items() if part != "kind"}
        where = f"action {name!r}: {action['kind']}"
        parameters = inspect.signature(kind).parameters
        for option in options:
            if option not in parameters:
                raise TypeError(f"{where}: {unknown('option', option, parameters)}")
        try:
            inspect.signature(kind).bind(**options)
            actions[name] = kind.from_schema(options)
        except TypeError as error:
            raise TypeError(f"{where}: {error}") from None
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None
    return EntitySpace(
        schema["entities"],
        EntityActionSpace(actions),
        schema["global_features"],
        schema["hidden"],
        frame=schema.get("frame"),
    )


def check_schema(schema: Any) -> None:
    """Check the types of the parts of a schema, before anything is made of it.

    Raises:
        TypeError: a part is of another type.
        KeyError: a part is missing.
    """
    _check_type("schema", schema, dict)
    for part, expected in _PARTS.items():
        _check_type(part, _part(schema, part), expected)
    for name, features in schema["entities"].items():
        _check_type(f"entity type {name!r}", features, list)
    _check_type("frame", schema.get("frame"), list | None)
    for name, action in schema["actions"].items():
        _check_type(f"action {name!r}", action, dict)
        _check_type(f"action {name!r}: kind", _part(action, "kind", f"action {name!r}: "), str)


#: Types as JSON's words for them.
_WORDS: dict[type | UnionType, str] = {
    dict: "an object",
    list: "a list",
    list | None: "a list",
    bool: "a boolean",
    str: "a text",
    int: "a number",
    float: "a number",
    type(None): "null",
}
_PARTS: dict[str, type] = {"entities": dict, "actions": dict, "global_features": list, "hidden": bool}


def _part(given: dict[str, Any], part: str, where: str = "") -> Any:
    if part not in given:
        raise KeyError(f"spaces: {where}{part}: expected it, got none")
    return given[part]


def _check_type(what: str, value: Any, expected: type | UnionType) -> None:
    if not isinstance(value, expected):
        wanted = _WORDS.get(expected, str(expected))
        given = _WORDS.get(type(value), type(value).__name__)
        raise TypeError(f"spaces: {what}: expected {wanted}, got {given}")


def schema_difference(
    ours: dict[str, Any], theirs: dict[str, Any], words: str = "{ours} here, {theirs} there"
) -> str | None:
    """Return the first difference between two schemas in `words`; None: they are equal."""
    for part, noun in (("entities", "entity type"), ("actions", "action")):
        for name in [*ours[part], *(n for n in theirs[part] if n not in ours[part])]:
            if ours[part].get(name) != theirs[part].get(name):
                here, there = (side[part].get(name, "absent") for side in (ours, theirs))
                return f"{noun} {name!r}: {words.format(ours=here, theirs=there)}"
        if list(ours[part]) != list(theirs[part]):
            return f"order of {part}: {words.format(ours=list(ours[part]), theirs=list(theirs[part]))}"
    for part in ("global_features", "hidden", "frame"):
        here, there = ours.get(part), theirs.get(part)
        if here != there:
            return f"{part}: {words.format(ours=here, theirs=there)}"
    return None
