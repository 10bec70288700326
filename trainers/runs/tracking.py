"""Trackers: send the metrics of a run to Weights & Biases, trackio, or an object of your own."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import secrets
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol, get_args, runtime_checkable

import yaml

from ...envs.errors import one_of
from ...files import parse_json, read_regular, replace_file
from ...policies import RUN_CONFIG
from .yaml_numbers import NumberLoader

TrackerName = Literal["wandb", "trackio"]
#: What installs each of them.
_PACKAGES: dict[str, str] = {"wandb": "'entitize[wandb]'", "trackio": "trackio"}
#: The file in a run folder with the id of the tracked run, by which a resumed run continues it.
IDENTITIES = "tracking.json"
#: The project of tracked runs, unless the environment variable of the tracker names another.
PROJECT = "entitize"
#: The horizontal axis: rows may arrive late, such as those of an evaluation.
_STEP = "global_step"
#: Seconds to wait for a server at the start, and at the end.
_PATIENCE, _LAST_PATIENCE = 30, 60


@runtime_checkable
class Tracker(Protocol):
    """Takes the metrics of a run, beside `metrics.jsonl` and TensorBoard."""

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Take finite metrics at an environment step; a resumed run may repeat steps."""
        ...

    def close(self) -> None:
        """Write what is left; the resumed run may call `log` again."""
        ...


class Tracking:
    """The tracker of a run folder: opened at the first metrics, given up with one warning when it fails.

    Args:
        track: the name of a tracker, or a `Tracker`.
        run: the run folder.

    Raises:
        TypeError, ValueError: `track` is neither.
        ModuleNotFoundError: the package of the tracker is not installed.
    """

    def __init__(self, track: TrackerName | Tracker, run: Path) -> None:
        self.run = run
        self._name = track if isinstance(track, str) else type(track).__name__
        self._open = _opener(track, run)
        self._tracker: Tracker | None = None
        self._has_failed = False

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Hand metrics to the tracker."""
        self._try(lambda: self._opened().log(step, metrics))

    def close(self) -> None:
        """Close the tracker; `log` opens it again."""
        if self._tracker is not None:
            self._try(self._tracker.close)
            self._tracker = None

    def _opened(self) -> Tracker:
        if self._tracker is None:
            self._tracker = self._open()
        return self._tracker

    def _try(self, action: Callable[[], None]) -> None:
        """Training doesn't depend on a tracker: report its first failure, and stop using it."""
        if self._has_failed:
            return
        try:
            action()
        except Exception as error:
            self._has_failed, self._tracker = True, None
            reason = " ".join(str(error).split()).rstrip(".")  # wandb's have several lines
            warnings.warn(
                f"{self.run}: track: {self._name} failed: {type(error).__name__}: {reason}. Training"
                " continues without it; metrics.jsonl and TensorBoard have all metrics",
                RuntimeWarning,
                stacklevel=2,
            )


def _opener(track: TrackerName | Tracker, run: Path) -> Callable[[], Tracker]:
    """Return the function that opens a tracker for the folder `run`; raises as `Tracking`."""
    if not isinstance(track, str):
        if isinstance(track, type) or not isinstance(track, Tracker):
            raise TypeError(f"track: expected a name or a Tracker object with log and close, got {track!r}")
        return lambda: track
    one_of("track", track, get_args(TrackerName))
    spec = importlib.util.find_spec(track)
    if spec is None or spec.origin is None:  # none: a folder of that name, such as wandb's own files
        needed = _PACKAGES[track]
        raise ModuleNotFoundError(f"track: {track} is not installed: pip install {needed}", name=track)
    return lambda: (_Wandb if track == "wandb" else _Trackio)(run)


class _Wandb:
    """A run of Weights & Biases; its files are in `wandb/` of the run folder."""

    def __init__(self, run: Path) -> None:
        wandb: Any = importlib.import_module("wandb")
        patience = {"init_timeout": _PATIENCE, "finish_timeout": _LAST_PATIENCE}
        settings = wandb.Settings(silent=True, console="off", reinit="create_new", **patience)
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            id=_identity(run, "wandb"),
            resume="allow",
            name=_name(run),
            config=_config(run),
            dir=str(run),
            settings=settings,
        )
        self._run.define_metric(_STEP)
        self._run.define_metric("*", step_metric=_STEP)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self._run.log({_STEP: step, **metrics})

    def close(self) -> None:
        self._run.finish()


class _Trackio:
    """A run of trackio, which finds a run to resume by its name."""

    def __init__(self, run: Path) -> None:
        trackio: Any = importlib.import_module("trackio")
        self._run = trackio.init(
            project=os.environ.get("TRACKIO_PROJECT", PROJECT),
            name=f"{_name(run)}-{_identity(run, 'trackio')}",
            config=_config(run),
            resume="allow",
            embed=False,
        )

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self._run.log(dict(metrics), step=step)

    def close(self) -> None:
        self._run.finish()


def _identity(run: Path, name: str) -> str:
    """Return the id of the tracked run, made at its first start."""
    path = run / IDENTITIES
    known = parse_json(read_regular(path)) if path.exists() else {}
    if name not in known:
        known[name] = secrets.token_hex(4)
        replace_file(path, json.dumps(known).encode())
    return str(known[name])


def _name(run: Path) -> str:
    """Return the name of the run folder; with case and network in an experiment."""
    parts = run.resolve().parts
    is_in_experiment = parts[-1].isdecimal() and parts[-4:-3] == ("runs",)
    return "-".join(parts[-3:] if is_in_experiment else parts[-1:])


def _config(run: Path) -> dict[str, Any]:
    path = run / RUN_CONFIG
    return yaml.load(path.read_text(), NumberLoader) if path.exists() else {}
