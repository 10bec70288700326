"""Signals in a process with a JVM: Ctrl-C and SIGTERM stay Python's, those of faults stay Java's."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from typing import Any

_ACTION_BYTES = 512  # more than any system's `struct sigaction` has
_sigaction: Any = ctypes.CDLL(None).sigaction if os.name == "posix" else None
#: What the system does for the JVM at each fault signal; empty before the first `keep_fault_signals`.
_actions: list[tuple[int, Any]] = []


def take_back_signals() -> None:
    """Leave Ctrl-C and SIGTERM to Python as before.

    JPype's handlers run in a Java thread: that of SIGTERM crashes the interpreter, and that of Ctrl-C does
    not wake a main thread which waits for something.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    for number in (signal.SIGINT, signal.SIGTERM):
        handler = signal.getsignal(number)
        if handler is not None:
            signal.signal(number, handler)


def keep_fault_signals() -> None:
    """Give the JVM its handlers of fault signals back; the first call, after its start, only notes them.

    Compiled Java finds null pointers by faults, and the JVM's handlers need the details of these signals.
    pygame replaces them by handlers without details when it is imported, `init`ialized and `quit`, and
    `faulthandler.enable` by its own; then the next null pointer would end the process.
    """
    if _sigaction is None:
        return
    for number, action in _actions:
        _sigaction(number, action, None)
    if not _actions:
        for number in (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL):
            action = ctypes.create_string_buffer(_ACTION_BYTES)
            _sigaction(int(number), None, action)
            _actions.append((int(number), action))
