"""Features declared from numbers of a dump, and their compiled form.

A `Feature` says what is read (a field of the entity, or a slot of the state) and how it is turned into one
float32. The tables of `games` are written in it; the kernel of `fill` interprets its compiled form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .layout import ENTITY, ENTITY_FIELDS

# Kinds of features. f: a field of the entity, p: the same field of the player, s: a slot, t: slot cur_time.
FLOAT, INT = 0, 1  # f * scale
RELATIVE = 2  # (f - p) * scale
SCREEN = 3  # (f - s) * scale, s the centre of the view
EQUALS = 4  # 1 where f == parameter
SINE, COSINE = 5, 6  # of the angle f
SINCE = 7  # (t - f) * scale, cut to [0, 1]
LOOKUP = 8  # item f of the vector whose items start at s; 0 where there is none
SLOT = 9  # s * scale
SLOT_EQUALS = 10  # 1 where s == parameter
SLOT_SINCE = 11  # (t - s) * scale, cut to [0, 1]
SLOT_RECENT = 12  # 1 where t - s < parameter
SLOT_REMAINING = 13  # 1 - (t - s) * scale, cut to [0, 1]
MOVE_X, MOVE_Y = 14, 15  # direction of the move action s: -1, 0 or 1
# Of the rectangles of an entity and the player, f and p: half their sides, g and q (rx for x, ry for y).
GAP = 16  # (|f - p| - g - q) * scale: between their nearest edges along one axis, below 0 where they overlap
NEARNESS = 17  # 1 / (1 + scale * distance of the rectangles), 1 where they touch


@dataclass(frozen=True)
class Feature:
    """One feature: `kind` applied to the entity field `field` and the state slot `slot` (see `layout`)."""

    name: str
    kind: int
    field: str = ""
    slot: str = ""
    scale: float = 1.0
    parameter: int = 0
    hidden: bool = False  # not to be seen in the pixels: left out where visible_only


# How the kernel goes about a kind: features of a class are done in one plain loop.
_FLOATS, _INTS, _CONSTANTS, _SPECIAL = range(4)
_CLASS_OF = {
    **dict.fromkeys(
        (FLOAT, RELATIVE, SCREEN), _FLOATS
    ),  # (f - origin) * scale, the origin found once per state
    **dict.fromkeys((EQUALS, SINE, COSINE, SINCE, LOOKUP, GAP, NEARNESS), _SPECIAL),
    INT: _INTS,
}  # all others: the same for every entity of a state


#: A feature for the kernel. `column`: in its type's rows; `field`: byte offset in the entity's record;
#: `size`: for LOOKUP, how many items of the vector have slots.
_COMPILED = np.dtype(
    [
        ("kind", np.int64),
        ("column", np.uint64),
        ("field", np.int64),
        ("slot", np.int64),
        ("size", np.int64),
        ("scale", np.float64),
        ("parameter", np.int64),
    ]
)


def compile_features(
    groups: Sequence[Sequence[Feature]], slots: Mapping[str, int], vector_sizes: Mapping[str, int]
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Compile several lists of features: one list per entity type, then the globals.

    Returns:
        segments (T + 1, 5), where the floats, ints, constants and special ones of a list start, and its end;
        and the features, list by list, as records of `_COMPILED`.

    Raises:
        KeyError: a field or a slot that the game does not have.
    """
    segments = np.zeros((len(groups), 5), np.int64)
    compiled: list[tuple[Any, ...]] = []
    for number, group in enumerate(groups):
        classes = [_CLASS_OF.get(feature.kind, _CONSTANTS) for feature in group]
        segments[number] = len(compiled) + np.cumsum([0, *(classes.count(c) for c in range(4))])
        for column in sorted(range(len(group)), key=classes.__getitem__):
            f = group[column]
            field_at = 4 * ENTITY_FIELDS[f.field] if f.field else 0
            slot_at = slots[f"{f.slot}.0" if f.kind == LOOKUP else f.slot] if f.slot else 0
            size = vector_sizes.get(f.slot, 0)
            compiled.append((f.kind, column, field_at, slot_at, size, f.scale, f.parameter))
    return segments, np.array(compiled, _COMPILED)


# -- writing features ---------------------------------------------------------------------------------------


def field(name: str, scale: float = 1.0, *, source: str = "", hidden: bool = False) -> Feature:
    """A field of the entity as it is, times `scale`; `source` is the field where `name` is another."""
    source = source or name
    kind = FLOAT if ENTITY[ENTITY_FIELDS[source]].kind == "float" else INT
    return Feature(name, kind, field=source, scale=scale, hidden=hidden)


def relative(name: str, scale: float = 1.0) -> Feature:
    """A float field of the entity less that of the player."""
    return Feature(f"relative_{name}", RELATIVE, field=name, scale=scale)


def slot(name: str, scale: float = 1.0, *, label: str = "", hidden: bool = False) -> Feature:
    """A number of the state as it is, times `scale`."""
    return Feature(label or name.replace(".", "_"), SLOT, slot=name, scale=scale, hidden=hidden)


def ready(name: str, steps: int) -> Feature:
    """Elapsed share of a cooldown of `steps` steps since the time in slot `name`, 1 = over; hidden."""
    return Feature("ready", SLOT_SINCE, slot=name, scale=1 / steps, hidden=True)


def on_screen(features: Sequence[Feature]) -> tuple[Feature, ...]:
    """Return the features that the screen shows: none hidden, positions relative to its centre."""
    centre = {"x": "center_x", "y": "center_y"}
    return tuple(
        replace(f, kind=SCREEN, slot=centre[f.field]) if f.kind == FLOAT and f.field in centre else f
        for f in features
        if not f.hidden
    )


#: What `with_distances` adds. Ten cells of a gap count as 1; a cell away is half as near as touching.
DISTANCES = (
    Feature("gap_x", GAP, field="x", scale=0.1),
    Feature("gap_y", GAP, field="y", scale=0.1),
    Feature("nearness", NEARNESS, field="x"),
)


def with_distances(features: Sequence[Feature]) -> tuple[Feature, ...]:
    """`features`; where they say where something is, also how far its edges are from the player's."""
    has_place = {"x", "y"} <= {f.name for f in features}
    return (*features, *DISTANCES) if has_place else tuple(features)
