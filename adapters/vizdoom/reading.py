"""Reading an engine's state: objects, game variables and walls of one lane at one step."""

from __future__ import annotations

from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .kinds import EFFECT, INDEX, PLAYER, classify

#: Columns of a row: type, kind, position, velocity, angle in degrees, box in pixels (0: not on the screen).
TYPE, KIND, POSITION, VELOCITY, ANGLE, BOX = 0, 1, slice(2, 5), slice(5, 8), 8, slice(9, 13)
WIDTH = 13
Row = tuple[Any, ...]

_LABEL = attrgetter(
    *("object_position_x", "object_position_y", "object_position_z", "object_velocity_x"),
    *("object_velocity_y", "object_velocity_z", "object_angle", "x", "y", "width", "height"),
)
_OBJECT = attrgetter(
    *("position_x", "position_y", "position_z", "velocity_x", "velocity_y", "velocity_z", "angle")
)
_BOX = attrgetter("x", "y", "width", "height")
_NO_BOX = (0, 0, 0, 0)
_EFFECT = INDEX[EFFECT]


class Reading(NamedTuple):
    """The part of an engine's state at one step that observations are made of."""

    rows: list[Row]  # one per object
    variables: NDArray[np.float64]  # of `DoomObserver.variables`
    walls: NDArray[np.float32]  # (W, 5): x1, y1, x2, y2, whether it blocks


def read_labels(state: Any, effects: bool) -> list[Row]:
    """Return the objects of which the screen shows at least one pixel."""
    pixels = state.labels_buffer.tobytes()
    rows = []
    for label in state.labels:
        kind = classify(label.object_name, label.object_category)
        if _is_kept(kind[0], effects) and label.value in pixels:  # those behind others are labelled, too
            rows.append((*kind, *_LABEL(label)))
    return rows


def read_objects(state: Any, effects: bool) -> list[Row]:
    """Return all objects of the level; those on the screen with their boxes."""
    pixels = state.labels_buffer.tobytes()
    boxes = {label.object_id: _BOX(label) for label in state.labels if label.value in pixels}
    rows = []
    for thing in state.objects:
        kind = classify(thing.name, thing.category)
        if _is_kept(kind[0], effects):
            rows.append((*kind, *_OBJECT(thing), *boxes.get(thing.id, _NO_BOX)))
    return rows


def read_walls(state: Any) -> NDArray[np.float32]:
    """Return the lines of all sectors (W, 5), each once."""
    lines = {
        (line.x1, line.y1, line.x2, line.y2, line.is_blocking)
        for sector in state.sectors
        for line in sector.lines
    }
    return np.array(sorted(lines), np.float32).reshape(-1, 5)


def _is_kept(index: int, effects: bool) -> bool:
    return index > INDEX[PLAYER] and (effects or index != _EFFECT)
