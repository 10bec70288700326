"""Functions of the user that a trainer calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

__all__ = ["call_back", "checked_callbacks"]


def checked_callbacks(callbacks: Sequence[Callable[..., Any]]) -> list[Callable[..., Any]]:
    """Return `callbacks` as a list.

    Raises:
        TypeError: they are no list of functions.
    """
    if callable(callbacks) or not isinstance(callbacks, Iterable):
        raise TypeError(f"callbacks: expected a list of functions, got {callbacks!r}")
    for callback in callbacks:
        if not callable(callback):
            raise TypeError(f"callbacks: expected functions, got {callback!r}")
    return list(callbacks)


def call_back(callback: Callable[..., Any], trainer: object, metrics: dict[str, float]) -> bool:
    """Call a function with the trainer and its metrics; return True if training should stop.

    Raises:
        TypeError: it returned something else than True, False or None, such as a metric.
    """
    result = callback(trainer, metrics)
    if result is None or isinstance(result, (bool, np.bool_)):
        return bool(result)
    name = getattr(callback, "__name__", type(callback).__name__)
    raise TypeError(f"callback {name}: expected it to return True to stop, False or None, got {result!r:.80}")
