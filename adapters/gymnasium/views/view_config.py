"""Views as plain JSON values and back, so that a wrapped environment's spec can be written down."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import fields
from functools import partial
from typing import Any, NoReturn

import gymnasium

from .chunks import Chunks
from .columns import Columns
from .function import Function
from .grids import Cells, Channels
from .items import Items
from .per_entity import PerEntity
from .rows import Rows
from .scope import View, ViewError
from .text import Characters, Words
from .vector import Vector

_VIEWS: dict[str, type[View | PerEntity]] = {
    view.__name__: view
    for view in (
        Cells,
        Channels,
        Characters,
        Chunks,
        Columns,
        Function,
        Items,
        PerEntity,
        Rows,
        Vector,
        Words,
    )
}


def to_config(value: Any) -> Any:
    """A view, or a value in one, as dicts, lists, strings and numbers.

    Functions stay as they are, so that the spec still makes the environment in this process; Gymnasium says
    that they can't be written as JSON. Name them as "module:function" where that matters. A function that
    reads the wrapped environment becomes one that raises a ViewError: in an environment made by the spec it
    would read this one.
    """
    if isinstance(value, View | PerEntity):
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
    return _refusing(value) if callable(value) and _reads_environment(value) else value


def _reads_environment(function: Any) -> bool:
    """Return True if `function` uses an environment: its object, an argument or a variable outside it."""
    held = [getattr(function, "__self__", None)]
    if isinstance(function, partial):
        held += [*function.args, *function.keywords.values()]
        function = function.func
    if inspect.isfunction(function) or inspect.ismethod(function):
        variables = inspect.getclosurevars(function)
        held += [*variables.nonlocals.values(), *variables.globals.values()]
    return any(isinstance(value, gymnasium.Env | gymnasium.vector.VectorEnv) for value in held)


def _refusing(function: Any) -> Any:
    def refuse(*_: Any) -> NoReturn:
        raise ViewError(
            f"{function!r} reads the environment that its view was made for: expected a function of its"
            " arguments alone to make the environment again from its spec. Take the environment as the second"
            " argument (source='env'), or wrap the new environment with a new view"
        )

    return refuse


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
