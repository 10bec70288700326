"""Steps are in the files once, and as they were, whatever interrupts or follows their writing."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import entitize as ez
import pytest
from entitize.datasets import DatasetWriter, EntityDataset, Steps
from entitize.envs import EntityBatchBuffer
from entitize.ragged import RaggedBuffer

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
