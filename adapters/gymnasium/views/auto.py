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
from .scope import Scope, View, ViewError
from .tables import find_tables, tables_by_name
from .text import Characters
from .vector import Vector

#: A grid of at most this many different ids is a board of objects; with more it is a picture.
MAX_IDS = 32
#: A float grid from 0 to 1 of at most this many cells a side has objects in its channels (or is no picture).
MAX_SIDE = 16
#: A float table with more columns than this is a height field.
MAX_COLUMNS = 64


def auto(space: spaces.Space[Any], scope: Scope | None = None) -> View:
    """A sensible view of `space`.

    - flat Box, Discrete, MultiDiscrete, MultiBinary: one entity (`Vector`);
    - a float table: `Rows`, which keep their position; a large one: `Chunks`;
    - a grid of bits, or a small one of floats from 0 to 1: `Channels`; of few ids: `Cells` (0 is empty, or
      the lowest id where 0 is none); other grids: `Chunks`;
    - arrays of equal length in a Dict, where names and lengths suggest a table: `Columns`;
    - Dict, Tuple, Graph, OneOf, Sequence: `Items`; Text: `Characters`.

    Args:
        space: the space.
        scope: its place in an observation, for the names of tables and for errors; the root if left out.

    Raises:
        ViewError: a space that is none of Gymnasium's own, or arrays of equal length that may be one table or
            several.
    """
    if isinstance(space, spaces.Dict):
        return _components(space, scope)
    if isinstance(space, spaces.Tuple | spaces.Sequence | spaces.Graph | spaces.OneOf):
        return Items()
    if isinstance(space, spaces.Text):
        return Characters()
    if isinstance(space, spaces.Discrete):
        return Vector()
    if isinstance(space, spaces.Box | spaces.MultiDiscrete | spaces.MultiBinary):
        return Vector() if len(space.shape) < 2 else _grid(space)
    if scope is not None:
        raise scope.unknown(space)
    raise ViewError(f"view: expected a space that Gymnasium defines, got {space!r}. Declare a Function view")


def _place(scope: Scope | None) -> str:
    return "view" if scope is None else scope.place


def _components(space: spaces.Dict, scope: Scope | None) -> View:
    tables = find_tables(space)
    labels = [label for label, _ in tables]
    views: dict[str, View | None] = {}
    for label, names in tables:
        _check_is_one_table(names, space, scope)
        others = [name for name in space.spaces if name not in names]
        if labels.count(label) > 1 or label in others:
            label = names[0]
        if label is not None and scope is not None:
            label = scope.member_name(label)
        table = Columns(label, index=True)
        if not others:
            return table
        views[",".join(names)] = table
    return Items(views)


def _check_is_one_table(names: list[str], space: spaces.Dict, scope: Scope | None) -> None:
    """Refuse names such as enemy_x, enemy_y, food_x, food_y, which may be one table or one of each kind.

    Raises:
        ViewError: the message offers both.
    """
    tables = tables_by_name(names)
    if not tables:
        return
    one = "views.Columns()"
    if len(names) < len(space.spaces):
        one = f"views.Items({{{','.join(names)!r}: views.Columns()}})"
    each = [f"{','.join(own)!r}: views.Columns({label!r})" for label, own in tables.items() if len(own) > 1]
    several = f"views.Items({{{', '.join(each)}}})" if each else "views.Items()"
    raise ViewError(
        f"{_place(scope)}: arrays of equal length: expected the names of one table, got {names}, which may be"
        f" those of {list(tables)}. Declare {one} if they are one table, or {several} if each is a table"
    )


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
        empty = 0 if low <= 0 <= high else low
        return Cells(objects, ignore=[f"id_{empty}"], name=True)
    return Chunks()


def _id_range(space: spaces.Space[Any]) -> tuple[int, int]:
    if isinstance(space, spaces.MultiDiscrete):
        return int(space.start.min()), int((space.start + space.nvec).max()) - 1
    assert isinstance(space, spaces.Box)
    return int(np.min(space.low)), int(np.max(space.high))
