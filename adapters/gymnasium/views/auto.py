"""`auto`: a view for every space that Gymnasium has."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from .chunks import Chunks
from .columns import Columns
from .grids import Cells, Channels, is_binary
from .items import Items
from .rows import Rows
from .scope import View, ViewError
from .tables import find_tables
from .text import Characters
from .vector import Vector

#: A grid of at most this many different ids is a board of objects; with more it is a picture.
MAX_IDS = 32
#: A float grid from 0 to 1 of at most this many cells a side has objects in its channels (or is no picture).
MAX_SIDE = 16
#: A float table with more columns than this is a height field.
MAX_COLUMNS = 64


def auto(space: spaces.Space[Any]) -> View:
    """A sensible view of `space`.

    - flat Box, Discrete, MultiDiscrete, MultiBinary: one entity (`Vector`);
    - a float table: `Rows`, which keep their position; a large one: `Chunks`;
    - a grid of bits, or a small one of floats from 0 to 1: `Channels`; of few ids: `Cells` (the lowest id is
      empty); other grids: `Chunks`;
    - arrays of equal length in a Dict, where names and lengths suggest a table: `Columns`;
    - Dict, Tuple, Graph, OneOf, Sequence: `Items`; Text: `Characters`.

    Raises:
        ViewError: a space that is none of Gymnasium's own.
    """
    if isinstance(space, spaces.Dict):
        return _components(space)
    if isinstance(space, spaces.Tuple | spaces.Sequence | spaces.Graph | spaces.OneOf):
        return Items()
    if isinstance(space, spaces.Text):
        return Characters()
    if isinstance(space, spaces.Discrete):
        return Vector()
    if isinstance(space, spaces.Box | spaces.MultiDiscrete | spaces.MultiBinary):
        return Vector() if len(space.shape) < 2 else _grid(space)
    raise ViewError(f"view: expected a space that Gymnasium defines, got {space!r}. Declare a Function view")


def _components(space: spaces.Dict) -> View:
    tables = find_tables(space)
    if len(tables) == 1 and len(tables[0][1]) == len(space.spaces):
        return Columns(tables[0][0], index=True)
    labels = [label for label, _ in tables]
    views: dict[str, View | None] = {}
    for label, names in tables:
        views[",".join(names)] = Columns(label if labels.count(label) == 1 else names[0], index=True)
    return Items(views)


def _grid(space: spaces.Box | spaces.MultiDiscrete | spaces.MultiBinary) -> View:
    if is_binary(space):
        return Channels()
    if isinstance(space, spaces.Box) and space.dtype is not None and space.dtype.kind == "f":
        table = len(space.shape) == 2 and space.shape[1] <= MAX_COLUMNS
        if len(space.shape) == 3 and max(space.shape) <= MAX_SIDE and (space.low == 0).all():
            return Channels() if (space.high == 1).all() else Chunks()
        return Rows(index=True) if table else Chunks()
    low, high = _id_range(space)
    if len(space.shape) == 2 and high - low < MAX_IDS:
        objects = {f"id_{number}": number for number in range(low, high + 1)}
        return Cells(objects, ignore=[f"id_{low}"], name=True)
    return Chunks()


def _id_range(space: spaces.Space[Any]) -> tuple[int, int]:
    if isinstance(space, spaces.MultiDiscrete):
        return int(space.start.min()), int((space.start + space.nvec).max()) - 1
    assert isinstance(space, spaces.Box)
    return int(np.min(space.low)), int(np.max(space.high))
