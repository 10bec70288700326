"""A run is a folder: `config.yaml`, `metrics.jsonl`, TensorBoard events and `checkpoints/`."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from torch.utils.tensorboard import SummaryWriter

from ...files import replace_file
from ...policies.checkpoint import CheckpointError


class RunFolder:
    """Writes what a run has to say; `purge` makes a resumed run go on where its checkpoint was."""

    def __init__(self, path: str | Path, must_exist: bool = False) -> None:
        self.path = Path(path)
        if must_exist and not self.path.exists():
            raise FileNotFoundError(f"there is no run folder {self.path} to resume")
        if self.path.exists() and not self.path.is_dir():
            raise NotADirectoryError(f"run folder {self.path} is a file; name a folder")
        self.path.mkdir(parents=True, exist_ok=True)
        self._writer: SummaryWriter | None = None
        self._purge_step: int | None = None

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.jsonl"

    def write_config(self, config: Mapping[str, Any]) -> None:
        """Write `config.yaml`, unless whoever made the folder has put one there already."""
        path = self.path / "config.yaml"
        if not path.exists():
            replace_file(path, yaml.safe_dump(dict(config), sort_keys=False).encode())

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Add a line to `metrics.jsonl` and the same to TensorBoard, without numbers that aren't finite."""
        finite = {name: value for name, value in metrics.items() if math.isfinite(value)}
        with self.metrics.open("a") as file:  # opened anew, so that every line is handed to the system whole
            file.write(json.dumps({"step": step, **finite}) + "\n")
        if self._writer is None:
            self._writer = SummaryWriter(str(self.path), purge_step=self._purge_step)
            self._purge_step = None  # a file opened later goes on from this one
        for name, value in finite.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def check_not_lost(self, step: int) -> None:
        """Check that a run without checkpoints was ended before `step`, by which it must have written one.

        Raises:
            CheckpointError: it was trained for longer.
        """
        if not self.metrics.exists():
            return
        lines = self.metrics.read_text().splitlines(keepends=True)
        logged = max((found for line in lines if (found := _step_of(line)) < 2**63), default=0)
        if logged >= step:
            raise CheckpointError(
                f"{self.path}: the run was trained for {logged} steps, but its checkpoints are missing; put"
                f" them back into {self.checkpoints}, or start a run in another folder"
            )

    def purge(self, step: int) -> None:
        """Drop the metrics after `step`, and a last line that a kill cut short."""
        self.close()
        self._purge_step = step + 1
        if not self.metrics.exists():
            return
        lines = self.metrics.read_text().splitlines(keepends=True)
        kept = [line for line in lines if line.endswith("\n") and _step_of(line) <= step]
        if kept != lines:
            replace_file(self.metrics, "".join(kept).encode())

    def close(self) -> None:
        """Close the TensorBoard file; `log` opens a new one."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None


def read_metrics(path: str | Path) -> list[dict[str, float]]:
    """The lines of a `metrics.jsonl` (or `.gz`), without a last one that is still being written."""
    data = Path(path).read_bytes()
    text = (gzip.decompress(data) if Path(path).suffix == ".gz" else data).decode()
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def _step_of(line: str) -> int:
    """The step of a metrics line; a line that is no JSON counts as after everything."""
    try:
        return int(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return 2**63
