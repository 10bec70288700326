"""The queue's end of a process that trains or evaluates one run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .training_jobs import TrainingJob

#: What a process of the run has printed, of all its parts.
LOG = "log.txt"
#: More than a line of metrics or a few lines of a log have.
_TAIL = 16_384


class RunProcess:
    """Starts a stage ("train" or "eval") of a run.

    Args:
        folder: the run folder; it has a configuration.
        words: the flags of the stage.
        num_threads: of BLAS, where that is not the trainer's to say.
    """

    def __init__(
        self, job: TrainingJob, stage: str, folder: Path, words: Sequence[str], num_threads: int
    ) -> None:
        self.job, self.stage, self.folder = job, stage, folder
        self.began = time.monotonic()
        command = [sys.executable, "-m", f"{__package__}.run_child", stage, str(folder), *words]
        with (folder / LOG).open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "OMP_NUM_THREADS": str(num_threads), "PYTHONUNBUFFERED": "1"},
                start_new_session=True,  # Ctrl-C on the terminal is the queue's to handle
            )

    def exit_code(self) -> int | None:
        """None: it is still running."""
        return self._process.poll()

    def stop(self) -> None:
        """Ask it to end where it can go on from."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def kill(self) -> None:
        """End it now; it goes on from its last checkpoint."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """Leave nothing of it behind once it has ended."""
        self.stop()
        self._process.wait()


def last_metrics(folder: Path) -> dict[str, Any]:
    """Return the last whole line of a run's metrics that can be read; empty where there is none yet."""
    text = _tail(folder / "metrics.jsonl")
    for line in reversed(text[: text.rfind("\n") + 1].splitlines()):
        try:
            metrics = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(metrics, dict):
            return metrics
    return {}


def last_lines(folder: Path, count: int) -> list[str]:
    """The last lines of a run's log that say something."""
    lines = [line.rstrip() for line in _tail(folder / LOG).splitlines()]
    return [line for line in lines if line][-count:]


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - _TAIL))
            return file.read().decode(errors="replace")
    except FileNotFoundError:
        return ""
