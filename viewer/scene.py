"""Positions: the features that say where entities are, and the part of the world that a frame shows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ..envs import EntityVectorEnv
from ..envs.vector.wrapper import EntityVectorWrapper

#: Colours that can be distinguished with any colour vision (Okabe & Ito 2008), then four more.
COLOURS = (
    *("#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7"),
    *("#FFFFFF", "#7F3C8D", "#80FF80", "#A0522D"),
)

#: Words in names of features for both axes; cells count rows downwards.
_AXES = (("x", "y"), ("column", "row"), ("col", "row"))
#: A feature with one of these words in its name is along an axis, but no position.
_NO_POSITION = {
    *("velocity", "vel", "speed", "acceleration", "force", "direction", "heading", "target", "goal"),
    *("size", "width", "height", "half", "patrol", "throw", "delta", "sine", "cosine"),
}


@dataclass(frozen=True)
class Camera:
    """The part of the world that a frame shows, in the units of the features x and y. y grows upwards, or
    downwards with a negative height, and `bottom` is the y of the frame's lower edge.
    """

    left: float
    bottom: float
    width: float
    height: float

    def pixels(
        self, x: NDArray[np.float32], y: NDArray[np.float32], size: tuple[int, int]
    ) -> NDArray[np.float64]:
        """Column and row (n, 2) of positions in a picture of `size` (width, height)."""
        columns = (x - self.left) / self.width * size[0]
        rows = (1 - (y - self.bottom) / self.height) * size[1]
        return np.stack([columns, rows], 1).astype(np.float64)


@runtime_checkable
class HasCamera(Protocol):
    """A vector environment that says which part of the world `render()` shows."""

    def camera(self, lane: int) -> tuple[float, float, float, float]:
        """Left, bottom, width and height of what the frame of `lane` shows, in the units of x and y."""
        ...


def camera_of(venv: EntityVectorEnv) -> HasCamera | None:
    """Return what has the camera of the frames of `venv`: itself, or what it wraps; None: nothing has one."""
    while isinstance(venv, EntityVectorWrapper) and not isinstance(venv, HasCamera):
        kind = type(venv)
        passes_on = kind._render is EntityVectorWrapper._render and kind.render is EntityVectorEnv.render
        if not passes_on or venv.num_envs != venv.venv.num_envs:
            return None  # it shows frames of its own
        venv = venv.venv
    return venv if isinstance(venv, HasCamera) else None


def position_columns(
    features: Sequence[str], chosen: tuple[str, str] | None = None
) -> tuple[int, int] | None:
    """Return the columns of the features that are an entity's position, x and y; None: it has none.

    These are features whose names differ in one word only, "x" and "y" or "column" and "row": "x_pos" and
    "y_pos", "ball x" and "ball y". Of several such pairs the one with the fewest words counts, absolute
    positions before relative ones.

    Args:
        features: the names of the features, in the order of the columns.
        chosen: the names of both features, instead of those.
    """
    if chosen is not None:
        return (features.index(chosen[0]), features.index(chosen[1])) if {*chosen} <= {*features} else None
    pairs = sorted(_pairs(features))
    return pairs[0][-2:] if pairs else None


def grows_downwards(features: Sequence[str], columns: tuple[int, int]) -> bool:
    """Return whether positions count from the top, as the rows of a matrix do."""
    return "row" in _words(features[columns[1]])


def _pairs(features: Sequence[str]) -> Iterator[tuple[bool, int, int, int]]:
    """Yield (is relative, number of words, column of x, column of y)."""
    words = [_words(name) for name in features]
    for across, along in _AXES:
        for x, name in enumerate(words):
            if across in name and not _NO_POSITION & set(name):
                partner = [along if word == across else word for word in name]
                if partner in words:
                    yield "relative" in name, len(name), x, words.index(partner)


def _words(name: str) -> list[str]:
    """Split a name: "x_pos", "pos x" and "posX" have the words "x" and "pos"."""
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+|\d+", name)]
