"""Steps are in the files once, and as they were, whatever interrupts or follows their writing."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import entitize as ez
import numpy as np
import pytest
from entitize.datasets import DatasetWriter, EntityDataset, Steps
from entitize.envs import EntityBatchBuffer
from entitize.ragged import RaggedArray, RaggedBuffer

from facts import raises
from recorded_steps import SPACES, assert_same, random_steps

SPACE = SPACES["every kind"]


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


def fail() -> None:
    raise OSError("no space left on device")


def once(call: int, then: Callable[[], None], function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `function` with `then` behind its call number `call`."""
    calls = 0

    def counted(*args: Any) -> Any:
        nonlocal calls
        result = function(*args)
        calls += 1
        if calls == call:
            then()
        return result

    return counted


def check_written(path: Path, pieces: list[Steps]) -> EntityDataset:
    """Check that the dataset holds these steps and no others."""
    dataset = EntityDataset(path)
    assert len(dataset) == sum(map(len, pieces))
    rows = iter(range(len(dataset)))
    for piece in pieces:
        assert_same(dataset.gather([next(rows) for _ in range(len(piece))]), piece)
    return dataset


# Content and name of the part, content and name of the manifest.
@pytest.mark.parametrize("sync", [1, 2, 3, 4])
@pytest.mark.parametrize(("then", "error"), [(interrupt, KeyboardInterrupt), (fail, OSError)])
def test_steps_are_written_once_where_writing_a_part_is_cut_short(
    sync: int,
    then: Callable[[], None],
    error: type[BaseException],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pieces = [random_steps(SPACE, 4, seed) for seed in range(4)]
    with DatasetWriter(tmp_path / "plays", SPACE, steps_per_part=8) as writer:
        writer.append(pieces[0])
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", once(sync, then, os.fsync))
            with pytest.raises(error):
                writer.append(pieces[1])
        assert len(writer) == 8
        writer.flush()
        for piece in pieces[2:]:
            writer.append(piece)
    assert check_written(tmp_path / "plays", pieces).num_parts == 2


@pytest.mark.parametrize("call", [1, 4, 12, 17, 20])
def test_an_interrupted_append_costs_its_own_steps_alone(
    call: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces = [random_steps(SPACE, 4, seed) for seed in range(4)]
    with DatasetWriter(tmp_path / "plays", SPACE) as writer:
        writer.append(pieces[0], ["{}"] * 4)
        with monkeypatch.context() as patch:
            patch.setattr(RaggedBuffer, "append", once(call, interrupt, RaggedBuffer.append))
            with pytest.raises(KeyboardInterrupt):
                writer.append(pieces[1])
        assert len(writer) == 4
        writer.append(pieces[2])
        writer.append(pieces[3])
    check_written(tmp_path / "plays", [pieces[0], *pieces[2:]])


def test_a_recording_that_is_interrupted_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    venv = ez.make_vec("MineSweeper", num_envs=1)
    monkeypatch.setattr(EntityBatchBuffer, "append", once(50, interrupt, EntityBatchBuffer.append))
    with pytest.raises(KeyboardInterrupt):
        ez.record(venv, None, tmp_path / "plays", steps=1000)
    assert len(EntityDataset(tmp_path / "plays")) == 49


def test_a_loop_may_use_its_arrays_again(tmp_path: Path) -> None:
    steps = random_steps(SPACE, 4, 0)
    kept = random_steps(SPACE, 4, 0)
    with DatasetWriter(tmp_path / "plays", SPACE) as writer:
        writer.append(steps)
        for column in steps.numbers().values():
            column[:] = np.zeros((), column.dtype)
    check_written(tmp_path / "plays", [kept])


def spoilt(steps: Steps, column: str, number: float) -> Steps:
    """Return `steps` with `number` in the first place of step 2 that `column` has."""
    if column == "reward":
        return replace(steps, reward=np.array([0, 0, number, 0]))
    kind, _, name = column.partition("/")
    observations, actions = steps.observations, steps.actions
    if kind == "globals":
        globals_ = observations.globals.copy()
        globals_[2, 1] = number
        return replace(steps, observations=replace_batch(observations, globals=globals_))
    old = actions[name] if kind == "choices" else observations.entities[name]
    values = old.values.copy()
    values[old.offsets[2], 0] = number
    new = RaggedArray(values, old.offsets)
    if kind == "choices":
        return replace(steps, actions={**actions, name: new})
    return replace(
        steps, observations=replace_batch(observations, entities={**observations.entities, name: new})
    )


def replace_batch(batch: ez.EntityBatch, **changes: Any) -> ez.EntityBatch:
    names = ("entities", "globals", "actions", "visible", "frames")
    return ez.EntityBatch(**{**{name: getattr(batch, name) for name in names}, **changes})


@pytest.mark.parametrize(
    ("column", "number"),
    [
        ("reward", np.nan),
        ("reward", np.inf),
        ("entities/Unit", np.nan),
        ("globals", -np.inf),
        ("choices/Push", np.inf),
    ],
)
def test_numbers_that_are_not_finite_are_refused_before_they_are_stored(
    column: str, number: float, tmp_path: Path
) -> None:
    seeds = (seed for seed in range(100) if has_items(random_steps(SPACE, 4, seed)))
    first, second = (random_steps(SPACE, 4, next(seeds)) for _ in range(2))
    with DatasetWriter(tmp_path / "plays", SPACE) as writer:
        writer.append(first)
        with raises(ValueError, "DatasetWriter", "step 2", f"'{column}'", number):
            writer.append(spoilt(second, column, number))
        assert len(writer) == 4
        writer.append(second)
    check_written(tmp_path / "plays", [first, second])


def has_items(steps: Steps) -> bool:
    """Return True if step 2 has a unit and a push."""
    return bool(steps.observations.entities["Unit"].lengths[2] and steps.actions["Push"].lengths[2])


@pytest.mark.parametrize(
    ("change", "facts"),
    [
        ({"lane": np.array([0.0, 0.5, 1.0, 2.0])}, ("'lane'", "int32", 0.5)),
        ({"step": np.array([0, 1, 2**40, 3])}, ("'step'", "int32", 2**40)),
        ({"final": np.array([0, 1, 2, 0])}, ("'final'", "bool", 2)),
        ({"reward": np.array([0, -1e39, 0, 0])}, ("'reward'", "float32", -1e39)),
        ({"reward": np.array(["a", "b", "c", "d"])}, ("'reward'", "float32", "<U1")),
        ({"episode": np.zeros((4, 1), np.int64)}, ("'episode'", "int64", "(4, 1)")),
    ],
)
def test_numbers_of_other_types_are_refused_before_they_are_stored(
    change: dict[str, Any], facts: tuple[object, ...], tmp_path: Path
) -> None:
    steps = random_steps(SPACE, 4, 0)
    with DatasetWriter(tmp_path / "plays", SPACE) as writer:
        with raises(ValueError, "DatasetWriter", *facts):
            writer.append(replace(steps, **change))
        given = {name: column.astype(np.float64) for name, column in steps.numbers().items()}
        writer.append(replace(steps, **given))
    check_written(tmp_path / "plays", [steps])


@pytest.mark.parametrize("wrong", [{"score": 1}, 3, b"{}", '"\ud800"'])
def test_infos_that_are_no_texts_cost_no_other_step(wrong: Any, tmp_path: Path) -> None:
    steps = random_steps(SPACE, 2, 0)
    with DatasetWriter(tmp_path / "plays", SPACE) as writer:
        writer.append(steps)
        with raises(ValueError, "DatasetWriter", "infos", repr(wrong)):
            writer.append(steps, [None, wrong])
        writer.append(steps, np.array([None, '{"name": "Zoë"}'], object))
    dataset = check_written(tmp_path / "plays", [steps, steps])
    assert dataset.infos(range(4)) == [{}, {}, {}, {"name": "Zoë"}]


class Steer(ez.EntityEnv):
    """Its one action is any number."""

    def __init__(self) -> None:
        self.action_space = ez.EntityActionSpace({"Steer": ez.GlobalContinuous(-np.inf, np.inf)})
        self.observation_space = ez.EntitySpace({"Car": ["x"]}, self.action_space)

    def _reset(self, options: dict[str, Any]) -> ez.Observation:
        return ez.Observation({"Car": [[0]]}, actions={"Steer": ez.actions.GlobalContinuousMask()})

    def _step(self, actions: Any) -> Any:
        return self._reset({}), 0.0, False, False, {}


def test_an_infinite_action_costs_no_earlier_step(tmp_path: Path) -> None:
    numbers = iter([0.5, -3.0, np.inf])

    def play(batch: ez.EntityBatch, rng: np.random.Generator) -> dict[str, RaggedArray]:
        return {"Steer": RaggedArray.from_lengths(np.float32([[next(numbers)]]), [1])}

    with raises(ValueError, "'Steer'", "inf"):
        ez.record(ez.vector.ListVectorEnv([Steer]), play, tmp_path / "plays", steps=3)
    dataset = EntityDataset(tmp_path / "plays")
    assert dataset.gather([0, 1]).actions["Steer"].values.tolist() == [[0.5], [-3.0]]


def test_a_part_of_many_bytes_is_written_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DatasetWriter, "PART_BYTES", 1)
    space = next(iter(SPACES.values()))
    writer = DatasetWriter(tmp_path / "plays", space)
    for seed in range(3):
        writer.append(random_steps(space, 30, seed))
    assert EntityDataset(tmp_path / "plays").num_parts == 3, "before the writer is closed"
    writer.close()
