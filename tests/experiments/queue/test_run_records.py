from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from entitize.experiments import UserError
from entitize.experiments.queue import RunRecord, read_run, read_runs, run_folder

from facts import raises

Run = Callable[..., tuple[int, str, str]]


def put(
    trained: Path, directory: Path, case: str, network: str, seed: int, *changes: tuple[str, str]
) -> Path:
    """A copy of a finished run of 32 steps, its configuration changed."""
    folder = run_folder(directory, case, network, seed)
    shutil.copytree(trained, folder)
    text = (folder / "config.yaml").read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / "config.yaml").write_text(text)
    return folder


def test_runs_are_told_in_order(trained: Path, tmp_path: Path) -> None:
    for case, network, seed in [("maze", "roguenet", 10), ("maze", "roguenet", 2), ("bigfish", "impala", 0)]:
        put(trained, tmp_path, case, network, seed)
    (tmp_path / "runs" / "maze" / "roguenet" / "3").mkdir()  # without a configuration
    (tmp_path / "runs" / "maze" / "roguenet" / "notes").mkdir()
    records = read_runs(tmp_path)
    assert [record.name for record in records] == ["bigfish/impala/0", "maze/roguenet/2", "maze/roguenet/10"]
    assert {(record.steps, record.is_done, record.config.env.id) for record in records} == {
        (32, True, "MineSweeper")
    }
    assert all(record.seconds > 0 for record in records)
    assert records[0].folder == tmp_path / "runs" / "bigfish" / "impala" / "0"


def record_with(trained: Path, directory: Path, *changes: tuple[str, str]) -> RunRecord:
    return read_run(put(trained, directory, "maze", "roguenet", 0, *changes))


def test_a_run_that_has_not_taken_its_steps_is_not_done(trained: Path, tmp_path: Path) -> None:
    record = record_with(trained, tmp_path, ("total_timesteps: 32", "total_timesteps: 33"))
    assert (record.steps, record.is_done) == (32, False)


def test_a_run_whose_time_is_over_is_done(trained: Path, tmp_path: Path) -> None:
    more = ("total_timesteps: 32", "total_timesteps: 33")
    assert record_with(
        trained, tmp_path / "short", more, ("max_minutes: null", "max_minutes: 1.0e-9")
    ).is_done
    assert not record_with(trained, tmp_path / "long", more, ("max_minutes: null", "max_minutes: 60")).is_done


def test_a_run_with_checkpoints_to_evaluate_is_not_done(trained: Path, tmp_path: Path) -> None:
    folder = put(trained, tmp_path, "maze", "roguenet", 0, ("every: null", "every: 32"))
    assert read_run(folder).is_done
    (checkpoint,) = (folder / "checkpoints").iterdir()
    shutil.copytree(checkpoint, folder / "eval" / checkpoint.name)
    assert not read_run(folder).is_done


def test_a_half_made_run_has_taken_no_steps(trained: Path, tmp_path: Path) -> None:
    folder = put(trained, tmp_path, "maze", "roguenet", 0)
    shutil.rmtree(folder / "checkpoints")
    record = read_run(folder)
    assert (record.steps, record.seconds, record.is_done) == (0, 0.0, False)


def test_what_cannot_be_read_is_told(trained: Path, tmp_path: Path) -> None:
    with raises(UserError, "folder", str(tmp_path / "missing")):
        read_runs(tmp_path / "missing")
    assert read_runs(tmp_path) == []
    folder = put(trained, tmp_path, "maze", "roguenet", 0)
    metadata = next(folder.glob("checkpoints/*/checkpoint.json"))
    metadata.write_text(metadata.read_text().replace("elapsed", "passed"))
    with raises(UserError, "maze/roguenet/0", "checkpoint.json"):
        read_runs(tmp_path)
    (folder / "config.yaml").write_text("nonsense: 1")
    with raises(UserError, "unknown key", "'nonsense'"):
        read_runs(tmp_path)
