"""Steps in which the engine draws nothing.

The engine draws 64 x 64 pixels at every step and has no option against it. Its library imports the functions
of Qt that draw; where frames are not used, `undrawn` puts one that does nothing in their places while the
engine steps. The games' logic never reads a frame.

A third-party engine that draws in another thread meanwhile gets a frame with holes. An engine of Entitize
doesn't: while the frames of one of them are used, all draw. The switch is
`entitize.process.switch("undrawn_steps", False)`.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Iterator
from typing import Any

from numba import types

from ...process import is_on
from ...ragged.compiled import compiled_callback
from .replaced_functions import ReplacedFunctions


@compiled_callback(types.void())
def _draw_nothing() -> None:
    """Called with the arguments of any of these functions, which all return nothing."""


_no_drawing = ReplacedFunctions(
    {
        f"_ZN8QPainter{function}": _draw_nothing
        for function in (
            "9drawImageERK6QRectFRK6QImageS2_6QFlagsIN2Qt19ImageConversionFlagEE",
            "8fillRectERK6QRectFRK6QColor",
            "8fillRectERK5QRectRK6QColor",
            "11drawEllipseERK6QRectF",
            "11drawEllipseERK5QRect",
            "9drawLinesEPK5QLinei",
        )
    }
)

_drawn: weakref.WeakSet[Any] = weakref.WeakSet()
_gate = threading.Condition()
_undrawn_steps = 0


def _start_over() -> None:
    """In a forked process: the threads that were in a step are not there."""
    global _gate, _undrawn_steps
    _gate, _undrawn_steps = threading.Condition(), 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_over)


def draw_from_now_on(engine: Any) -> None:
    """Let engines draw until `stop_drawing(engine)`, or until `engine` is gone."""
    with _gate:
        _drawn.add(engine)
        _gate.wait_for(lambda: not _undrawn_steps)


def stop_drawing(engine: Any) -> None:
    """Take back `draw_from_now_on(engine)`."""
    with _gate:
        _drawn.discard(engine)


@contextlib.contextmanager
def undrawn() -> Iterator[bool]:
    """Let engines draw nothing. Yields False where they draw after all.

    They do while one of them is looked at, while the switch is off, and on systems other than Linux.
    """
    global _undrawn_steps
    with _gate:
        may = not _drawn and is_on("undrawn_steps")
        _undrawn_steps += may
    if not may:
        yield False
        return
    try:
        with _no_drawing as is_undrawn:
            yield is_undrawn
    finally:
        with _gate:
            _undrawn_steps -= 1
            _gate.notify_all()
