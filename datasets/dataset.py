"""`EntityDataset`: recorded steps, read from disk as they are asked for."""

from __future__ import annotations

import ctypes
import hashlib
import json
import mmap
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from ..envs import EntitySpace, concatenate_batches, schema_difference, space_from_schema, space_schema
from ..files import parse_json, read_regular
from ..ragged import concatenate
from .errors import DatasetError
from .lane_games import number_games, read_lane_games
from .steps import NUMBERS, Steps, arrow_schema, from_arrow, not_finite
from .writer import FORMAT_VERSION, MANIFEST, OF_THE_FILES, manifest_sum


@dataclass(frozen=True, eq=False)
class Episode:
    """One recorded episode."""

    number: int  # within the dataset
    lane: int
    # The rows of the dataset, in the order of time, with the final one where there is one.
    rows: NDArray[np.int64] = field(repr=False)
    total_reward: float
    is_complete: bool  # False: the recording left out some of its steps


class EntityDataset:
    """The recorded steps of folders that a `DatasetWriter` wrote, one after another.

        dataset = ez.datasets.EntityDataset("plays")
        steps = dataset.gather(rng.choice(dataset.decisions, 2048))

    Files are mapped into memory: only what is asked for is read from disk, once they have been verified.

    Args:
        path: the folder.
        more: further folders with the same spaces, and the same view where they name one. Their episodes
            are numbered on.
        verify: compare each file with its checksum and every column with its space. This reads all files
            once. Leave it out only for files whose source you trust: a damaged one then gives wrong steps, or
            ends the process.

    Attributes:
        paths: all folders; `path` is the first.
        sums: the SHA-256 of each file, by which two datasets can be told apart.
        space: the observation space; `space.actions` is the action space.
        metadata: what the first recording says about itself ("env", "seed", "policy", …).

    Raises:
        TypeError: a folder is no path.
        DatasetError: a folder holds no dataset, one of another version, of other spaces or of another view,
            or one that is damaged.
    """

    def __init__(self, path: str | Path, *more: str | Path, verify: bool = True) -> None:
        for folder in (path, *more):
            if not isinstance(folder, str | Path):
                raise TypeError(f"EntityDataset: expected folders, one by one, got {folder!r}")
        self.paths = [Path(folder) for folder in (path, *more)]
        self.path = self.paths[0]
        recordings = [_Recording(folder, verify) for folder in self.paths]
        self.metadata: dict[str, Any] = recordings[0].metadata
        self.space = recordings[0].space
        self.sums = [digest for recording in recordings for digest in recording.sums]
        for recording in recordings[1:]:
            self.check_space(recording.space, f"recording {recording.path}")
        _check_views(recordings)
        self._mappings = [mapping for recording in recordings for mapping in recording.mappings]
        self._parts = [part for recording in recordings for part in recording.parts]
        self._first_rows = np.cumsum([0, *map(len, self._parts)])
        firsts = np.cumsum([0, *(recording.num_episodes for recording in recordings[:-1])])
        sizes = (sum(map(len, recording.parts)) for recording in recordings)
        self._first_rows_of_recordings = np.cumsum([0, *sizes])
        self._tables = [recording.lane_games for recording in recordings]
        #: What is added to the numbers of episodes of each part.
        self._first_episodes = np.repeat(firsts, [len(recording.parts) for recording in recordings])
        self._steps: dict[int, Steps] = {}

    def __len__(self) -> int:
        """Return the number of recorded steps, the last observations of episodes included."""
        return int(self._first_rows[-1])

    def __repr__(self) -> str:
        return f"EntityDataset({str(self.path)!r}, {len(self):,} steps, {self.space!r})"

    # -- steps ----------------------------------------------------------------------------------------------

    def gather(self, rows: ArrayLike) -> Steps:
        """Return the steps at `rows` (K,) int, in that order, as copies.

        Raises:
            IndexError: a row outside [0, len(dataset)), or no whole number.
        """
        rows = self._checked(rows)
        places = np.searchsorted(self._first_rows, rows, side="right") - 1
        order = np.argsort(places, kind="stable")
        touched, firsts = np.unique(places[order], return_index=True)
        if not len(touched):
            return self._nothing()
        pieces = [
            self.part(place).gather(inside - self._first_rows[place])
            for place, inside in zip(touched.tolist(), np.split(rows[order], firsts[1:]), strict=True)
        ]
        back = np.empty(len(rows), np.int64)
        back[order] = np.arange(len(rows))
        return pieces[0].gather(back) if len(pieces) == 1 else _joined(pieces).gather(back)

    def part(self, index: int) -> Steps:
        """Return the steps of file `index` as read-only views of the file.

        Raises:
            IndexError: there is no such file.
        """
        if index not in self._steps:
            steps = from_arrow(self._parts[index], self.space, check=False)
            first = self._first_episodes[index]
            self._steps[index] = replace(steps, episode=steps.episode + first) if first else steps
        return self._steps[index]

    @property
    def num_parts(self) -> int:
        """The number of files."""
        return len(self._parts)

    def __iter__(self) -> Iterator[Steps]:
        """Return the steps file by file, as read-only views."""
        for index, mapping in enumerate(self._mappings):
            _advise(mapping, "MADV_WILLNEED")
            yield self.part(index)

    def infos(self, rows: ArrayLike) -> list[dict[str, Any]]:
        """Return the info of each of `rows` (K,); an empty dict where none was recorded.

        Raises:
            IndexError: a row outside [0, len(dataset)).
        """
        infos = []
        for row in self._checked(rows).tolist():
            place = int(np.searchsorted(self._first_rows, row, side="right")) - 1
            text = self._parts[place].column("info")[row - int(self._first_rows[place])].as_py()
            infos.append({} if text is None else json.loads(text))
        return infos

    # -- the whole ------------------------------------------------------------------------------------------

    def column(self, name: str) -> NDArray[Any]:
        """Return a column with one number per step, whole: "reward", "terminated", "lane", … (N,).

        Raises:
            KeyError: there is no such column.
        """
        if name not in NUMBERS:
            raise KeyError(f"no column {name!r}; expected one of {', '.join(NUMBERS)}")
        columns = [part.column(name).to_numpy(zero_copy_only=False) for part in self._parts]
        if name == "episode":
            columns = [column + first for column, first in zip(columns, self._first_episodes, strict=True)]
        return np.concatenate(columns) if columns else np.zeros(0, NUMBERS[name].to_pandas_dtype())

    @cached_property
    def decisions(self) -> NDArray[np.int64]:
        """The rows at which actions were chosen: neither final nor inactive."""
        return np.flatnonzero(~(self.column("final") | self.column("inactive")).astype(bool))

    @cached_property
    def episodes(self) -> list[Episode]:
        """All episodes with a decision, in the order in which they began."""
        numbers, rewards = self.column("episode"), self.column("reward")
        ended = (self.column("terminated") | self.column("truncated")).astype(bool)
        steps, lanes = self.column("step"), self.column("lane")
        has_decision = np.isin(np.arange(len(self)), self.decisions)
        order = np.argsort(numbers, kind="stable")
        cuts = np.flatnonzero(np.diff(numbers[order])) + 1
        return [
            Episode(
                int(numbers[rows[0]]),
                int(lanes[rows[0]]),
                rows,
                float(rewards[rows].sum(dtype=np.float64)),
                bool(ended[rows].any() and np.array_equal(steps[rows], np.arange(len(rows)))),
            )
            for rows in (np.split(order, cuts) if len(order) else [])
            if has_decision[rows].any()
        ]

    @cached_property
    def games(self) -> NDArray[np.int64]:
        """The number of the game of each row (N,): episodes of lanes that play one game together share it.

        Recordings of version 0.1 do not say which lanes do: each episode is a game.
        """
        recordings = np.repeat(np.arange(len(self._tables)), np.diff(self._first_rows_of_recordings))
        is_final = self.column("final").astype(bool)
        is_active = ~(is_final | self.column("inactive").astype(bool))
        episodes, lanes = self.column("episode"), self.column("lane")
        return number_games(episodes, lanes, recordings, is_final, is_active, self._tables)

    def check_space(self, space: EntitySpace, whose: str) -> None:
        """Compare the recorded space with that of `whose` ("policy", "environment").

        Raises:
            DatasetError: they differ; says where.
        """
        difference = schema_difference(space_schema(self.space), space_schema(space))
        if difference is not None:
            raise DatasetError(f"{self.path}: recorded with other spaces than the {whose} has: {difference}")

    def _checked(self, rows: ArrayLike) -> NDArray[np.int64]:
        rows = np.asarray(rows)
        if rows.ndim != 1:
            raise IndexError(f"{self.path}: expected a list of rows, got an array of shape {rows.shape}")
        if rows.size and rows.dtype.kind not in "iu":
            raise IndexError(f"{self.path}: expected rows as whole numbers, got {rows.dtype}")
        if rows.size and not 0 <= rows.min() <= rows.max() < len(self):
            got = f"{rows.min()} to {rows.max()}"
            raise IndexError(f"{self.path}: expected rows from 0 to {len(self) - 1}, got {got}")
        return rows.astype(np.int64, copy=False)

    def _nothing(self) -> Steps:
        schema = arrow_schema(self.space, {})
        return from_arrow(pa.RecordBatch.from_pylist([], schema=schema), self.space)


def _joined(pieces: list[Steps]) -> Steps:
    return Steps(
        concatenate_batches([piece.observations for piece in pieces]),
        {name: concatenate([piece.actions[name] for piece in pieces]) for name in pieces[0].actions},
        **{name: np.concatenate([getattr(piece, name) for piece in pieces]) for name in NUMBERS},
    )


class _Recording:
    """The files of one folder, opened."""

    def __init__(self, path: Path, verify: bool) -> None:
        self.path = path
        manifest = _read_manifest(path / MANIFEST)
        repeated = {name: value for name, value in manifest.items() if name not in OF_THE_FILES}
        self.metadata = {name: value for name, value in repeated.items() if name != "spaces"}
        self.space = _space(path / MANIFEST, manifest)
        listed = _listed_parts(path / MANIFEST, manifest)
        self.sums = [digest for _, _, digest in listed]
        schema = arrow_schema(self.space, repeated)
        opened = [_open_part(path / name, steps, schema) for name, steps, _ in listed]
        self.mappings, self.parts = [mapping for mapping, _ in opened], [part for _, part in opened]
        self.lane_games = read_lane_games(path / MANIFEST, manifest)
        if verify:
            for (name, _, digest), part in zip(listed, self.parts, strict=True):
                _verify(path / name, digest, part, self.space)

    @property
    def num_episodes(self) -> int:
        """One more than the highest number of an episode."""
        numbers = (part.column("episode").to_numpy() for part in self.parts)
        return max((int(column.max()) + 1 for column in numbers if len(column)), default=0)


def _check_views(recordings: list[_Recording]) -> None:
    """Compare the views of recordings. Older recordings name none: their spaces alone count.

    Raises:
        DatasetError: two views differ.
    """
    named = [recording for recording in recordings if recording.metadata.get("view") is not None]
    for other in named[1:]:
        ours, theirs = named[0].metadata["view"], other.metadata["view"]
        if ours != theirs:
            raise DatasetError(
                f"{other.path}: expected the view of {named[0].path}, {ours!r}, got {theirs!r}"
            )


# -- files --------------------------------------------------------------------------------------------------


def _read_manifest(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise DatasetError(f"{path.parent}: no dataset here: expected a file {MANIFEST}")
    try:
        manifest = parse_json(read_regular(path, links=True))
    except (OSError, ValueError) as error:
        raise DatasetError(f"{path}: cannot be read as JSON: {error}") from error
    if not isinstance(manifest, dict) or manifest.get("format") != "entitize dataset":
        raise DatasetError(f"{path}: expected a dataset of Entitize")
    version = manifest.get("version")
    if version != FORMAT_VERSION:
        raise DatasetError(
            f"{path}: expected version {FORMAT_VERSION} of the format, got {version!r}."
            " Read it with the version of Entitize that wrote it"
        )
    # Manifests had no sum at first; the files then witness all of it but their own list.
    if "sha256" in manifest and manifest["sha256"] != manifest_sum(manifest):
        raise DatasetError(f"{path}: damaged: it has changed since it was written (its SHA-256 differs)")
    return manifest


def _space(path: Path, manifest: dict[str, Any]) -> EntitySpace:
    try:
        return space_from_schema(manifest["spaces"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DatasetError(f"{path}: 'spaces' do not describe a space: {error!r}") from error


def _listed_parts(path: Path, manifest: dict[str, Any]) -> list[tuple[str, int, str]]:
    """Return name, number of steps and checksum of each file."""
    try:
        parts = [(part["file"], part["steps"], part["sha256"]) for part in manifest["parts"]]
    except (KeyError, TypeError) as error:
        raise DatasetError(f"{path}: 'parts' do not list files: {error!r}") from error
    for place, (name, steps, digest) in enumerate(parts):
        wanted = f"part-{place:06d}.arrow"
        if name != wanted or type(steps) is not int or steps < 1 or not isinstance(digest, str):
            raise DatasetError(
                f"{path}: part {place}: expected {wanted!r}, a number of steps and a checksum,"
                f" got {name!r}, {steps!r} and {digest!r}"
            )
    return parts


def _advise(mapping: pa.Buffer, advice: str) -> None:
    """Advise the system how a mapped file will be read, where it takes advice."""
    if hasattr(mmap, advice):
        address, size = ctypes.c_void_p(mapping.address), ctypes.c_size_t(mapping.size)
        ctypes.CDLL(None).madvise(address, size, getattr(mmap, advice))


def _open_part(path: Path, steps: int, schema: pa.Schema) -> tuple[pa.Buffer, pa.RecordBatch]:
    """Return a file, mapped into memory, and its one record batch."""
    try:
        if not path.is_file():
            raise DatasetError(f"{path}: the file is missing")
        # Unlike Python's mmap, Arrow's keeps no descriptor: of these a process has often 1,024 at most.
        with pa.memory_map(str(path)) as opened:
            mapping = opened.read_buffer()
        # Minibatches are drawn from all files: reading ahead would read these whole.
        _advise(mapping, "MADV_RANDOM")
        file = pa.ipc.open_file(pa.BufferReader(mapping))
        if file.num_record_batches != 1:
            raise DatasetError(f"{path}: expected 1 record batch, got {file.num_record_batches}")
        if not file.schema.equals(schema):
            raise DatasetError(f"{path}: its columns are not those of the spaces in {MANIFEST}")
        if not file.schema.equals(schema, check_metadata=True):
            raise DatasetError(f"{path}: damaged: {MANIFEST} says something else about the recording")
        batch = file.get_batch(0)
    except (OSError, pa.ArrowException) as error:
        raise DatasetError(f"{path}: cannot be read as an Arrow file: {error}") from error
    if len(batch) != steps:
        raise DatasetError(f"{path}: expected {steps} steps, got {len(batch)}")
    return mapping, batch


def _verify(path: Path, digest: str, part: pa.RecordBatch, space: EntitySpace) -> None:
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != digest:
        raise DatasetError(f"{path}: damaged: its checksum is not the one in {MANIFEST}")
    try:
        part.validate(full=True)
        steps = from_arrow(part, space)
    except (pa.ArrowException, ValueError) as error:
        raise DatasetError(f"{path}: damaged: {error}") from error
    problem = not_finite(steps)
    if problem:
        raise DatasetError(f"{path}: {problem}")
