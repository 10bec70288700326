"""Waiting for games of other programs, which may never come: Ctrl-C and SIGTERM then end the wait at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class NoGameInterrupt(KeyboardInterrupt):
    """Ctrl-C or SIGTERM came, and there is no game to wait for. Raised in place of a plain interrupt."""


#: Asked while the main thread waits: whether there is no game that could end the wait.
_has_no_game: Callable[[], bool] | None = None
_is_interrupted = False


@contextmanager
def waiting_for_games(has_no_game: Callable[[], bool] = lambda: True) -> Iterator[None]:
    """Mark the time that this thread waits, for `interrupt_waiting`. Only the main thread counts.

    Args:
        has_no_game: whether no game is there that could end the wait.

    Raises:
        NoGameInterrupt: there is none, and the wait has been interrupted or is now.
    """
    global _has_no_game
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before, _has_no_game = _has_no_game, has_no_game
    try:
        _check()
        yield
    finally:
        _has_no_game = before


def interrupt_waiting() -> None:
    """End the present wait of the main thread or, until `allow_waiting`, a later one: one without a game.

    Raises:
        NoGameInterrupt: it waits now.
    """
    global _is_interrupted
    _is_interrupted = True
    _check()


def allow_waiting() -> None:
    """End the effect of `interrupt_waiting`."""
    global _is_interrupted
    _is_interrupted = False


def _check() -> None:
    if _is_interrupted and _has_no_game is not None and _has_no_game():
        raise NoGameInterrupt
