"""Objects on the screen of Atari's emulator, found as regions of colours: independent of the tables."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Box = tuple[int, int, int, int]  # left, top, width, height in pixels
Screen = NDArray[np.uint8]  # (210, 160) of the palette


@dataclass(frozen=True)
class Appearance:
    """The appearance of an entity type's objects on the screen."""

    colours: tuple[int, ...]  # of the palette
    area: Box = (0, 0, 160, 210)  # only here: elsewhere the colours are something else
    size: tuple[int, int] | None = None  # width and height; None: they are features
    holes: tuple[Box, ...] = ()  # nor here
    on_background: bool = False  # nor where most frames have these colours
    #: Pixels around a box that are searched for the object's edges; 0: neighbours touch each other.
    margin: int = 3
    tolerance: int = 1  # pixels, of each edge of a box
    #: Pixels that must be left of an object that an edge cuts off, for it to be checked.
    least: int = 4
    #: Frames from the present one on, in one of which the object must be seen: some flicker or blink.
    frames: int = 1
    #: Steps for which an object that is gone can still be seen: explosions are no entities.
    fades: int = 0
    #: Pixels around a box that belong to the object as well, such as a stick.
    reach: int = 0
    #: Walls have these colours too: pixels are an object only where a box of this size is by itself.
    among_walls: bool = False


_COURT = (0, 34, 160, 160)
_RING = (32, 37, 97, 140)
_ALLEY = (8, 105, 140, 67)
_GRASS = (4, 16, 156, 176)
_SEA = (8, 60, 152, 98)
_RINK = (32, 36, 96, 150)
#: Palette of the ghosts, and of those that Ms. Pac-Man can eat: blue, or white while that ends.
GHOSTS, EDIBLE = (70, 38, 184, 88), (150, 12)
_SLOPE = (8, 36, 144, 138)
_HOUSE = (16, 4, 128, 170)
_MAZE = (0, 0, 160, 171)
_SKY = (0, 16, 160, 135)
_DEMONS = tuple(c for c in range(2, 256, 2) if c not in (78, 86, 110))
#: Of what passes by in Asterix: all colours but the hero's, the frame's and black.
_PASSING = tuple(c for c in range(2, 256, 2) if c != 24 and not 114 <= c <= 136)


APPEARANCES: dict[str, dict[str, Appearance]] = {
    "Asterix": {
        "Player": Appearance((24,), (0, 24, 160, 138), frames=4),
        "Food": Appearance(_PASSING, (0, 24, 160, 138), (7, 10)),
        "Enemy": Appearance(_PASSING, (0, 24, 160, 138), (8, 11)),
        "Bonus": Appearance(_PASSING, (0, 24, 160, 138), (6, 11)),
    },
    "Bowling": {
        "Player": Appearance((88, 0, 134, 136), _ALLEY, (8, 32), tolerance=2, frames=2, fades=1),
        "Ball": Appearance((132,), (8, 105, 100, 67), (4, 10), frames=2, fades=1),
        "Pin": Appearance((132,), (114, 105, 34, 67), (2, 4), margin=0),
    },
    "Boxing": {
        "Player": Appearance((12,), _RING, margin=8, tolerance=7),
        "Enemy": Appearance((0,), _RING, margin=8, tolerance=7),
    },
    "Breakout": {
        "Player": Appearance((70,), (8, 189, 144, 4)),
        "Ball": Appearance((70,), (8, 93, 144, 96), (2, 4)),
        "Brick": Appearance(
            (70, 38, 22, 54, 198, 134), (8, 57, 144, 36), (8, 6), margin=0, tolerance=0, least=0
        ),
    },
    "DemonAttack": {
        "Player": Appearance((86,), (0, 160, 160, 27), (7, 12), fades=1, tolerance=2),
        "Shot": Appearance((110,), (0, 16, 160, 150), (1, 8), margin=5, frames=2, tolerance=4, fades=1),
        "Demon": Appearance(_DEMONS, _SKY, margin=4, tolerance=3, frames=2, fades=12),
        "Half": Appearance(_DEMONS, _SKY, margin=2, tolerance=5, frames=2, fades=12),
        "DivingDemon": Appearance(_DEMONS, _SKY, (8, 8), tolerance=3, frames=2, fades=12),
        "Bomb": Appearance((78,), (0, 16, 160, 170), (1, 4), frames=2, margin=0, tolerance=2),
    },
    "Freeway": {
        "Player": Appearance((30,), (8, 15, 72, 180), (6, 8), on_background=True),
        "Opponent": Appearance((30,), (80, 15, 80, 180), (6, 8), on_background=True),
        "Car": Appearance((0, 66, 220, 18, 130, 36, 136, 68, 216, 26), (10, 26, 150, 158), tolerance=2),
    },
    "IceHockey": {  # the skaters' sticks are in their colours
        "Player": Appearance((68, 70, 132, 136), _RINK, (8, 20), margin=0, tolerance=2, frames=2, reach=9),
        "Enemy": Appearance((68, 212, 250, 252), _RINK, (8, 20), margin=0, tolerance=3, frames=2, reach=9),
        "Puck": Appearance((0,), (32, 46, 96, 136), (2, 2), margin=2, tolerance=2, frames=2),
    },
    "Kangaroo": {
        "Player": Appearance((44,), (16, 28, 128, 150), tolerance=2, frames=2, fades=1),
        "Child": Appearance((44,), (16, 4, 128, 24), (8, 15), margin=5, tolerance=5),
        "Bell": Appearance((42,), _HOUSE, (6, 11), tolerance=2),
        "Fruit": Appearance((72,), _HOUSE, (8, 11)),
        "Monkey": Appearance((58,), (0, 4, 160, 174), (8, 15), tolerance=3, frames=2, fades=1),
        "Coconut": Appearance((58,), _HOUSE, (2, 3), margin=4, tolerance=4, frames=2),
        "FallingCoconut": Appearance((36,), _HOUSE, (2, 3), on_background=True, frames=2),
    },
    "MsPacman": {
        "Player": Appearance((42,), _MAZE, (8, 10), tolerance=3, frames=2, fades=1),
        "Ghost": Appearance((*GHOSTS, *EDIBLE), _MAZE, (8, 10), margin=4, tolerance=3, frames=4, fades=1),
        "Fruit": Appearance((68,), _MAZE, (8, 10), tolerance=2, frames=4),
        "PowerPill": Appearance((74,), _MAZE, (4, 7), margin=0, frames=10, among_walls=True),
        "Pill": Appearance((74,), _MAZE, (4, 2), margin=0, frames=4, among_walls=True),
    },
    "Pong": {
        "Player": Appearance((200,), _COURT),
        "Enemy": Appearance((56,), _COURT),
        "Ball": Appearance((14,), _COURT, (2, 4)),
    },
    "Seaquest": {
        "Player": Appearance((24,), (8, 57, 152, 98), (16, 11), tolerance=3, fades=1),
        "Torpedo": Appearance((24,), _SEA, (8, 1), margin=0, tolerance=2),
        "Shark": Appearance((232, 200, 180), _SEA, (8, 7), tolerance=2, least=6, frames=2, fades=2),
        "Submarine": Appearance((8,), _SEA, (8, 11), tolerance=2, frames=2, fades=2),
        "Diver": Appearance((134,), _SEA, (8, 13), tolerance=2, least=6),
        "Missile": Appearance((134,), _SEA, (6, 4), tolerance=2),
        "Patrol": Appearance((8,), (8, 40, 152, 20), (8, 7), least=8),
    },
    "Skiing": {
        "Player": Appearance((72,), _SLOPE, (8, 18), tolerance=4),
        "Flag": Appearance((134, 66), _SLOPE, tolerance=3, least=9),
        "Mogul": Appearance((10, 12), _SLOPE, tolerance=3),
        "Tree": Appearance((198, 212, 214, 216, 218), (8, 46, 144, 104), tolerance=3, least=24),
    },
    "SpaceInvaders": {
        "Player": Appearance((196,), (0, 185, 160, 10), (7, 10), frames=20, fades=2),
        "Shot": Appearance((6,), (0, 20, 160, 175), (1, 8), tolerance=2, frames=2, fades=1),
        "Invader": Appearance((20,), (0, 20, 160, 165), (8, 10), fades=12),
        "Bomb": Appearance((6,), (0, 20, 160, 175), (1, 8), tolerance=2, frames=2, fades=1),
        "Shield": Appearance((52,), (0, 150, 160, 35)),
        "Saucer": Appearance((82,), (0, 8, 160, 20), (7, 8), tolerance=2),
    },
    "Tennis": {
        "Player": Appearance((76,), _GRASS, (12, 23), on_background=True, margin=6, tolerance=6),
        "Enemy": Appearance((140,), _GRASS, (12, 23), on_background=True, margin=6, tolerance=6),
        "Ball": Appearance((14,), _GRASS, (2, 2), frames=2, tolerance=2),
        "Shadow": Appearance((2,), _GRASS, (2, 2), frames=2, tolerance=2),
    },
}


Boxes = dict[str, list[Box]]


def differences(
    screens: list[Screen], appearances: dict[str, Appearance], history: list[Boxes], usual: Screen
) -> list[str]:
    """Return how the objects of a table differ from what is on the screen.

    Args:
        screens: (210, 160) the present one and those of the next frames.
        appearances: of each type.
        history: the boxes of the objects by type, at the present step and at those before it, latest first.
        usual: (210, 160) the most frequent colour of each pixel.
    """
    found = []
    for name, appearance in appearances.items():
        hidden = covered(list(appearance.holes))
        if appearance.on_background:
            hidden |= _coloured(usual, appearance)
        masks = _Masks(screens[: appearance.frames], appearance, ~hidden)
        for box in history[0][name]:
            wanted = expected(box, appearance, hidden)
            if wanted is None:
                continue
            if not any(_agrees(masks[frame], wanted, appearance) for frame in range(appearance.frames)):
                shown = [
                    bounds(masks[frame], wanted, appearance.margin) for frame in range(appearance.frames)
                ]
                found.append(f"{name}: the table has {wanted}, the screen {shown}")
        shown = islands(masks[0], appearance.size) if appearance.among_walls else masks[0]
        found += _unexplained(name, shown, appearances, history)
    return found


class _Masks(dict[int, NDArray[np.bool_]]):
    """The pixels (210, 160) in a type's colours and area at each frame, computed when they are asked for."""

    def __init__(self, screens: list[Screen], appearance: Appearance, shown: NDArray[np.bool_]) -> None:
        self._screens, self._appearance = screens, appearance
        self._shown = shown & covered([appearance.area])

    def __missing__(self, frame: int) -> NDArray[np.bool_]:
        self[frame] = _coloured(self._screens[frame], self._appearance) & self._shown
        return self[frame]


def _agrees(mask: NDArray[np.bool_], wanted: Box, appearance: Appearance) -> bool:
    shown = bounds(mask, wanted, appearance.margin)
    return shown is not None and _apart(shown, wanted) <= appearance.tolerance


def _unexplained(
    name: str, mask: NDArray[np.bool_], appearances: dict[str, Appearance], history: list[Boxes]
) -> list[str]:
    """Return the pixels of a type's colours where there is no object with one of these colours."""
    for other, appearance in appearances.items():
        if set(appearances[name].colours) & set(appearance.colours):
            boxes = [box for step in history[: appearance.fades + 1] for box in step[other]]
            margin = max(appearance.tolerance, appearances[name].tolerance, appearance.reach)
            mask = mask & ~covered(boxes, margin)
    if not mask.any():
        return []
    rows, columns = mask.nonzero()
    where = f"rows {rows.min()} to {rows.max()}, columns {columns.min()} to {columns.max()}"
    return [f"{name}: the screen has {len(rows)} pixels more: {where}; the table has {history[0][name]}"]


def _coloured(screen: Screen, appearance: Appearance) -> NDArray[np.bool_]:
    chosen = np.zeros(256, bool)
    chosen[list(appearance.colours)] = True
    return chosen[screen]


def covered(boxes: list[Box], margin: int = 0) -> NDArray[np.bool_]:
    """Return which pixels (210, 160) are within `margin` pixels of a box."""
    mask = np.zeros((210, 160), bool)
    for left, top, width, height in boxes:
        mask[max(0, top - margin) : top + height + margin, max(0, left - margin) : left + width + margin] = (
            True
        )
    return mask


def islands(mask: NDArray[np.bool_], size: tuple[int, int] | None) -> NDArray[np.bool_]:
    """Return the boxes of this width and height in `mask` around which nothing else is."""
    assert size is not None
    width, height = size
    around = sliding_window_view(np.pad(mask, 1), (height + 2, width + 2)).sum((2, 3))
    inside = sliding_window_view(mask, (height, width)).all((2, 3))
    corners = np.argwhere(inside & (around == width * height))
    return covered([(int(left), int(top), width, height) for top, left in corners])


def bounds(mask: NDArray[np.bool_], box: Box, margin: int) -> Box | None:
    """Return the box of the pixels in `mask` within `margin` pixels of `box`; None: there are none."""
    left, top = max(0, box[0] - margin), max(0, box[1] - margin)
    part = mask[top : box[1] + box[3] + margin, left : box[0] + box[2] + margin]
    rows, columns = part.any(1).nonzero()[0], part.any(0).nonzero()[0]
    if not len(rows):
        return None
    x, y = left + int(columns[0]), top + int(rows[0])
    return x, y, int(columns[-1] - columns[0]) + 1, int(rows[-1] - rows[0]) + 1


def expected(box: Box, appearance: Appearance, hidden: NDArray[np.bool_]) -> Box | None:
    """Return what must be seen of a box in a type's area; None: part of it is hidden, or hardly any shows."""
    left, top = max(box[0], appearance.area[0]), max(box[1], appearance.area[1])
    right = min(box[0] + box[2], appearance.area[0] + appearance.area[2])
    bottom = min(box[1] + box[3], appearance.area[1] + appearance.area[3])
    if right <= left or bottom <= top or hidden[top:bottom, left:right].any():
        return None
    at_edge = left <= appearance.area[0] or right >= appearance.area[0] + appearance.area[2]
    at_edge |= top <= appearance.area[1] or bottom >= appearance.area[1] + appearance.area[3]
    if at_edge and min(right - left, bottom - top) <= appearance.least:
        return None
    return left, top, right - left, bottom - top


def _apart(one: Box, other: Box) -> int:
    """Return the largest distance of two boxes' edges."""
    edges = [(left, top, left + width, top + height) for left, top, width, height in (one, other)]
    return max(abs(a - b) for a, b in zip(*edges, strict=True))
