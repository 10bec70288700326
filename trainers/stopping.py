"""Ctrl-C and SIGTERM while something trains: the update at hand is finished first."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from ..envs.waiting import allow_waiting, interrupt_waiting

_NOTICE = "\nstopping after the update at hand; Ctrl-C again ends at once\n"
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
#: The handlers of a program that has none of its own.
_DEFAULTS = (signal.default_int_handler, signal.SIG_DFL)


@contextmanager
def stop_on_signals(stop: threading.Event) -> Iterator[None]:
    """Set `stop` at the first SIGINT or SIGTERM; raise KeyboardInterrupt at the second.

    Where no game is connected that could end the update at hand, the first one raises `NoGameInterrupt`.
    Outside of the main thread, where Python handles no signals, nothing changes.
    """
    with _handled(_SIGNALS, stop, []):
        yield


@contextmanager
def ending_on_signals() -> Iterator[threading.Event]:
    """Give an event that the first SIGINT or SIGTERM sets; once the block is left, the signal takes effect.

    That is KeyboardInterrupt, or SystemExit(143) for SIGTERM, so that a program closes what it has opened. A
    second signal raises KeyboardInterrupt at once. Handlers of a program's own are left as they are.
    """
    stop = threading.Event()
    received: list[int] = []
    unclaimed = [number for number in _SIGNALS if signal.getsignal(number) in _DEFAULTS]
    with _handled(unclaimed, stop, received):
        yield stop
    if received:
        raise KeyboardInterrupt if received[0] == signal.SIGINT else SystemExit(128 + received[0])


@contextmanager
def _handled(numbers: Iterable[signal.Signals], stop: threading.Event, received: list[int]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        received.append(number)
        interrupt_waiting()  # where no game is connected, the update at hand may never end
        with suppress(OSError):  # Ctrl-C also ends a reader of our output, as in `2>&1 | tee log`
            os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, _NOTICE.encode())

    before = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield
    finally:
        allow_waiting()
        for number, handler in before.items():
            signal.signal(number, handler)
