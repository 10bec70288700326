"""`run.json` in a run folder: the code and the machine of a run, one part for each start and resumption."""

from __future__ import annotations

import json
import logging
import platform
import subprocess
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from types import NoneType

import torch

from ...files import parse_json, read_regular, replace_file
from ...ragged import available_cores
from ...version import __version__

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
    kept = [earlier for earlier in _known_parts(run) if earlier.from_step < step]
    content = json.dumps({"parts": [asdict(one) for one in [*kept, part]]}, indent=1)
    replace_file(run / RUN_ORIGIN, content.encode())


def _known_parts(run: Path) -> list[RunPart]:
    """Return the parts noted so far; a file that can't be read is set aside, as it only informs."""
    try:
        return read_origin(run)
    except ValueError as error:
        aside = run / f"{RUN_ORIGIN}.unreadable"
        (run / RUN_ORIGIN).replace(aside)
        logging.getLogger(__name__).warning("%s; moved to %s", error, aside.name)
        return []


def read_origin(run: Path) -> list[RunPart]:
    """The parts of a run, in order; none where that was never noted.

    Raises:
        ValueError: the file can't be read as one.
    """
    path = run / RUN_ORIGIN
    if not path.exists():
        return []
    names = [field.name for field in fields(RunPart)]
    try:
        parts = parse_json(read_regular(path, links=True))["parts"]
        return [_checked(RunPart(**{name: part[name] for name in names})) for part in parts]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} can't be used: {error!r}") from error


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
    """The model where the system tells it, else the family."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()
