"""Metrics in experiment trackers: the same rows as in `metrics.jsonl`; their failures stop no training."""

from __future__ import annotations

import json
import struct
import sys
import warnings
from collections.abc import Iterator, Mapping
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import entitize as ez
import pytest
import yaml
from entitize.cli import main
from entitize.experiments import read_run_config
from entitize.trainers import RunFolder, TrackerName, read_metrics

from facts import raises, warns
from waiting import wait_until


def make_trainer(run: Path | RunFolder | None, steps: int = 32, **options: Any) -> ez.PPO:
    venv = ez.make_vec("MineSweeper", num_envs=2)
    net = ez.RogueNet(venv.single_observation_space, venv.single_action_space, d_model=8, n_layer=1)
    config = ez.PPOConfig(total_timesteps=steps, num_steps=8, minibatch_size=16, update_epochs=1)
    return ez.PPO(net, venv, config, run, **options)


class Notebook:
    """A tracker that keeps rows, or fails."""

    def __init__(self, fails_at: int | None = None) -> None:
        self.rows: list[dict[str, float]] = []
        self.fails_at, self.calls, self.closed = fails_at, 0, 0

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self.calls += 1
        if self.calls == self.fails_at:
            raise ConnectionError("no network")
        self.rows.append({"step": step, **metrics})

    def close(self) -> None:
        self.closed += 1


def test_a_tracker_gets_the_rows_of_the_run_folder(tmp_path: Path) -> None:
    tracker = Notebook()
    make_trainer(tmp_path / "run", track=tracker).train(progress=False)
    assert tracker.rows == read_metrics(tmp_path / "run" / "metrics.jsonl")
    assert len(tracker.rows) == 2 and tracker.closed == 1
    make_trainer(RunFolder(tmp_path / "run"), 64, resume=True, track=tracker).train(progress=False)
    assert tracker.rows == read_metrics(tmp_path / "run" / "metrics.jsonl")
    assert len(tracker.rows) == 4


def test_a_tracker_that_fails_is_one_warning(tmp_path: Path) -> None:
    tracker = Notebook(fails_at=2)
    trainer = make_trainer(tmp_path / "run", 96, track=tracker)
    with warns(RuntimeWarning, "Notebook", "ConnectionError", "no network") as caught:
        trainer.train(progress=False)
    assert len(caught) == 1 and (tracker.calls, tracker.closed) == (2, 0)
    assert [row["step"] for row in read_metrics(tmp_path / "run" / "metrics.jsonl")] == list(
        range(16, 97, 16)
    )
    assert list((tmp_path / "run" / "checkpoints").iterdir())


def test_what_is_no_tracker_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with raises(ValueError, "track", "'wandv'", "'wandb'"):
        make_trainer(tmp_path / "run", track="wandv")
    with raises(TypeError, "track", "log and close", 3):
        make_trainer(tmp_path / "run", track=3)
    with raises(TypeError, "track", "object", "Notebook"):
        make_trainer(tmp_path / "run", track=Notebook)
    with raises(ValueError, "track", "run_dir"):
        make_trainer(None, track="wandb")
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name: ModuleSpec(name, None)
    )  # a folder of that name
    with raises(ModuleNotFoundError, "wandb", "entitize[wandb]"):
        make_trainer(tmp_path / "run", track="wandb")
    with raises(ModuleNotFoundError, "pip install trackio"):
        make_trainer(tmp_path / "run", track="trackio")
    assert not (tmp_path / "run").exists()


def test_the_command_names_a_tracker_that_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("entitize.trainers.runs.tracking.importlib.util.find_spec", lambda name: None)
    words = ["train", "--config", "mine_sweeper", "--run", str(tmp_path / "run"), "--track", "wandb"]
    assert main(words) == 2
    assert "entitize[wandb]" in capsys.readouterr().err


# -- Weights & Biases, offline -------------------------------------------------------------------------------


def records(file: Path) -> Iterator[Any]:
    """The records of a `.wandb` file: a LevelDB log of protocol buffers behind seven bytes."""
    from wandb.proto.wandb_internal_pb2 import Record

    content, at, block = file.read_bytes(), 7, 1 << 15
    parts = b""
    while at + 7 <= len(content):
        if block - at % block < 7:
            at += block - at % block
        _, length, kind = struct.unpack("<IHB", content[at : at + 7])
        parts += content[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # a whole record, or its last part
            record = Record()
            record.ParseFromString(parts)
            yield record
            parts = b""


def tracked(run: Path) -> tuple[list[dict[str, float]], list[Any]]:
    """The rows of all parts of a run, and the descriptions of the parts."""
    rows, runs = [], []
    for file in sorted(run.glob("wandb/offline-run-*/*.wandb")):
        for record in records(file):
            if record.WhichOneof("record_type") == "run":
                runs.append(record.run)
            if record.WhichOneof("record_type") == "history":
                row = {
                    item.key or item.nested_key[0]: json.loads(item.value_json)
                    for item in record.history.item
                }
                rows.append({name: value for name, value in row.items() if not name.startswith("_")})
    return rows, runs


def test_wandb_offline_gets_rows_configuration_and_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    run = tmp_path / "sweeping"
    words = ["train", "--config", "mine_sweeper", "--env.num-envs", "2", "--ppo.num-steps", "8"]
    words += ["--net.d-model", "8", "--net.n-layer", "1", "--ppo.minibatch-size", "16", "--track", "wandb"]
    assert main([*words, "--ppo.total-timesteps", "32", "--run", str(run)]) == 0
    monkeypatch.setenv("WANDB_PROJECT", "another")
    assert main(["train", "--resume", str(run), "--ppo.total-timesteps", "64"]) == 0
    assert read_run_config(run).track == "wandb"
    metrics = read_metrics(run / "metrics.jsonl")
    wait_until(lambda: len(tracked(run)[0]) == len(metrics))  # another process writes them
    rows, runs = tracked(run)
    assert [{"step": row.pop("global_step"), **row} for row in rows] == metrics
    assert [row.display_name for row in runs] == ["sweeping"] * 2
    assert len({row.run_id for row in runs}) == 1  # the resumed run continues the tracked one
    assert [row.project for row in runs] == ["entitize", "another"]
    config = {item.key: json.loads(item.value_json) for item in runs[-1].config.update}
    assert {name: config[name] for name in ("env", "ppo")} == {
        name: part
        for name, part in yaml.safe_load((run / "config.yaml").read_text()).items()
        if name in ("env", "ppo")
    }


# -- trackio, which needs another NumPy than procgen: a module with its interface ----------------------------


class FakeRun:
    def __init__(self) -> None:
        self.rows: list[tuple[int, dict[str, float]]] = []
        self.is_finished = False

    def log(self, metrics: dict[str, float], step: int | None = None) -> None:
        assert step is not None
        self.rows.append((step, metrics))

    def finish(self) -> None:
        self.is_finished = True


def test_trackio_gets_rows_and_continues_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[dict[str, Any]] = []
    runs: list[FakeRun] = []

    def init(**options: Any) -> FakeRun:
        started.append(options)
        runs.append(FakeRun())
        return runs[-1]

    trackio = ModuleType("trackio")
    trackio.__spec__ = ModuleSpec("trackio", None, origin="trackio.py")
    trackio.init = init  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "trackio", trackio)
    name: TrackerName = "trackio"
    make_trainer(tmp_path / "run", 32, track=name).train(progress=False)
    make_trainer(tmp_path / "run", 64, track=name, resume=True).train(progress=False)
    make_trainer(tmp_path / "runs" / "maze" / "roguenet" / "0", 16, track=name).train(progress=False)
    first, second, of_experiment = started
    assert of_experiment["name"].startswith("maze-roguenet-0-")
    assert first["name"] == second["name"] and first["name"].startswith("run-")
    assert (first["project"], first["resume"], first["config"]["ppo"]["num_steps"]) == (
        "entitize",
        "allow",
        8,
    )
    assert [step for run in runs for step, _ in run.rows] == [16, 32, 48, 64, 16]
    assert all(run.is_finished for run in runs)


def test_without_a_tracker_nothing_is_written(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make_trainer(tmp_path / "run").train(progress=False)
    assert not (tmp_path / "run" / "tracking.json").exists() and not (tmp_path / "run" / "wandb").exists()
