"""`replay`: play recorded actions again and compare what happens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..envs import EntityBatch, EntityVectorEnv
from ..envs.vector.infos import final_observations
from ..envs.vector.vector_checks import check_vector_env
from ..ragged import RaggedArray
from .dataset import EntityDataset
from .errors import DatasetError
from .recorder import IS_TAUGHT
from .steps import Steps


@dataclass(frozen=True)
class Difference:
    """The first difference between an environment and a recording."""

    step: int  # steps since the reset
    lane: int
    episode: int
    what: str  # "reward", "terminated", "entities/Mine", …; "final/entities/Mine" of a last observation
    recorded: str
    replayed: str

    def __str__(self) -> str:
        return (
            f"step {self.step}, lane {self.lane} (episode {self.episode}): {self.what}:"
            f" recorded {self.recorded}, replayed {self.replayed}"
        )


def replay(dataset: EntityDataset, venv: EntityVectorEnv, *, tolerance: float = 0.0) -> Difference | None:
    """Play the recorded actions in `venv` and return the first difference, or None.

    The recording must hold all steps of all lanes from a seeded reset on: as `record(..., steps=…)` writes
    it. Observations, masks, rewards and ends are compared, and the last observations of episodes where both
    have them.

    Args:
        dataset: a recording with "seed" in its metadata.
        venv: as many lanes of the environment as were recorded; it is reset.
        tolerance: by how much numbers may differ.

    Raises:
        DatasetError: the recording has other spaces, another number of lanes, no seed, or leaves out steps;
            its actions are a teacher's; or there are several recordings.
        TypeError: `dataset` or `venv` is something else.
    """
    seed, rows = _seed_and_rows(dataset, venv)
    batch, _ = venv.reset(seed=seed)
    ends = np.append(rows[:, 0], len(dataset))[1:]
    for step, (acted, end) in enumerate(zip(rows, ends, strict=True)):
        recorded = dataset.gather(acted)
        found = _different_batch(recorded.observations, batch, tolerance)
        if found is None:
            batch, *outcomes, info = venv.step(recorded.actions)
            for name, values in zip(("reward", "terminated", "truncated"), outcomes, strict=True):
                found = found or _different(name, getattr(recorded, name), values, tolerance)
        if found is not None:
            return _difference(step, recorded, *found)
        # The last observations of the episodes that this step ended stand behind it.
        recorded = dataset.gather(np.arange(acted[-1] + 1, end))
        found = _different_finals(recorded, info, tolerance)
        if found is not None:
            return _difference(step + 1, recorded, *found)
    return None


def _seed_and_rows(dataset: EntityDataset, venv: EntityVectorEnv) -> tuple[int, NDArray[np.int64]]:
    """Return the seed of a recording and its rows with actions (steps, lanes).

    Raises:
        DatasetError: it can't be replayed in `venv`.
    """
    if not isinstance(dataset, EntityDataset):
        raise TypeError(f"replay: expected an EntityDataset, got {dataset!r}")
    check_vector_env("replay", venv)
    dataset.check_space(venv.single_observation_space, "environment")
    if len(dataset.paths) > 1:
        raise DatasetError(f"replay: expected one recording, got {', '.join(map(str, dataset.paths))}")
    if dataset.metadata.get(IS_TAUGHT):
        raise DatasetError(f"{dataset.path}: its actions are a teacher's, and were not carried out")
    seed, lanes = dataset.metadata.get("seed"), dataset.metadata.get("num_envs")
    if not isinstance(seed, int):
        raise DatasetError(f"{dataset.path}: expected a seed in its metadata, got {seed!r}")
    if lanes != venv.num_envs:
        raise DatasetError(
            f"{dataset.path}: recorded with {lanes} lanes, the environment has {venv.num_envs}"
        )
    rows = np.flatnonzero(~dataset.column("final").astype(bool))
    num_steps, rest = divmod(len(rows), venv.num_envs)
    if rest or not np.array_equal(dataset.column("lane")[rows], np.tile(np.arange(venv.num_envs), num_steps)):
        raise DatasetError(
            f"{dataset.path}: steps of some lanes were left out: record steps= (--steps) instead of"
            " episodes= (--episodes)"
        )
    return seed, rows.reshape(num_steps, venv.num_envs)


def _difference(step: int, recorded: Steps, row: int, what: str, was: Any, is_: Any) -> Difference:
    lane, episode = int(recorded.lane[row]), int(recorded.episode[row])
    return Difference(step, lane, episode, what, _short(was), _short(is_))


def _different_finals(
    recorded: Steps, info: Mapping[str, Any], tolerance: float
) -> tuple[int, str, Any, Any] | None:
    if not len(recorded) or (given := final_observations(info)) is None:
        return None
    lanes, final = given
    _, ours, theirs = np.intersect1d(recorded.lane, lanes, return_indices=True)
    recorded_finals, finals = recorded.observations.gather(ours), final.gather(theirs)
    found = _different_batch(recorded_finals, finals, tolerance)
    if found is None:
        return None
    row, name, was, is_ = found
    return int(ours[row]), f"final/{name}", was, is_


def _different_batch(
    recorded: EntityBatch, replayed: EntityBatch, tolerance: float
) -> tuple[int, str, Any, Any] | None:
    theirs = replayed.arrays()
    for name, array in recorded.arrays().items():
        other = theirs.get(name)
        if isinstance(array, RaggedArray):
            if other is None:  # the visibility of a type of which everything is visible
                other = array.with_values(np.ones(array.num_items, bool))
            assert isinstance(other, RaggedArray)
            if _equal(array.offsets, other.offsets, 0) and _equal(array.values, other.values, tolerance):
                continue
            for lane in range(len(array)):
                if not _equal(array[lane], other[lane], tolerance):
                    return lane, name, array[lane], other[lane]
        elif difference := _different(name, array, np.asarray(other), tolerance):
            return difference
    return None


def _different(
    name: str, recorded: NDArray[Any], replayed: NDArray[Any], tolerance: float
) -> tuple[int, str, Any, Any] | None:
    for lane in range(len(recorded)):
        if not _equal(recorded[lane], replayed[lane], tolerance):
            return lane, name, recorded[lane], replayed[lane]
    return None


def _equal(a: Any, b: Any, tolerance: float) -> bool:
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape:
        return False
    return (
        np.array_equal(a, b)
        if not tolerance or a.dtype.kind != "f"
        else bool(np.allclose(a, b, 0, tolerance))
    )


def _short(value: Any) -> str:
    array = np.asarray(value)
    return np.array2string(array, threshold=12, precision=6) if array.ndim else str(array)
