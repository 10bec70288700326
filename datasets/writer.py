"""`DatasetWriter`: puts steps into the files of a dataset, a part at a time."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..envs import EntityBatchBuffer, EntitySpace, space_schema
from ..envs.errors import whole_number
from ..files import parse_json, replace_file
from ..ragged import RaggedArray, RaggedBuffer
from .steps import DTYPES, NUMBERS, Steps, arrow_schema, not_finite, to_arrow

#: Of the files: raised whenever a reader of the former version could not read them.
FORMAT_VERSION = 1
MANIFEST = "dataset.json"
#: Of the metadata: the game that each lane plays in, where several play one.
LANE_GAMES = "lane_games"
#: Keys of the manifest that the Arrow files do not repeat.
OF_THE_FILES = frozenset({"parts", "sha256"})
#: Keys that the manifest has itself.
_TAKEN = OF_THE_FILES | {"format", "version", "spaces"}


def manifest_sum(manifest: Mapping[str, Any]) -> str:
    """Return the SHA-256 of everything in a manifest but this sum itself."""
    content = {name: value for name, value in manifest.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


class DatasetWriter:
    """Writes a dataset: a folder of Arrow files and `dataset.json`, which lists them with their checksums.

    Steps are collected in memory and written in parts. A part that is listed is whole: a kill loses what came
    after the last part.

    Args:
        path: a folder that is new or empty.
        space: the observation space of the steps.
        metadata: JSON-able facts about the recording, for readers ("env", "seed", "policy", …).
        steps_per_part: a file is written once this many steps are collected, or 256 MiB; it holds all
            steps of the `append` that reached it.

    Raises:
        FileExistsError: the folder holds something.
        ValueError: `steps_per_part` is not positive, the action space can't be stored, or `metadata` has a
            key that the manifest has itself: "format", "version", "spaces", "parts" or "sha256".
        TypeError: `metadata` holds what JSON does not.
    """

    PART_BYTES = 256 * 2**20

    def __init__(
        self,
        path: str | Path,
        space: EntitySpace,
        metadata: Mapping[str, Any] | None = None,
        steps_per_part: int = 65_536,
    ) -> None:
        whole_number("steps_per_part", steps_per_part)
        if taken := sorted(_TAKEN & (metadata or {}).keys()):
            raise ValueError(f"metadata: expected other keys than the manifest's, got {', '.join(taken)}")
        try:
            metadata = parse_json(json.dumps(metadata))  # as readers will see it
        except (TypeError, ValueError) as error:
            raise TypeError(f"metadata: expected what JSON can hold: {error}") from None
        self.path = Path(path)
        if self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
            raise FileExistsError(f"{self.path}: expected a new or empty folder for the dataset")
        self.space = space
        self.steps_per_part = steps_per_part
        self.metadata = {
            **(metadata or {}),
            "format": "entitize dataset",
            "version": FORMAT_VERSION,
            "spaces": space_schema(space),
        }
        self._schema = arrow_schema(space, self.metadata)
        self._parts: list[dict[str, Any]] = []
        self._complete = 0  # collected steps of which every column has its share
        self._is_torn = False  # the columns hold more: an interrupt cut an `append` or a `flush` short
        self._observations = EntityBatchBuffer(space)
        self._actions = {
            name: RaggedBuffer(action.item_shape, action.dtype) for name, action in space.actions.items()
        }
        self._numbers: dict[str, list[NDArray[Any]]] = {name: [] for name in NUMBERS}
        self._infos: list[str | None] = []
        self.path.mkdir(parents=True, exist_ok=True)
        self._write_manifest([])

    def __len__(self) -> int:
        """Return how many steps were appended, written or not."""
        return sum(part["steps"] for part in self._parts) + self._complete

    def append(self, steps: Steps, infos: Sequence[str | None] | None = None) -> None:
        """Add `steps`, with a JSON text (or None) for each as its info.

        Raises:
            ValueError: the steps are not of the space, parts differ in length, a number is not finite or
                not of its column's type, or an info is no text; nothing was added.
        """
        infos = [None] * len(steps) if infos is None else list(infos)
        self._check_lengths(steps, infos)
        steps = Steps(steps.observations, steps.actions, **_copied_numbers(steps))
        if problem := not_finite(steps):
            raise ValueError(f"DatasetWriter: {problem}")
        if self._is_torn:
            self.flush()
        self._is_torn = True
        try:
            self._observations.append(steps.observations)
        except ValueError:
            self._is_torn = False
            raise
        for name, buffer in self._actions.items():
            buffer.append(steps.actions[name])
        for name, column in self._numbers.items():
            column.append(getattr(steps, name))
        self._infos += infos
        self._complete, self._is_torn = self._complete + len(steps), False
        if self._complete >= self.steps_per_part or self._num_bytes() >= self.PART_BYTES:
            self.flush()

    def _check_lengths(self, steps: Steps, infos: list[str | None]) -> None:
        """Check all but the observations of `steps`, whose buffer checks them."""
        count = len(steps.observations)
        if steps.actions.keys() != self._actions.keys():
            expected, got = sorted(self._actions), sorted(steps.actions)
            raise ValueError(f"DatasetWriter: actions: expected {expected}, got {got}")
        for name, buffer in self._actions.items():
            chosen = steps.actions[name]
            wanted = count, buffer.dtype, buffer.inner_shape
            if (len(chosen), chosen.dtype, chosen.inner_shape) != wanted:
                raise ValueError(
                    f"DatasetWriter: action {name!r}: expected choices of {count} steps, {buffer.dtype}"
                    f" {buffer.inner_shape}, got {len(chosen)} steps, {chosen.dtype} {chosen.inner_shape}"
                )
        lengths = {name: len(column) for name, column in steps.numbers().items()} | {"infos": len(infos)}
        for name, length in lengths.items():
            if length != count:
                raise ValueError(f"DatasetWriter: {name}: expected {count} (one per step), got {length}")
        for info in infos:  # a part with another one could never be written
            if info is not None and not _is_text(info):
                raise ValueError(f"DatasetWriter: infos: expected JSON texts or None, got {info!r:.100}")

    def flush(self) -> None:
        """Write what was collected as a part."""
        if self._complete:
            parts = [*self._parts, self._write_part(self._complete)]
            self._write_manifest(parts)
            # No interrupt comes between these: it would have the same steps written again.
            self._parts, self._complete, self._is_torn = parts, 0, True
        self._observations.clear()
        for buffer in self._actions.values():
            buffer.clear()
        self._numbers = {name: [] for name in NUMBERS}
        self._infos = []
        self._is_torn = False

    def _write_part(self, count: int) -> dict[str, Any]:
        """Write the first `count` collected steps and return what the manifest says of the file."""
        steps = Steps(
            self._observations.batch()[:count],
            {name: buffer.array()[:count] for name, buffer in self._actions.items()},
            **{name: np.concatenate(column)[:count] for name, column in self._numbers.items()},
        )
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, self._schema) as file:
            file.write_batch(to_arrow(steps, self._infos[:count], self._schema))
        content = sink.getvalue().to_pybytes()
        name = f"part-{len(self._parts):06d}.arrow"
        replace_file(self.path / name, content)
        digest = hashlib.sha256(content).hexdigest()
        return {"file": name, "steps": count, "bytes": len(content), "sha256": digest}

    def close(self) -> None:
        """Write the last part."""
        self.flush()

    def discard_empty(self) -> None:
        """Delete the manifest, and the folder if it is empty then, unless a step was appended."""
        if not len(self):
            (self.path / MANIFEST).unlink(missing_ok=True)
            with suppress(OSError):
                self.path.rmdir()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _num_bytes(self) -> int:
        arrays = self._observations.batch().arrays().values()
        return sum(a.values.nbytes if isinstance(a, RaggedArray) else a.nbytes for a in arrays)

    def _write_manifest(self, parts: list[dict[str, Any]]) -> None:
        # As JSON reads it back: keys that are numbers become texts, which are sorted otherwise.
        manifest = json.loads(json.dumps({**self.metadata, "parts": parts}))
        manifest["sha256"] = manifest_sum(manifest)
        replace_file(self.path / MANIFEST, json.dumps(manifest, indent=1).encode())


def _is_text(info: Any) -> bool:
    """Return True if `info` is a text that a file can hold: half of a surrogate pair has no UTF-8."""
    if not isinstance(info, str):
        return False
    try:
        return info.isascii() or bool(info.encode())
    except UnicodeEncodeError:
        return False


def _copied_numbers(steps: Steps) -> dict[str, NDArray[Any]]:
    """Return the columns with one number per step, copied into the types of the files.

    Raises:
        ValueError: a column holds something else, or numbers that its type can't hold.
    """
    copies = {}
    for name, column in steps.numbers().items():
        given, dtype = np.asarray(column), DTYPES[name]
        if given.dtype == dtype and given.ndim == 1:
            copies[name] = given.copy()
            continue
        where = f"DatasetWriter: column {name!r}: expected {dtype} numbers of shape ({len(steps)},)"
        if given.dtype.kind not in "biuf" or given.ndim != 1:
            raise ValueError(f"{where}, got {given.dtype} of shape {given.shape}")
        with np.errstate(all="ignore"):
            copy = copies[name] = given.astype(dtype)
        lost = np.isinf(copy) & np.isfinite(given) if dtype.kind == "f" else copy != given
        if lost.any():
            raise ValueError(f"{where}, got {given[lost][0]}")
    return copies
