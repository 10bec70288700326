"""`run.json`: the code and the machine of each start of a run, and its newest checkpoint. It only informs."""

from __future__ import annotations

import json
import logging
import platform
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any

from ...files import parse_json, read_regular, replace_file
from ...ragged import available_cores
from ...version import __version__

if TYPE_CHECKING:
    import torch

RUN_ORIGIN = "run.json"

_CHECKOUT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class RunPart:
    """Code and machine that trained a run from one environment step on."""

    from_step: int
    started: str  # UTC, as ISO 8601 has it
    version: str  # of Entitize
    commit: str | None  # SHA-1, with "-dirty" where files differ from it; None: not from a checkout
    processor: str
    cores: int  # that the process might use
    gpu: str | None  # that the network was on; None: it was on the CPU
    python: str
    torch: str


def note_origin(run: Path, step: int, device: torch.device) -> None:
    """Note that this process trains `run` from `step` on; parts that nothing is left of are dropped."""
    import torch  # only here: readers do without

    part = RunPart(
        step,
        datetime.now(UTC).isoformat(timespec="seconds"),
        __version__,
        _commit(),
        processor(),
        available_cores(),
        torch.cuda.get_device_name(device) if device.type == "cuda" else None,
        platform.python_version(),
        torch.__version__,
    )
    parts, saved_step = _known(run)
    _write(run, [*(one for one in parts if one.from_step < step), part], saved_step if step else None)


def note_checkpoint(run: Path, step: int) -> None:
    """Note that `run` has a checkpoint of `step`."""
    _write(run, _known(run)[0], step)


def _write(run: Path, parts: Sequence[RunPart], saved_step: int | None) -> None:
    content = {"parts": [asdict(part) for part in parts], "saved_step": saved_step}
    replace_file(run / RUN_ORIGIN, json.dumps(content, indent=1).encode())


def _known(run: Path) -> tuple[list[RunPart], int | None]:
    """Return what was noted so far; a file that can't be read is set aside."""
    try:
        return _read(run)
    except ValueError as error:
        aside = run / f"{RUN_ORIGIN}.unreadable"
        (run / RUN_ORIGIN).replace(aside)
        logging.getLogger(__name__).warning("%s; moved to %s", error, aside.name)
        return [], None


def read_origin(run: Path) -> list[RunPart]:
    """The parts of a run, in order; none where that was never noted.

    Raises:
        ValueError: the file can't be read as one.
    """
    return _read(run)[0]


def last_saved_step(run: Path) -> int | None:
    """Return the step of the newest checkpoint that was written into `run`; None: there was none."""
    return _known(run)[1]


def _read(run: Path) -> tuple[list[RunPart], int | None]:
    path = run / RUN_ORIGIN
    if not path.exists():
        return [], None
    names = [field.name for field in fields(RunPart)]
    try:
        content: dict[str, Any] = parse_json(read_regular(path, links=True))
        parts = [_checked(RunPart(**{name: part[name] for name in names})) for part in content["parts"]]
        saved_step = content.get("saved_step")  # missing in runs of version 0.1
        if not isinstance(saved_step, int | NoneType):
            raise TypeError(f"saved_step: expected a number or null, got {saved_step!r}")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} can't be used: {error!r}") from error
    return parts, saved_step


def _checked(part: RunPart) -> RunPart:
    for field in fields(RunPart):
        value = getattr(part, field.name)
        kinds = (int,) if field.name in ("from_step", "cores") else (str, NoneType)
        if not isinstance(value, kinds):
            raise TypeError(f"{field.name}: expected {field.type}, got {value!r}")
    return part


def _commit() -> str | None:
    if not (_CHECKOUT / ".git").exists():  # installed; a repository around the environment is not ours
        return None
    command = ["git", "-C", str(_CHECKOUT), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def processor() -> str:
    """Return the model of the processor where the system names it, else the family."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()
