"""Differences between two entity spaces of one environment, in words."""

from __future__ import annotations

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
    found = []
    for kind, old, new in (
        ("entity types", before.entities, after.entities),
        ("actions", before.actions.spaces, after.actions.spaces),
    ):
        if list(old) != list(new):
            found.append(f"expected the {kind} {list(old)}, got {list(new)}")
        for name in old:
            if name in new and old[name] != new[name]:
                found.append(f"{kind}: {name!r}: expected {old[name]}, got {new[name]}")
    return "; ".join(found) or f"expected {before!r}, got {after!r}"
