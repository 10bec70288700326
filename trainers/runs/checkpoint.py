"""Checkpoints: folders of safetensors and JSON (never pickle), of which a kill can't leave a half.

    checkpoints/step_000000163840/
        policy.safetensors     parameters and buffers (normalization statistics) of the network
        optimizer.safetensors  state of the optimizer, "<index of the parameter>/<name>"
        trainer.safetensors    torch's generator, statistics of episodes and rewards
        start.safetensors      the policy that PPO began with, where it stays near (`start_kl_coef`)
        best.safetensors       the best weights so far of behaviour cloning
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
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from weakref import WeakSet

import safetensors.torch
from torch import Tensor, contiguous_format

from ...envs import space_schema
from ...files import sync_folder, write_synced
from ...policies import (
    METADATA,
    CheckpointError,
    Policy,
    check_members,
    checkpoint_paths,
    space_read_by,
    step_of,
)
from ...policies.checkpoint import (
    DIFFERS,
    FORMAT,
    MAX_TENSORS,
    READS,
    StoredCheckpoint,
    edited,
    newest_checkpoint,
    own_sum,
    read_stored,
)
from ...policies.engines.plain_form import plain_difference

__all__ = [
    "Checkpoint",
    "CheckpointError",
    "checkpoint_paths",
    "clear_leftovers",
    "delete_checkpoint",
    "network_metadata",
    "read_checkpoint",
    "save_policy",
    "step_of",
    "write_checkpoint",
]

_TEMPORARY = re.compile(r"\.(write|delete)_step_\d{12}")

#: Policies of which a warning said that they were edited.
_warned: WeakSet[Policy] = WeakSet()

#: Groups of tensors by file name (without the ending).
Tensors = Mapping[str, Mapping[str, Tensor]]


class Checkpoint(StoredCheckpoint[Tensor]):
    """A checkpoint that was read and is complete."""


def write_checkpoint(
    folder: Path, step: int, tensors: Tensors, metadata: Mapping[str, Any], keep: int | None = None
) -> Path:
    """Write the checkpoint of `step` into `folder` and drop all but the newest `keep`.

    Raises:
        CheckpointError: the system refused, for instance because the disk is full, or a group has more
            tensors than `read_checkpoint` reads; older checkpoints stay.
    """
    final = folder / f"step_{step:012d}"
    with _writing(final):
        clear_leftovers(folder)
        _write(final, tensors, {"step": step, **metadata})
        if keep is not None:
            for path in checkpoint_paths(folder)[:-keep]:
                delete_checkpoint(path)
    return final


def save_policy(policy: Policy, path: str | Path) -> Path:
    """Write a policy to the folder `path`, to be read by `load_policy(path)` and `load_agent(path)`.

        ez.save_policy(policy, "policies/best")

    It holds weights, input statistics, options and spaces as safetensors and JSON: the network alone, with
    which training can begin (`init_from`), but not go on as a resumed run does.

    Args:
        policy: a RogueNet or one of `ez.baselines`.
        path: a new or empty folder, or one of an earlier `save_policy`, which is replaced.

    Returns:
        the absolute path.

    Raises:
        TypeError: `policy` or `path` is something else, or `torch.compile` made the policy.
        CheckpointError: `path` is something else already, or the system refused to write; what was there
            stays.
    """
    check_members("save_policy", policy)
    if not isinstance(path, str | os.PathLike) or path == "":
        raise TypeError(f"save_policy: path: expected the path of a folder, got {path!r}")
    path = Path(path).resolve()  # what a link leads to is replaced, and the link stays
    tensors = {"policy": {name: tensor.cpu() for name, tensor in policy.state_dict().items()}}
    _warned.discard(policy)
    metadata = network_metadata(policy)
    with _writing(path):
        files = {file.name for file in path.iterdir()} if path.is_dir() else set()
        if path.exists() and (not path.is_dir() or files not in (set(), {METADATA, "policy.safetensors"})):
            raise CheckpointError(f"save_policy: {path}: expected a new folder or that of a saved policy")
        _write(path, tensors, {"step": 0, **metadata})
    return path


@contextmanager
def _writing(final: Path) -> Iterator[None]:
    """Turn errors of the system into a `CheckpointError`, and leave no half of `final`."""
    try:
        yield
    except OSError as error:
        shutil.rmtree(_temporary(final), ignore_errors=True)
        raise CheckpointError(f"could not write the checkpoint {final}: {error}") from error


def _temporary(final: Path) -> Path:
    return final.with_name(f".write_{final.name}")


def _write(final: Path, tensors: Tensors, metadata: Mapping[str, Any]) -> None:
    """Write the folder `final`, replacing an earlier one by two renames."""
    for group, entries in tensors.items():
        if len(entries) > MAX_TENSORS:
            raise CheckpointError(
                f"could not write the checkpoint {final}: {group}:"
                f" expected at most {MAX_TENSORS} tensors, got {len(entries)}"
            )
    temporary = _temporary(final)
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    sums = {}
    for group, entries in tensors.items():
        # Copies, because the format refuses tensors that share memory, as tied weights do.
        copies = {name: entry.clone(memory_format=contiguous_format) for name, entry in entries.items()}
        content = safetensors.torch.save(copies)
        sums[f"{group}.safetensors"] = hashlib.sha256(content).hexdigest()
        write_synced(temporary / f"{group}.safetensors", content)
    head = {"format": FORMAT, **metadata, "sha256": sums}
    sums[METADATA] = own_sum(head)
    write_synced(temporary / METADATA, json.dumps(head, indent=1).encode())
    sync_folder(temporary)
    earlier = final.with_name(f".delete_{final.name}")
    shutil.rmtree(earlier, ignore_errors=True)  # of an interrupted call
    if final.exists():
        final.rename(earlier)
    try:
        temporary.rename(final)
    except BaseException:
        if earlier.exists():
            earlier.rename(final)
        raise
    shutil.rmtree(earlier, ignore_errors=True)
    sync_folder(final.parent)


def read_checkpoint(path: str | Path) -> Checkpoint:
    """Read a checkpoint folder, or the newest one of a run folder, and check that it is complete.

    Raises:
        TypeError: `path` is no path.
        CheckpointError: there is none, or something is missing, corrupt or foreign; the message names the
            file and, where there is one, the previous checkpoint to use instead.
    """
    stored = read_stored(newest_checkpoint(path), safetensors.torch.load)
    return Checkpoint(stored.path, stored.tensors, stored.metadata)


def network_metadata(policy: Policy) -> dict[str, Any]:
    """Return the metadata of a checkpoint from which `load_policy` builds the network.

    It says where the network acts otherwise than the one that will be built, and so does a warning, once.

    Raises:
        TypeError: `torch.compile` made the policy.
    """
    if hasattr(policy, "_orig_mod"):
        raise TypeError(
            f"policy: a {type(policy).__name__} can't be saved: expected a network, got what torch.compile"
            " made of one. Use the network itself, which runs outside of compiled graphs anyway"
        )
    saved: dict[str, Any] = {"class": type(policy).__name__, "config": policy.config}
    differing = plain_difference(policy)
    if differing is not None:
        saved[DIFFERS] = differing
        if policy not in _warned:
            _warned.add(policy)
            warnings.warn(f"saved RogueNet: {edited(differing)}", UserWarning, stacklevel=3)
    metadata = {"spaces": space_schema(policy.observation_space), "policy": saved}
    reads = space_read_by(policy)
    if hasattr(policy, "adapt_to") and reads != policy.observation_space:
        metadata[READS] = space_schema(reads)
    return metadata


def clear_leftovers(folder: Path) -> None:
    """Delete what an interrupted write or deletion left behind."""
    if folder.is_dir():
        for path in folder.iterdir():
            if _TEMPORARY.fullmatch(path.name):
                shutil.rmtree(path)


def delete_checkpoint(path: Path) -> None:
    """Delete a checkpoint. It is renamed first: an interrupted deletion leaves no complete-looking folder."""
    hidden = path.with_name(f".delete_{path.name}")
    os.rename(path, hidden)
    shutil.rmtree(hidden)
