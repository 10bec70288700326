"""Differences between two entity spaces of one environment, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..actions.entity_action_space import EntityActionSpace
from .entity_space import EntitySpace

#: Advice for the author of the environment.
ADVICE = (
    "Declare all entity types and actions before the first reset, in __init__; one that is left out of an"
    " observation has no entities or actors at that step"
)


def space_changes(before: EntitySpace, after: object) -> str:
    """Return how `after`, which should equal `before`, differs: entity types, features, actions, the rest."""
    if not isinstance(after, EntitySpace):
        return f"expected {before!r}, got {after!r}"
    found = [
        *_changes("entity types", before.entities, after.entities),
        *_changes("actions", before.actions.spaces, after.actions.spaces),
    ]
    return "; ".join(found) or f"expected {before!r}, got {after!r}"


def action_changes(before: EntityActionSpace, after: EntityActionSpace) -> str:
    """Return how `after`, which should equal `before`, differs."""
    return "; ".join(_changes("actions", before.spaces, after.spaces))


def _changes(kind: str, old: Mapping[str, object], new: Mapping[str, object]) -> Iterator[str]:
    if list(old) != list(new):
        yield f"expected the {kind} {list(old)}, got {list(new)}"
    for name in old:
        if name in new and old[name] != new[name]:
            yield f"{kind}: {name!r}: expected {old[name]}, got {new[name]}"
