"""Signals in a process with a JVM: the program's own stay as they are, those of faults stay the JVM's."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_ACTION_BYTES = 512  # more than any system's `struct sigaction` has
_sigaction: Any = ctypes.CDLL(None).sigaction if os.name == "posix" else None
#: What the system does for the JVM at each fault signal; empty before the first `keep_fault_signals`.
_fault_actions: dict[int, Any] = {}


def _actions(*numbers: int) -> dict[int, Any]:
    """Return what the system does at each of the signals, by their numbers."""
    actions = {int(number): ctypes.create_string_buffer(_ACTION_BYTES) for number in numbers}
    for number, action in actions.items():
        _sigaction(number, None, action)
    return actions


@contextmanager
def own_signals() -> Iterator[None]:
    """Leave Ctrl-C, SIGTERM, SIGHUP and SIGQUIT, and SIGUSR2 where it is handled, as they are before.

    A JVM that starts takes them over. Its handlers run in a Java thread: that of SIGTERM crashes the
    interpreter, that of Ctrl-C does not wake a main thread which waits, and handlers of the program are
    never called.
    """
    if _sigaction is None:
        yield
        return
    numbers = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT]
    if signal.getsignal(signal.SIGUSR2) != signal.SIG_DFL:  # else the JVM's, which suspends its threads by it
        numbers.append(signal.SIGUSR2)
    before = _actions(*numbers)
    try:
        yield
    finally:
        for number, action in before.items():
            _sigaction(number, action, None)


def keep_fault_signals() -> None:
    """Give the JVM its handlers of fault signals back; the first call, after its start, only notes them.

    Compiled Java finds null pointers by faults, and the JVM's handlers need the details of these signals.
    pygame replaces them by handlers without details when it is imported, `init`ialized and `quit`, and
    `faulthandler.enable` by its own; then the next null pointer would end the process.
    """
    if _sigaction is None:
        return
    for number, action in _fault_actions.items():
        _sigaction(number, action, None)
    if not _fault_actions:
        _fault_actions.update(_actions(signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL))
