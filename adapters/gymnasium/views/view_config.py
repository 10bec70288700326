"""Views as plain JSON values and back, so that a wrapped environment's spec can be written down."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from .chunks import Chunks
from .columns import Columns
from .function import Function
from .grids import Cells, Channels
from .held_environments import holds_environment
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


class RefusedFunction:
    """Stands in a spec for a function that reads the environment that its view was made for."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *_: Any) -> Any:
        raise _reads_environment(self.name)


def to_config(value: Any) -> Any:
    """A view, or a value in one, as dicts, lists, strings and numbers.

    Functions stay as they are, so that the spec still makes the environment in this process; Gymnasium says
    that they can't be written as JSON. Name them as "module:function" where that matters. A function that
    reads an environment other than its argument is replaced by a `RefusedFunction`: in an environment made by
    the spec it would read this one.
    """
    if isinstance(value, View | PerEntity):
        options = {name: to_config(option) for name, option in _options(value) if option is not None}
        return {"view": type(value).__name__, **options}
    if isinstance(value, slice):
        return {"__slice__": [value.start, value.stop, value.step]}
    if isinstance(value, Mapping):
        return {key: to_config(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_config(item) for item in value]
    return RefusedFunction(repr(value)) if callable(value) and holds_environment(value) else value


def check_copyable(view: Any, env: str) -> None:
    """Check that a copy of a wrapped environment would not read the original.

    Raises:
        ViewError: a function of `view` reads an environment other than its argument.
    """
    for function in _functions(view):
        if holds_environment(function):
            raise _reads_environment(f"{env}: view: {function!r}")


def _functions(value: Any) -> Iterator[Any]:
    if isinstance(value, View | PerEntity):
        value = dict(_options(value))
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            yield from _functions(item)
    elif callable(value):
        yield value


def _options(view: View | PerEntity) -> list[tuple[str, Any]]:
    return [(option.name, getattr(view, option.name)) for option in fields(view)]  # type: ignore[arg-type]


def _reads_environment(function: str) -> ViewError:
    return ViewError(
        f"{function} reads the environment that its view was made for: expected a function of its arguments"
        " alone to make the environment again from its spec, or to copy it. Take the environment as the"
        " second argument (source='env'), or wrap the new environment with a new view"
    )


def from_config(value: Any) -> Any:
    """Return the view that `to_config` wrote; anything else, such as a view, is returned unchanged.

    Raises:
        ViewError: an unknown view or option, or a function that reads another environment.
    """
    if isinstance(value, RefusedFunction):
        value()
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
