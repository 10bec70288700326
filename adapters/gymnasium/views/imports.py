"""Functions by value or by name: a name can be written into an environment's spec, a function can't."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from .scope import ViewError


def resolve(function: Callable[..., Any] | str | Any) -> Callable[..., Any]:
    """`function` itself, or what "module:name" names.

    Raises:
        ViewError: there is no such function.
    """
    if callable(function):
        return function
    module, _, name = str(function).partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ViewError(
            f"function {function!r} cannot be imported: {error}. Name it 'module:function'"
        ) from None
    if not callable(found):
        raise ViewError(f"{function!r}: expected a function, got {found!r}")
    return found
