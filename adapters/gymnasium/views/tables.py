"""Find the tables in a Dict: arrays of equal length whose names belong together."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from gymnasium import spaces

#: A component of a found table has at most this many numbers per row.
WIDEST_COLUMN = 128
#: Shorter arrays may be a place, a direction or a quaternion, and no columns.
FEWEST_ROWS = 5
#: Words that make two components coordinates of the same things.
_COORDINATES = ({"x", "y"}, {"cos", "sin"}, {"row", "column"}, {"row", "col"})


def array_length(space: spaces.Space[Any]) -> int | None:
    """Return the length of an array's first axis; None for a space that has no arrays, or no axis."""
    if not isinstance(space, spaces.Box | spaces.MultiBinary | spaces.MultiDiscrete) or not space.shape:
        return None
    return int(space.shape[0])


def equal_lengths(space: spaces.Space[Any]) -> list[list[str]]:
    """Return the names of the flat components of a Dict that have the same length, two or more of each."""
    lengths: dict[int, list[str]] = {}
    parts: Mapping[str, spaces.Space[Any]] = space.spaces if isinstance(space, spaces.Dict) else {}
    for name, part in parts.items():
        length = array_length(part)
        if length is not None and length > 1 and len(part.shape or ()) == 1:
            lengths.setdefault(length, []).append(name)
    return [names for names in lengths.values() if len(names) > 1]


def suggested_views(space: spaces.Space[Any]) -> str:
    """Return the views that read the arrays of equal length in a Dict as tables; empty if there are none."""
    views = [f"Items({{{','.join(names)!r}: Columns()}})" for names in equal_lengths(space)]
    return " or ".join(views)


def find_tables(space: spaces.Dict) -> list[tuple[str | None, list[str]]]:
    """Return the tables in a Dict: the words that the names of their components share, and these names.

    Arrays of equal length are a table if their names say that they are coordinates of the same things; or if
    they are too long to be one place, and share a word or are three or more. Goals (of a GoalEnv) are none,
    nor are names with a "/", parts of a hierarchy ("actions/Move/mask").
    """
    tables: list[tuple[str | None, list[str]]] = []
    for names in equal_lengths(space):
        if any("/" in name or "," in name for name in names):
            continue
        words = [_words(name) for name in names]
        shared = [word for word in words[0] if all(word in others for others in words)]
        together = {word for some in words for word in some}
        length = array_length(space[names[0]])
        assert length is not None
        long = length >= FEWEST_ROWS and (bool(shared) or len(names) > 2)
        if "goal" in together or not (long or any(pair <= together for pair in _COORDINATES)):
            continue
        wide = [n for n, part in space.spaces.items() if shared and _is_wide(n, part, length, shared)]
        members = [name for name in space.spaces if name in names or name in wide]
        tables.append(("_".join(shared) or None, members))
    return tables


def tables_by_name(names: Sequence[str]) -> dict[str, list[str]]:
    """Return the tables that the names of one may be instead, by the word before the last "_" of their names.

    These are several if two of them would have a column of the same name, as in enemy_x, enemy_y, food_x,
    food_y. Where the coordinates come first (x_enemy, y_enemy), the word behind names the table. Empty if
    there is only one.
    """
    split = [(name, *name.rpartition("_")[::2]) for name in names if "_" in name.strip("_")]
    coordinates_first = any(pair <= {before for _, before, _ in split} for pair in _COORDINATES)
    tables: dict[str, list[str]] = {}
    columns: list[str] = []
    for name, before, behind in split:
        table, column = (behind, before) if coordinates_first else (before, behind)
        tables.setdefault(table, []).append(name)
        columns.append(column)
    return tables if len(set(columns)) < len(columns) and len(tables) > 1 else {}


def _is_wide(name: str, space: spaces.Space[Any], length: int, shared: list[str]) -> bool:
    """Return True for a component (length, k) whose name has the words of a table."""
    shape = space.shape if array_length(space) == length else None
    fits = shape is not None and len(shape) == 2 and shape[1] <= WIDEST_COLUMN
    return fits and set(shared) <= set(_words(name))


def _words(name: str) -> list[str]:
    """Return the words of "cos(track)", "inv_glyphs" or "invGlyphs" in lower case."""
    split = re.sub(r"([a-z])([A-Z])", r"\1 \2", name)
    return [word.lower() for word in re.split(r"[^A-Za-z]+", split) if word]
