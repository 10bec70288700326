"""A run is a folder: `config.yaml`, `metrics.jsonl`, TensorBoard events, `checkpoints/`, and a lock."""

from __future__ import annotations

import gzip
import io
import json
import math
import os
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import yaml

from ...files import parse_json, read_regular, replace_file
from ...policies import METADATA, RUN_CONFIG, CheckpointError, checkpoint_paths, step_of
from .locking import run_lock
from .run_origin import last_saved_step, note_checkpoint
from .tracking import Tracker, TrackerName, Tracking
from .yaml_numbers import NumberDumper, NumberLoader

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

    from .checkpoint import Tensors


class MetricsError(OSError):
    """Metrics can't be written into a run folder, for example because the disk is full."""


#: The metrics of a run, and those of an archived one.
_METRICS, _PACKED = "metrics.jsonl", "metrics.jsonl.gz"


def contains_run(path: Path) -> bool:
    """Return True if the folder `path` contains a run: checkpoints or metrics."""
    # os.path takes names that can't exist, too.
    if any(os.path.exists(path / name) for name in (_METRICS, _PACKED)):
        return True
    return os.path.isdir(path / "checkpoints") and bool(checkpoint_paths(path / "checkpoints"))


class RunFolder:
    """The folder of one run: configuration, metrics, checkpoints, and the lock that `locked` takes.

    Args:
        path: created if it is missing.
        must_exist: do not create it.
        track: a tracker that gets the metrics too; see `Tracking`.

    Raises:
        FileNotFoundError: the folder is missing and `must_exist`.
        NotADirectoryError: `path` is a file, or below one.
    """

    def __init__(
        self, path: str | Path, must_exist: bool = False, track: TrackerName | Tracker | None = None
    ) -> None:
        self.path = Path(path)
        self.tracking = None if track is None else Tracking(track, self.path)
        if self.path.exists() and not self.path.is_dir():
            raise NotADirectoryError(f"run folder {self.path} is a file; name a folder")
        parent = next((parent for parent in self.path.parents if parent.exists()), None)
        if parent is not None and not parent.is_dir():
            raise NotADirectoryError(f"run folder {self.path}: expected {parent} to be a folder, got a file")
        if must_exist and not self.path.exists():
            raise FileNotFoundError(f"{self.path}: expected a run folder to resume, got no folder")
        self.path.mkdir(parents=True, exist_ok=True)
        self._writer: SummaryWriter | None = None
        self._purge_step: int | None = None
        self._is_locked = False
        self._is_resumed = False
        self._size: int | None = None  # of the metrics as this object left them; None: it has not opened them

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder against other processes and other trainers; may be nested.

        Raises:
            RunLockedError: it is locked already.
            RuntimeError: another trainer has written to the folder since this one did.
            OSError: it can't be written.
        """
        if self._is_locked:
            yield
            return
        with run_lock(self.path):
            if self._size is not None and self._size != self._metrics_size():
                raise RuntimeError(
                    f"{self.path}: another trainer has continued this run since; make a new trainer with"
                    " resume=True"
                )
            self._is_locked = True
            try:
                yield
            finally:
                self._is_locked = False

    def _metrics_size(self) -> int:
        return self.metrics.stat().st_size if self.metrics.exists() else 0

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def metrics(self) -> Path:
        return self.path / _METRICS

    @property
    def _packed(self) -> Path:
        """The metrics of an archived run."""
        return self.path / _PACKED

    def write_config(self, config: Mapping[str, Any], is_resumed: bool = False) -> None:
        """Write `config.yaml`.

        A resumed run keeps what it has, and a new run what has other sections: another program wrote it.
        """
        path = self.path / RUN_CONFIG
        if not path.exists() or (not is_resumed and set(_read_config(path) or ()) == set(config)):
            _write_config(path, config)

    def note_hyper_parameters(self, ppo: Mapping[str, Any]) -> None:
        """Replace the section "ppo" of a resumed run's `config.yaml`; one of another program stays.

        Of a new run, of which `train` was told a number of steps, that number is replaced.
        """
        path = self.path / RUN_CONFIG
        config = _read_config(path) if path.exists() else None
        if config is None or not config.keys() >= {"env", "network", "ppo"} or config["ppo"] == ppo:
            return
        if not isinstance(config["ppo"], dict):
            return
        steps = {"total_timesteps": ppo["total_timesteps"]}
        if self._is_resumed or {**config["ppo"], **steps} == ppo:
            _write_config(path, {**config, "ppo": dict(ppo)})

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Add a line to `metrics.jsonl`, TensorBoard and the tracker, without numbers that aren't finite.

        Raises:
            TypeError: a metric is no number; nothing is written.
            MetricsError: the files can't be written; `metrics.jsonl` has whole lines alone.
        """
        finite = {name: value for name, value in _numbers(metrics).items() if math.isfinite(value)}
        try:
            self._append(json.dumps({"step": step, **finite}) + "\n")
            if self._writer is None:
                self._writer = self._open_writer()
            for name, value in finite.items():
                self._writer.add_scalar(name, value, step)
            self._writer.flush()
        except OSError as error:
            writer, self._writer = self._writer, None  # it repeats the error at every call
            if writer is not None:
                with suppress(OSError):
                    writer.close()
            raise MetricsError(f"could not write metrics into {self.path}: {error}") from error
        if self.tracking is not None:
            self.tracking.log(step, finite)

    def _append(self, line: str) -> None:
        """Add `line` to `metrics.jsonl`, or nothing where that fails."""
        size = self._metrics_size()
        try:
            with self.metrics.open("a") as file:  # opened each time: a line reaches the system whole
                file.write(line)
        except OSError:
            if self._metrics_size() > size:
                os.truncate(self.metrics, size)
            raise
        finally:
            self._size = self._metrics_size()

    def _open_writer(self) -> SummaryWriter:
        """Open a TensorBoard file, which begins with the configuration as text."""
        from torch.utils.tensorboard import SummaryWriter  # only here: the import takes 0.2 s

        writer = SummaryWriter(str(self.path), purge_step=self._purge_step)
        config = self.path / RUN_CONFIG
        if config.exists():
            lines = config.read_text().splitlines()
            writer.add_text("hyperparameters", "\n".join(f"    {line}" for line in lines))  # a code block
        self._purge_step = None  # a file opened later continues from this one
        return writer

    def newest_checkpoint(self, resume: bool) -> Path | None:
        """Return the checkpoint to continue from; None: there was none yet, and the run starts at step 0.

        The metrics of an archived run are unpacked.

        Raises:
            FileExistsError: the folder contains a run and `resume` is false.
            CheckpointError: all checkpoints are gone, the archived metrics can't be unpacked, or the folder
                is a card.
        """
        from .checkpoint import clear_leftovers

        self._check_is_no_card()
        self._is_resumed = resume
        paths = checkpoint_paths(self.checkpoints)
        if not resume and contains_run(self.path):
            raise FileExistsError(f"{self.path} contains a run already: resume it or choose another folder")
        if resume and not paths:
            self._check_had_none()
        self._unpack()
        clear_leftovers(self.checkpoints)
        return paths[-1] if paths else None

    def _check_is_no_card(self) -> None:
        """Check that no agent stands in the folder itself: readers would take it before all checkpoints.

        Raises:
            CheckpointError: one does, as in a folder of `entitize card`.
        """
        if (self.path / METADATA).is_file():
            raise CheckpointError(
                f"{self.path}: expected a run folder, got a card: its {METADATA} has no state of a trainer."
                f" Train its network in another folder, with --init-from {quote(str(self.path))}"
            )

    def _check_had_none(self) -> None:
        """Check that the run, which has no checkpoint now, had none before.

        Raises:
            CheckpointError: it had one, or it is archived: a run from step 0 would drop all its metrics.
        """
        saved_step = last_saved_step(self.path)
        if saved_step is not None or self._packed.exists():
            of_step = "" if saved_step is None else f" of step {saved_step}"
            raise CheckpointError(
                f"{self.path}: the run had a checkpoint{of_step}, but it has none now: put it"
                f" back into {self.checkpoints}, or start a run in another folder"
            )

    def _unpack(self) -> None:
        """Unpack the metrics of an archived run, if it is one; a kill leaves one of the two files whole.

        Raises:
            CheckpointError: they are damaged, or the folder has other unpacked ones too.
        """
        if not self._packed.exists():
            return
        try:
            content = b"".join(_lines(self._packed))
        except _DAMAGE as error:
            raise CheckpointError(f"{self._packed}: expected lines of metrics, got {error}") from error
        if self.metrics.exists() and read_regular(self.metrics, links=True) != content:
            raise CheckpointError(
                f"{self.path}: expected one file of metrics, got {self.metrics.name} and"
                f" {self._packed.name}: join both into {self.metrics.name}, and remove {self._packed.name}"
            )
        replace_file(self.metrics, content)
        self._packed.unlink()

    def check_newest(self, step: object) -> None:
        """Refuse to continue from `step` where later checkpoints are: a resumed run would take these.

        Raises:
            CheckpointError: there are some.
        """
        paths = checkpoint_paths(self.checkpoints)
        if paths and isinstance(step, int) and step < step_of(paths[-1]):
            raise CheckpointError(
                f"{self.path} has checkpoints of up to step {step_of(paths[-1])}: expected to continue from"
                f" the newest, got one of step {step}. Use another run folder, or delete the later ones"
            )

    def save(self, step: int, tensors: Tensors, metadata: Mapping[str, Any], keep: int) -> Path:
        """Write the checkpoint of `step`, drop all but the newest `keep`, and note it in `run.json`.

        Raises:
            RunLockedError, RuntimeError: another trainer works, or has worked, in the folder.
            CheckpointError: the system refused to write.
        """
        from .checkpoint import write_checkpoint  # only here: readers of metrics do without torch

        with self.locked():
            path = write_checkpoint(self.checkpoints, step, tensors, metadata, keep)
            note_checkpoint(self.path, step)
        return path

    def purge(self, step: int) -> None:
        """Drop the metrics after `step`, and a last line that a kill cut short."""
        self.close()
        self._purge_step = step + 1
        if self.metrics.exists():
            lines = _lines(self.metrics)
            kept = [line for line in lines if line.endswith(b"\n") and _step_of(line) <= step]
            if kept != lines:
                replace_file(self.metrics, b"".join(kept))
        self._size = self._metrics_size()

    def close(self) -> None:
        """Close the TensorBoard file and the tracker; `log` opens them again."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        if self.tracking is not None:
            self.tracking.close()


def _write_config(path: Path, config: Mapping[str, Any]) -> None:
    replace_file(path, yaml.dump(dict(config), Dumper=NumberDumper, sort_keys=False).encode())


def _read_config(path: Path) -> dict[str, Any] | None:
    """Return the sections of a configuration; None: it is none."""
    try:
        config = yaml.load(path.read_bytes(), NumberLoader)
    except (yaml.YAMLError, ValueError):
        return None
    return config if isinstance(config, dict) else None


#: Metrics in `metrics.jsonl.gz` are a tenth as large as unpacked.
_MOST_PACKED = 200
#: What unpacking damaged ones raises.
_DAMAGE = (gzip.BadGzipFile, EOFError, zlib.error, ValueError)


def read_metrics(path: str | Path) -> list[dict[str, float]]:
    """Return the lines of a `metrics.jsonl` (or `.gz`), without a last one that is still being written.

    Raises:
        OSError: there is no such file, or it can't be read.
        ValueError: it is damaged; the message names the file and the line.
    """
    path = Path(path)
    try:
        lines = _lines(path)
        return [_metrics(number, line) for number, line in enumerate(lines, 1) if line.endswith(b"\n")]
    except _DAMAGE as error:
        raise ValueError(f"{path}: expected lines of metrics, got {error}") from error


def _lines(path: Path) -> list[bytes]:
    content = read_regular(path, links=True)
    if path.suffix == ".gz":
        limit = 2**20 + _MOST_PACKED * len(content)
        content = gzip.GzipFile(fileobj=io.BytesIO(content)).read(limit + 1)
        if len(content) > limit:
            raise ValueError(f"more than {limit} bytes, {_MOST_PACKED} times as many as packed")
    return content.splitlines(keepends=True)


@contextmanager
def logging_metrics(run: RunFolder | None, step: int, metrics: dict[str, float]) -> Iterator[None]:
    """Log metrics into `run`, if any, at the end, with what was added to them; also after an error."""
    try:
        yield
    finally:
        if run is not None:
            run.log(step, metrics)


def _numbers(metrics: Mapping[str, float]) -> dict[str, float]:
    """Return metrics as Python's numbers; a callback may have added some of NumPy or of torch."""
    numbers = {}
    for name, value in metrics.items():
        try:
            numbers[name] = value if type(value) in (int, float) else float(value)
        except (TypeError, ValueError):
            raise TypeError(f"metrics: {name!r:.80}: expected a number, got {value!r:.80}") from None
    return numbers


def _metrics(number: int, line: bytes) -> dict[str, float]:
    try:
        metrics = parse_json(line)
        if not isinstance(metrics, dict):
            raise ValueError(f"a {type(metrics).__name__}")
        for name, value in metrics.items():
            if not isinstance(value, int | float):
                raise ValueError(f"{name!r:.50} of {value!r:.50}")
            float(value)  # an integer of 400 digits raises here
    except (ValueError, OverflowError) as error:
        raise ValueError(f"line {number}: {error}") from error
    return metrics


def _step_of(line: bytes) -> int:
    """Return the step of a metrics line; a line that is not JSON counts as after everything."""
    try:
        return int(parse_json(line)["step"])
    except (ValueError, KeyError, TypeError, OverflowError):
        return 2**63
