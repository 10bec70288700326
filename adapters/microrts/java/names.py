"""Suggestions of the nearest known name for a misspelt one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from ....suggestions import nearest


def unknown(what: str, name: object, known: Iterable[str]) -> str:
    """A sentence: there is no `what` called `name`, but the nearest is …

    Where none is near, a short list is given whole, and of a long one the nearest all the same.
    """
    known = list(known)
    is_short = len(known) <= 20
    near = nearest(name, known, 1, 0.4 if is_short else 0.0)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
    return f"MicroRTS has no {what} {name!r}; {hint}"


def argument_names(function: Callable[..., Any]) -> list[str]:
    """Return the names of `function`'s keyword arguments, without those of its `**options`."""
    parameters = inspect.signature(function).parameters.values()
    return [parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD]
