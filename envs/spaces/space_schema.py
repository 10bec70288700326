"""Spaces as JSON-able dicts, so that a checkpoint says what its network sees and does."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .entity_space import (
    ActionSpace,
    Categorical,
    Continuous,
    EntityActionSpace,
    EntitySpace,
    GlobalCategorical,
    GlobalContinuous,
    MultiCategorical,
    SelectEntity,
)

_KINDS: dict[str, type[ActionSpace]] = {
    kind.__name__: kind
    for kind in (
        Categorical,
        GlobalCategorical,
        SelectEntity,
        Continuous,
        GlobalContinuous,
        MultiCategorical,
    )
}


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
    if kind not in _KINDS:
        raise ValueError(f"action spaces of kind {kind} can't be stored; known are {', '.join(_KINDS)}")
    if isinstance(action, Categorical):
        return {"kind": kind, "choices": list(action.choices)}
    if isinstance(action, MultiCategorical):
        components = [[name, list(choices)] for name, choices in action.components.items()]
        uses = {kind: list(names) for kind, names in action.uses.items()}
        return {"kind": kind, "components": components, "uses": uses}
    if isinstance(action, Continuous):
        return {"kind": kind, "low": _numbers(action.low), "high": _numbers(action.high)}
    return {"kind": kind}


def _numbers(bounds: NDArray[np.float32]) -> list[float | str]:
    """Every float32 is a float to the bit; infinity, which JSON doesn't know, becomes "inf" or "-inf"."""
    return [bound if math.isfinite(bound) else str(bound) for bound in bounds.tolist()]


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
        options = {part: value for part, value in action.items() if part != "kind"}
        for bound in options.keys() & {"low", "high"}:
            options[bound] = [float(number) for number in options[bound]]
        if "components" in options:
            options["components"] = dict(options["components"])
        actions[name] = _KINDS[action["kind"]](**options)
    return EntitySpace(
        schema["entities"],
        EntityActionSpace(actions),
        schema["global_features"],
        schema["hidden"],
        frame=schema.get("frame"),
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
    for part in ("global_features", "hidden", "frame"):
        here, there = ours.get(part), theirs.get(part)
        if here != there:
            return f"{part}: {here} here, {there} there"
    return None
