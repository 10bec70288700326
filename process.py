"""What Entitize changes in the process that it runs in, with a switch for each (standard library only).

Every effect is on unless it is switched off, by its environment variable or by `switch`:

    ENTITIZE_TERSE_DUMPS=0 python train.py
    entitize.process.switch("terse_dumps", False)

`docs/process.md` gives the reasons and gains. Child processes end with the one that started them by
`at_end_of_input`.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

#: Effect -> what it does.
EFFECTS: Mapping[str, str] = MappingProxyType(
    {
        "keep_freed_memory": "glibc keeps freed blocks of up to 32 MiB for the process",
        "reuse_arrays": "the fused engine reuses the memory of its arrays that nothing refers to any more",
        "separate_collectors": "Java's garbage collections do not start Python's",
        "split_compilation": "Java compiles the loop over μRTS games in parts",
        "terse_dumps": "Procgen's library prints no random generators; only while states are fetched",
        "undrawn_steps": "Procgen's engine draws no frames that are not used; only while it steps",
    }
)


#: What `interrupts_blocked` blocks.
INTERRUPTS = frozenset({signal.SIGINT, signal.SIGTERM})


def variable(effect: str) -> str:
    """Return the environment variable of an effect."""
    if effect not in EFFECTS:
        raise ValueError(f"effect: unknown name {effect!r}. Choose one of {', '.join(EFFECTS)}")
    return f"ENTITIZE_{effect.upper()}"


def is_on(effect: str) -> bool:
    """Return whether an effect may happen.

    Raises:
        ValueError: an unknown effect, or a variable that is neither "0" nor "1".
    """
    name = variable(effect)
    value = os.environ.get(name, "1")
    if value not in ("0", "1"):
        raise ValueError(f"{name}: expected 0 or 1, got {value!r}")
    return value == "1"


def switch(effect: str, on: bool) -> None:
    """Allow an effect or not, in this process and in worker processes that it starts later.

    It counts from the effect's next occasion; call it before the first environment or trainer is made.

    Raises:
        ValueError: an unknown effect.
    """
    os.environ[variable(effect)] = "1" if on else "0"


@contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Block SIGINT and SIGTERM; processes that are started meanwhile inherit this.

    Ctrl-C reaches all processes of a terminal or a notebook, and a training that is stopped needs its
    environments to finish an update.
    """
    if sys.platform == "win32":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def at_end_of_input(stop: Callable[[], None]) -> None:
    """Call `stop`, in a thread, once standard input is closed: a pipe is when the process at its other end is
    gone."""

    def wait() -> None:
        while os.read(0, 1024):
            pass
        stop()

    threading.Thread(target=wait, daemon=True).start()
