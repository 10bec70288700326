"""Checkpoints: folders of safetensors and JSON (never pickle), of which a kill can't leave a half.

    checkpoints/step_000000163840/
        policy.safetensors     parameters and buffers (normalisation statistics) of the network
        optimizer.safetensors  moments of AdamW, "<index of the parameter>/<name>"
        trainer.safetensors    torch's generator, episode statistics
        environments.safetensors   only where they can save their state
        checkpoint.json        step counts, generators, spaces, options, and a SHA-256 of each file

Everything is written to a hidden folder, synced to the disk and renamed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
from torch import Tensor

from .files import sync_folder, write_synced

FORMAT = 1
_NAME = re.compile(r"step_(\d{12})")
_TEMPORARY = re.compile(r"\.(write|delete)_step_\d{12}")
_METADATA = "checkpoint.json"
_CHANGED = "it has changed since it was written (its SHA-256 differs)"

#: Groups of tensors by file name (without the ending).
Tensors = Mapping[str, Mapping[str, Tensor]]


class CheckpointError(ValueError):
    """A checkpoint can't be written, or can't be read: corrupt, foreign, or for another network."""


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that was read and found whole."""

    path: Path
    tensors: dict[str, dict[str, Tensor]]
    metadata: dict[str, Any]


def checkpoint_paths(folder: str | Path) -> list[Path]:
    """The complete checkpoints in the folder `checkpoints/` of a run, oldest first."""
    folder = Path(folder)
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if _NAME.fullmatch(path.name) and path.is_dir())


def step_of(path: str | Path) -> int:
    """The environment step that a checkpoint's name tells.

    Raises:
        CheckpointError: the name is not that of a checkpoint.
    """
    match = _NAME.fullmatch(Path(path).name)
    if match is None:
        raise CheckpointError(f"{path} is not named like a checkpoint (step_000000000000)")
    return int(match[1])


def write_checkpoint(
    folder: Path, step: int, tensors: Tensors, metadata: Mapping[str, Any], keep: int | None = None
) -> Path:
    """Write the checkpoint of `step` into `folder` and drop all but the newest `keep`.

    Raises:
        CheckpointError: the system refused, for instance because the disk is full; older checkpoints stay.
    """
    final = folder / f"step_{step:012d}"
    temporary = folder / f".write_{final.name}"
    try:
        clear_leftovers(folder)
        temporary.mkdir(parents=True)
        sums = {}
        for group, entries in tensors.items():
            content = safetensors.torch.save({name: entry.contiguous() for name, entry in entries.items()})
            sums[f"{group}.safetensors"] = hashlib.sha256(content).hexdigest()
            write_synced(temporary / f"{group}.safetensors", content)
        head = {"format": FORMAT, "step": step, **metadata, "sha256": sums}
        sums[_METADATA] = _own_sum(head)
        write_synced(temporary / _METADATA, json.dumps(head, indent=1).encode())
        sync_folder(temporary)
        if final.exists():
            delete_checkpoint(final)
        temporary.rename(final)
        sync_folder(folder)
        if keep is not None:
            for path in checkpoint_paths(folder)[:-keep]:
                delete_checkpoint(path)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise CheckpointError(f"could not write the checkpoint {final}: {error}") from error
    return final


def read_checkpoint(path: str | Path) -> Checkpoint:
    """Read a checkpoint folder and check that it is whole.

    Raises:
        CheckpointError: something is missing, corrupt or foreign; the message names the file and, where there
            is one, the previous checkpoint to use instead.
    """
    path = Path(path)
    try:
        return _read_whole(path)
    except CheckpointError as error:
        raise CheckpointError(f"{error}{_alternative(path)}") from error.__cause__


def clear_leftovers(folder: Path) -> None:
    """Delete what a kill left half written or half deleted."""
    if folder.is_dir():
        for path in folder.iterdir():
            if _TEMPORARY.fullmatch(path.name):
                shutil.rmtree(path)


def _read_whole(path: Path) -> Checkpoint:
    metadata = _read_metadata(path)
    tensors = {}
    sums = {name: value for name, value in metadata["sha256"].items() if name != _METADATA}
    for name, expected in sums.items():
        content = _read(path, name)
        if hashlib.sha256(content).hexdigest() != expected:
            raise _corrupt(path, name, _CHANGED)
        try:
            tensors[name.removesuffix(".safetensors")] = safetensors.torch.load(content)
        except (safetensors.SafetensorError, KeyError, ValueError) as error:
            raise _corrupt(path, name, f"it is no safetensors file ({error})") from error
    return Checkpoint(path, tensors, metadata)


def delete_checkpoint(path: Path) -> None:
    """Delete a checkpoint; renamed first: a kill in the middle leaves no folder that looks complete."""
    hidden = path.with_name(f".delete_{path.name}")
    os.rename(path, hidden)
    shutil.rmtree(hidden)


def _read_metadata(path: Path) -> dict[str, Any]:
    if not path.is_dir():
        raise CheckpointError(f"there is no checkpoint folder {path}")
    try:
        metadata = json.loads(_read(path, _METADATA))
    except ValueError as error:  # UnicodeDecodeError is one too
        raise _corrupt(path, _METADATA, f"it is no JSON ({error})") from error
    if not isinstance(metadata, dict) or not isinstance(metadata.get("sha256"), dict):
        raise _corrupt(path, _METADATA, "it was not written by Entitize")
    if metadata.get("format") != FORMAT:
        found = metadata.get("format")
        raise _corrupt(path, _METADATA, f"its format is {found!r}, this version reads {FORMAT}")
    if metadata["sha256"].get(_METADATA) != _own_sum(metadata):
        raise _corrupt(path, _METADATA, _CHANGED)
    return metadata


def _own_sum(metadata: Mapping[str, Any]) -> str:
    """SHA-256 of everything in the metadata but this sum itself."""
    sums = {name: value for name, value in metadata["sha256"].items() if name != _METADATA}
    return hashlib.sha256(json.dumps({**metadata, "sha256": sums}, sort_keys=True).encode()).hexdigest()


def _read(path: Path, name: str) -> bytes:
    try:
        return (path / name).read_bytes()
    except OSError as error:
        raise _corrupt(path, name, f"it can't be read ({error.strerror})") from error


def _corrupt(path: Path, name: str, reason: str) -> CheckpointError:
    return CheckpointError(f"checkpoint file {path / name} can't be used: {reason}")


def _alternative(path: Path) -> str:
    """Names the newest older checkpoint beside `path` whose files are all as they were written."""
    for other in reversed(checkpoint_paths(path.parent)):
        if other.name < path.name:
            try:
                _read_whole(other)
            except CheckpointError:
                continue
            return f"; the previous good checkpoint is {other} (delete the newer ones to go on from it)"
    return ""
