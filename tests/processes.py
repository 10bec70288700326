"""Processes that tests start: they end with all that they have started themselves."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from waiting import PATIENCE

#: Seconds that a process has to end its children at SIGTERM: torchrun's are in sessions of their own.
NOTICE = 30.0


@contextmanager
def started(command: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[str]]:
    """Start a process in a group of its own, which is ended at the end of the block: also by an error."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command, start_new_session=True, **{**pipes, **options})
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=NOTICE)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def run(
    command: Sequence[str], timeout: float = PATIENCE, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Return what `subprocess.run` would with captured text, and leave no process behind after `timeout`."""
    with started(command, **options) as process:
        output, errors = process.communicate(timeout=timeout)
    return subprocess.CompletedProcess(list(command), process.returncode, output, errors)
