"""Suggest the nearest known name for a misspelt one (floor 0: the standard library only)."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

#: Up to this many known names are listed where none is near.
_SHORT = 20


def nearest(name: object, known: Iterable[str], count: int = 3, cutoff: float = 0.5) -> list[str]:
    """Return the `count` names of `known` most similar to `name`, best first; case doesn't matter."""
    by_lower: dict[str, list[str]] = {}
    for candidate in map(str, known):
        by_lower.setdefault(candidate.lower(), []).append(candidate)
    found = difflib.get_close_matches(str(name).lower(), by_lower, count, cutoff)
    return [candidate for match in found for candidate in by_lower[match]][:count]


def suggest(name: object, known: Iterable[str], count: int = 1, cutoff: float = 0.5) -> str:
    """Return the end of an error about an unknown name: "did you mean 'x'?", or "expected one of …".

    Where nothing is near, all of a short list are named, and the nearest of a long one.
    """
    names = list(map(str, known))
    near = nearest(name, names, count, cutoff)
    if not near and len(names) > _SHORT:
        near = nearest(name, names, 3, 0.0)
    if near:
        return f"did you mean {' or '.join(map(repr, near))}?"
    return f"expected one of {', '.join(names)}" if names else "none is known"
