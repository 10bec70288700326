"""What the screen of Atari's emulator shows, as an independent reading of objects: regions of colours."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Box = tuple[int, int, int, int]  # left, top, width, height in pixels


@dataclass(frozen=True)
class Look:
    """How the objects of an entity type are drawn."""

    colours: tuple[int, ...]  # of the palette
    area: Box = (0, 0, 160, 210)  # only here: elsewhere the colours are something else
    size: tuple[int, int] | None = None  # width and height; None: they are features
    holes: tuple[Box, ...] = ()  # nor here
    #: Pixels around a box that are searched for the object's edges; 0: neighbours touch each other.
    margin: int = 3
    tolerance: int = 1  # pixels, of each edge of a box


_ROAD_LINES = ((0, 101, 160, 5),)  # drawn in the chickens' colour
_COURT = (0, 34, 160, 160)
LOOKS: dict[str, dict[str, Look]] = {
    "Breakout": {
        "Player": Look((70,), (8, 189, 144, 4)),
        "Ball": Look((70,), (8, 93, 144, 96), (2, 4)),
        "Brick": Look((70, 38, 22, 54, 198, 134), (8, 57, 144, 36), (8, 6), margin=0, tolerance=0),
    },
    "Freeway": {
        "Player": Look((30,), (8, 15, 72, 180), (6, 8), _ROAD_LINES),
        "Opponent": Look((30,), (80, 15, 80, 180), (6, 8), _ROAD_LINES),
        "Car": Look((0, 66, 220, 18, 130, 36, 136, 68, 216, 26), (10, 26, 150, 158), tolerance=2),
    },
    "Pong": {
        "Player": Look((200,), _COURT),
        "Enemy": Look((56,), _COURT),
        "Ball": Look((14,), _COURT, (2, 4)),
    },
}


def differences(screen: NDArray[np.uint8], looks: dict[str, Look], boxes: dict[str, list[Box]]) -> list[str]:
    """Return how the boxes of objects by type differ from what the screen (210, 160) shows."""
    found = []
    for name, look in looks.items():
        mask = painted(screen, look)
        for box in boxes[name]:
            wanted = expected(box, look)
            if wanted is None:
                continue
            shown = bounds(mask, wanted, look.margin)
            if shown is None or _apart(shown, wanted) > look.tolerance:
                found.append(f"{name}: the table has {wanted}, the screen {shown}")
        alike = [other for other in looks if set(looks[other].colours) & set(look.colours)]
        all_alike = [box for other in alike for box in boxes[other]]
        rest = mask & ~covered(all_alike, max(looks[other].tolerance for other in alike))
        if rest.any():
            rows, columns = rest.nonzero()
            where = f"rows {rows.min()} to {rows.max()}, columns {columns.min()} to {columns.max()}"
            found.append(f"{name}: the screen has {len(rows)} pixels more: {where}; {boxes[name]}")
    return found


def painted(screen: NDArray[np.uint8], look: Look) -> NDArray[np.bool_]:
    """Return which pixels (210, 160) are in a look's colours and area."""
    shown = covered([look.area])
    shown[covered(list(look.holes))] = False
    return np.isin(screen, look.colours) & shown


def covered(boxes: list[Box], margin: int = 0) -> NDArray[np.bool_]:
    """Return which pixels (210, 160) are within `margin` pixels of a box."""
    mask = np.zeros((210, 160), bool)
    for left, top, width, height in boxes:
        mask[max(0, top - margin) : top + height + margin, max(0, left - margin) : left + width + margin] = (
            True
        )
    return mask


def bounds(mask: NDArray[np.bool_], box: Box, margin: int) -> Box | None:
    """Return the box of the pixels in `mask` within `margin` pixels of `box`; None: there are none."""
    left, top = max(0, box[0] - margin), max(0, box[1] - margin)
    part = mask[top : box[1] + box[3] + margin, left : box[0] + box[2] + margin]
    rows, columns = part.any(1).nonzero()[0], part.any(0).nonzero()[0]
    if not len(rows):
        return None
    x, y = left + int(columns[0]), top + int(rows[0])
    return x, y, int(columns[-1] - columns[0]) + 1, int(rows[-1] - rows[0]) + 1


def expected(box: Box, look: Look) -> Box | None:
    """Return what must be seen of a box in a look's area; None: a hole hides a part, or hardly any shows."""
    inside = covered([box]) & covered([look.area])
    shown = bounds(inside, box, 0)
    if shown is None or min(shown[2:]) <= look.tolerance or (inside & covered(list(look.holes))).any():
        return None
    return shown


def _apart(one: Box, other: Box) -> int:
    """Return the largest distance of two boxes' edges."""
    edges = [(left, top, left + width, top + height) for left, top, width, height in (one, other)]
    return max(abs(a - b) for a, b in zip(*edges, strict=True))
