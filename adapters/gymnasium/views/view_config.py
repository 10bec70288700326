"""Views as plain JSON values and back, so that a wrapped environment's spec can be written down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from .chunks import Chunks
from .function import Function
from .grids import Cells, Channels
from .items import Items
from .rows import Rows
from .scope import View, ViewError
from .text import Characters, Words
from .vector import Vector

_VIEWS = {v.__name__: v for v in (Cells, Channels, Characters, Chunks, Function, Items, Rows, Vector, Words)}


def to_config(value: Any) -> Any:
    """A view, or a value in one, as dicts, lists, strings and numbers.

    Functions stay as they are, so that the spec still makes the environment in this process; Gymnasium says
    that they can't be written as JSON. Name them as "module:function" where that matters.
    """
    if isinstance(value, View):
        options = {f.name: getattr(value, f.name) for f in fields(value)}  # type: ignore[arg-type]
        return {
            "view": type(value).__name__,
            **{k: to_config(v) for k, v in options.items() if v is not None},
        }
    if isinstance(value, slice):
        return {"__slice__": [value.start, value.stop, value.step]}
    if isinstance(value, Mapping):
        return {key: to_config(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_config(item) for item in value]
    return value


def from_config(value: Any) -> Any:
    """The view that `to_config` wrote.

    Raises:
        ViewError: an unknown view or option.
    """
    if isinstance(value, list):
        return [from_config(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    if set(value) == {"__slice__"}:
        return slice(*value["__slice__"])
    items = {key: from_config(item) for key, item in value.items()}
    if not isinstance(value.get("view"), str):
        return items
    name = items.pop("view")
    if name not in _VIEWS:
        raise ViewError(f"view: expected one of {', '.join(_VIEWS)}, got {name!r}")
    try:
        return _VIEWS[name](**items)
    except TypeError as error:
        raise ViewError(f"{name}: {error}") from None
