"""Reading checkpoints as arrays or tensors; `trainers.runs.checkpoint` writes them.

step_000000163840/
    policy.safetensors     parameters and buffers of the network
    ….safetensors          what only the trainer needs
    checkpoint.json        spaces, options of the network, a SHA-256 of each file, …
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import safetensors
from numpy.typing import NDArray

from ..envs import EntitySpace
from ..envs.spaces.space_schema import space_from_schema
from ..files import parse_json, read_regular

FORMAT = 1
METADATA = "checkpoint.json"
#: The configuration of a run, in its folder.
RUN_CONFIG = "config.yaml"
_ENDING = ".safetensors"
#: Statistics of inputs (`InputNorm`).
_NOT_NEGATIVE = (".count", ".squares_sum")
_LARGEST = float(np.finfo(np.float32).max)
#: The names that a list of hashes may have: those of files in the checkpoint's own folder.
_FILE = re.compile(r"\w{1,64}\.safetensors", re.ASCII)
_NAME = re.compile(r"step_(\d{12})")
#: A file with more tensors is refused, and not written: reading one takes 50 µs, however small.
MAX_TENSORS = 10_000
#: Bytes of a table.
MAX_TABLE = 8 * 2**20
#: Key of a network's metadata: where it acts otherwise than the plain RogueNet of its options and weights.
DIFFERS = "differs"
#: Key of the spaces that it reads, where they have more types or features than those that it knows.
READS = "reads"
_CHANGED = "it has changed since it was written (its SHA-256 differs)"


class Shaped(Protocol):
    """An array of NumPy or a tensor of torch."""

    @property
    def shape(self) -> Any: ...


T = TypeVar("T", bound=Shaped)
R = TypeVar("R")


class CheckpointError(ValueError):
    """A checkpoint can't be written, or can't be read: corrupt, foreign, or for another network."""


@dataclass(frozen=True)
class StoredCheckpoint(Generic[T]):
    """A checkpoint that was read and found whole."""

    path: Path
    tensors: dict[str, dict[str, T]]  # by file name (without the ending), then by name
    metadata: dict[str, Any]


def checkpoint_paths(folder: str | Path) -> list[Path]:
    """The complete checkpoints in the folder `checkpoints/` of a run, oldest first; links are none."""
    folder = Path(folder)
    if not folder.is_dir():
        return []
    return sorted(
        path
        for path in folder.iterdir()
        if _NAME.fullmatch(path.name) and path.is_dir() and not path.is_symlink()
    )


def newest_checkpoint(path: str | Path) -> Path:
    """The newest checkpoint of a run folder; any other path as it is.

    Raises:
        TypeError: `path` is no path.
        CheckpointError: the run has none.
    """
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path: expected the path of a run folder or of a checkpoint, got {path!r}")
    path = Path(path)
    if not (path / "checkpoints").is_dir() and not (path / RUN_CONFIG).is_file():
        return path
    if (path / METADATA).is_file():
        return path  # of a card, which has a configuration, too
    paths = checkpoint_paths(path / "checkpoints")
    if not paths:
        raise CheckpointError(f"run {path} has written no checkpoint yet")
    return paths[-1]


def step_of(path: str | Path) -> int:
    """Return the environment step in a checkpoint's name.

    Raises:
        CheckpointError: the name is not that of a checkpoint.
    """
    match = _NAME.fullmatch(Path(path).name)
    if match is None:
        raise CheckpointError(f"checkpoint: expected a name such as step_000000000000, got {path}")
    return int(match[1])


def read_stored(
    path: str | Path, decode: Callable[[bytes], dict[str, T]], only: str | None = None
) -> StoredCheckpoint[T]:
    """Read a checkpoint folder and check that it is whole.

    Args:
        decode: makes arrays or tensors of the content of a safetensors file.
        only: read and check this one of its files (without the ending); None: all.

    Raises:
        CheckpointError: something is missing, corrupt or foreign; the message names the file and, where there
            is one, the previous checkpoint to use instead.
    """
    return _read_or_suggest(Path(path), lambda folder: _read_whole(folder, decode, only))


def read_metadata(path: str | Path) -> dict[str, Any]:
    """Read the metadata of a checkpoint folder; its other files are not opened.

    Raises:
        CheckpointError: as `read_stored`.
    """
    return _read_or_suggest(Path(path), _read_metadata)


def check_weights(
    expected: Mapping[str, Any], checkpoint: StoredCheckpoint[T], group: str = "policy"
) -> None:
    """Check that a network's weights are in a checkpoint.

    Args:
        expected: by name a tensor, or a shape.
        group: the file of the weights, without its ending.

    Raises:
        CheckpointError: the checkpoint's weights don't have the names and shapes of `expected`, or hold
            numbers that no network has: NaN, infinities, negative sums of squares.
    """
    found = stored_weights(checkpoint, group)
    for name in [*expected, *(n for n in found if n not in expected)]:
        here, there = (_shape(side[name]) if name in side else "absent" for side in (expected, found))
        if here != there:
            raise CheckpointError(
                f"checkpoint {checkpoint.path} is of another network: {name}: expected {here}, got {there}"
            )
    for name, tensor in found.items():
        problem = _number_problem(name, _as_array(tensor))
        if problem:
            raise _corrupt(checkpoint.path, f"{group}{_ENDING}", f"{name}: {problem}")


def edited_network(metadata: Mapping[str, Any]) -> str | None:
    """Return the text for a checkpoint whose metadata say that its RogueNet was edited; None: it was not."""
    found = metadata["policy"].get(DIFFERS)
    return None if found is None else edited(str(found)[:200])


def edited(differing: str) -> str:
    """Return the text of errors and warnings; `differing` names what is of another value in acting."""
    return (
        f"the network acts otherwise than its options say: {differing}: expected a RogueNet as the library"
        " makes it, got one with edited modules, of which files hold options and weights alone. Make it a"
        " subclass (docs/own-training.md)"
    )


def network_spaces(metadata: Mapping[str, Any]) -> tuple[EntitySpace, EntitySpace]:
    """Return the space that a stored network knows, and the space that it reads (see `RogueNet.adapt_to`).

    Raises:
        KeyError, TypeError, ValueError: the metadata does not describe them.
    """
    spaces = metadata["spaces"]
    same = {"actions": spaces["actions"], "frame": spaces.get("frame")}
    read = {**metadata.get(READS, spaces), **same}
    return space_from_schema(spaces), space_from_schema(read)


def stored_weights(checkpoint: StoredCheckpoint[T], group: str = "policy") -> dict[str, T]:
    """Return the weights of a network in a checkpoint, by default of the policy.

    Raises:
        CheckpointError: it has none.
    """
    if group not in checkpoint.tensors:
        raise _corrupt(
            checkpoint.path, f"{group}{_ENDING}", f"{METADATA} does not list it: expected a network"
        )
    return checkpoint.tensors[group]


def _as_array(tensor: Any) -> NDArray[Any]:
    try:
        return np.asarray(tensor)
    except TypeError:  # a dtype that only torch has, such as bfloat16
        return np.asarray(tensor.double())


def _number_problem(name: str, numbers: NDArray[Any]) -> str | None:
    """Return what is wrong with the numbers of a stored weight, or None."""
    if not numbers.size:
        return None
    if numbers.dtype.kind not in "fiub":
        return f"expected real numbers, got {numbers.dtype}"
    if numbers.dtype.kind == "f" and not abs(numbers).max() <= _LARGEST:  # NaN fails too
        bad = numbers[~(abs(numbers) <= _LARGEST)][0]
        return f"expected finite numbers, got {bad}"
    if name.endswith(_NOT_NEGATIVE) and numbers.min() < 0:
        return f"expected no number below 0, got {numbers.min()}"
    return None


def _shape(given: Any) -> tuple[int, ...]:
    return tuple(getattr(given, "shape", given))


#: What code raises that meets other types, sizes or names than it was written for.
MALFORMED = (
    *(ArithmeticError, AttributeError, LookupError, TypeError, ValueError),
    *(MemoryError, RuntimeError),  # RuntimeError: also RecursionError, and what torch raises
)


def in_short(error: BaseException) -> str:
    """Return the type and the beginning of the text of an error that quotes a file."""
    text = str(error)
    return f"{type(error).__name__}: {text[:300]}{'…' if len(text) > 300 else ''}"


@contextmanager
def malformed_means(problem: str) -> Iterator[None]:
    """Raise `CheckpointError` with `problem` and the cause where code that reads malformed content fails."""
    try:
        yield
    except CheckpointError:
        raise
    except MALFORMED as error:
        raise CheckpointError(f"{problem}: {in_short(error)}") from error


def own_sum(metadata: Mapping[str, Any]) -> str:
    """SHA-256 of everything in the metadata but this sum itself."""
    sums = {name: value for name, value in metadata["sha256"].items() if name != METADATA}
    return hashlib.sha256(json.dumps({**metadata, "sha256": sums}, sort_keys=True).encode()).hexdigest()


def _read_whole(path: Path, decode: Callable[[bytes], dict[str, T]], only: str | None) -> StoredCheckpoint[T]:
    metadata = _read_metadata(path)
    tensors = {}
    for name, expected in metadata["sha256"].items():
        group = name.removesuffix(_ENDING)
        if name == METADATA or only not in (None, group):
            continue
        content = _read(path, name)
        if hashlib.sha256(content).hexdigest() != expected:
            raise _corrupt(path, name, _CHANGED)
        try:
            _check_tensor_count(content)
            # In order of names: the reader's own order is random, and errors name the first that differs.
            tensors[group] = dict(sorted(decode(content).items()))
        except (*MALFORMED, safetensors.SafetensorError) as error:
            raise _corrupt(path, name, f"it is no safetensors file ({in_short(error)})") from error
    return StoredCheckpoint(path, tensors, metadata)


def _check_tensor_count(content: bytes) -> None:
    """Check the table of a safetensors file, before anything is made of it.

    Raises:
        ValueError: there is no table, or it has more than `MAX_TENSORS` tensors.
    """
    length = int.from_bytes(content[:8], "little")
    if len(content) < 8 or length > len(content) - 8:
        raise ValueError(f"table of tensors: expected {length} bytes, got {max(len(content) - 8, 0)}")
    if length > MAX_TABLE:
        raise ValueError(f"table of tensors: expected at most {MAX_TABLE} bytes, got {length}")
    table = parse_json(content[8 : 8 + length])
    if not isinstance(table, dict):
        raise ValueError(f"table of tensors: expected a JSON object, got {type(table).__name__}")
    if len(table) > MAX_TENSORS:
        raise ValueError(f"expected at most {MAX_TENSORS} tensors, got {len(table)}")


def _read_metadata(path: Path) -> dict[str, Any]:
    if not path.is_dir():
        raise CheckpointError(f"checkpoint {path}: expected a folder, got no checkpoint")
    if not (path / METADATA).exists():
        raise CheckpointError(f"checkpoint {path}: expected a folder with {METADATA}, got one without")
    content = _read(path, METADATA)
    try:
        metadata = parse_json(content)
    except ValueError as error:  # UnicodeDecodeError is one too
        raise _corrupt(path, METADATA, f"it is no JSON ({in_short(error)})") from error
    if not isinstance(metadata, dict) or not isinstance(metadata.get("sha256"), dict):
        raise _corrupt(path, METADATA, "expected metadata of Entitize, got another content")
    if metadata.get("format") != FORMAT:
        found = metadata.get("format")
        raise _corrupt(path, METADATA, f"format: expected {FORMAT}, got {found!r:.50}")
    for name in metadata["sha256"]:
        if name != METADATA and not _FILE.fullmatch(name):
            wanted = "expected names such as 'policy.safetensors'"
            raise _corrupt(path, METADATA, f"sha256: a file of this folder: {wanted}, got {name!r:.100}")
    if metadata["sha256"].get(METADATA) != own_sum(metadata):
        raise _corrupt(path, METADATA, _CHANGED)
    return metadata


def _read(path: Path, name: str) -> bytes:
    try:
        return read_regular(path / name)
    except OSError as error:
        raise _corrupt(path, name, f"it can't be read ({error.strerror})") from error


def _corrupt(path: Path, name: str, reason: str) -> CheckpointError:
    return CheckpointError(f"checkpoint file {path / name} can't be used: {reason}")


def _read_or_suggest(path: Path, read: Callable[[Path], R]) -> R:
    """Read `path`; the error of one that can't be read also names an older checkpoint that can be."""
    try:
        return read(path)
    except CheckpointError as error:
        raise CheckpointError(f"{error}{_alternative(path, read)}") from error.__cause__


def _alternative(path: Path, read: Callable[[Path], Any]) -> str:
    """Name the newest older checkpoint beside `path` that can be read; if `path` is missing, the newest. If
    `path` is a folder of checkpoints, name the newest in it.
    """
    if inside := checkpoint_paths(path):
        return f"; the newest in it is {inside[-1].name}"
    others = checkpoint_paths(path.parent)
    if not path.exists():
        return f"; the newest there is {others[-1].name}" if others else ""
    for other in reversed(others):
        if other.name < path.name:
            try:
                read(other)
            except CheckpointError:
                continue
            return f"; the previous good checkpoint is {other} (delete the newer ones to resume from it)"
    return ""
