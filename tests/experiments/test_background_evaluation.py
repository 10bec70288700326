"""`--eval.every`: checkpoints are evaluated beside the training, all of them, whatever it takes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import entitize as ez
import pytest
import torch
from entitize.cli import main
from entitize.experiments import TrainArguments, TrainConfig, make_environments, parse, train
from entitize.experiments.background_evaluation import (
    BackgroundEvaluation,
    BestCheckpoint,
    evaluate_checkpoint,
)
from entitize.experiments.config_file import to_yaml
from entitize.experiments.statistics.curves import read_curve
from entitize.trainers import RunFolder, checkpoint_paths, load_policy, read_metrics, write_checkpoint
from rich.console import Console

from waiting import PATIENCE, wait_until

TRAIN = [
    *("train", "--env.id", "MultiSnake", "--env.num-envs", "4", "--net.d-model", "8", "--net.n-layer", "1"),
    *("--ppo.num-steps", "8", "--ppo.minibatch-size", "16", "--ppo.checkpoint-interval", "32"),
    *("--eval.every", "64", "--eval.episodes", "6", "--eval.num-envs", "3", "--ppo.keep-checkpoints", "99"),
]


def evaluations(run: Path) -> list[dict[str, float]]:
    return [line for line in read_metrics(run / "metrics.jsonl") if "eval/episodic_return" in line]


def test_checkpoints_are_evaluated_and_the_best_is_kept(tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert main([*TRAIN, "--run", str(run), "--ppo.total-timesteps", "224"]) == 0
    found = evaluations(run)
    assert [line["step"] for line in found] == [64, 128, 192]
    assert {line["eval/episodes"] for line in found} == {6}
    assert all(
        line["eval/episodic_return_low"] <= line["eval/episodic_return"] <= line["eval/episodic_return_high"]
        for line in found
    )
    by_step = {int(path.name[5:]): path for path in checkpoint_paths(run / "checkpoints")}
    for line in found:  # the evaluation of the checkpoint by itself finds the same
        again, _ = evaluate_checkpoint(run, by_step[int(line["step"])])
        assert {"step": line["step"], **again} == line
    best = max(found, key=lambda line: line["eval/episodic_return"])
    record = json.loads((run / "best" / "evaluation.json").read_text())
    assert {name: value for name, value in record.items() if name != "settings"} == best
    assert load_policy(run / "best").state_dict().keys()
    assert [int(path.name[5:]) for path in checkpoint_paths(run / "best" / "checkpoints")] == [best["step"]]
    assert not checkpoint_paths(run / "eval"), "none is left"
    ez.load_agent(run / "best")


def test_an_evaluation_is_logged_once_at_its_own_step(tmp_path: Path) -> None:
    """Training goes on long after the first evaluation has ended."""
    run = tmp_path / "run"
    config = parse(TrainArguments, "train", TRAIN[1:], TrainArguments(TrainConfig())).settings
    config = replace(config, ppo=replace(config.ppo, total_timesteps=224))
    run.mkdir()
    (run / "config.yaml").write_text(to_yaml(config))
    folder = RunFolder(run)
    with make_environments(config.env) as venv, folder.locked():
        policy = ez.RogueNet(venv.single_observation_space, venv.single_action_space, d_model=8, n_layer=1)
        evaluation = BackgroundEvaluation(folder, config, 0, Console(quiet=True), threading.Event())

        def wait(trainer: ez.PPO, metrics: dict[str, float]) -> None:
            if trainer.step >= 64:
                wait_until(lambda: evaluation(trainer, {}) or evaluation.latest)

        trainer = ez.PPO(policy, venv, config.ppo, folder, callbacks=[evaluation, wait])
        with evaluation.running():
            trainer.train(progress=False)
    assert [line["step"] for line in evaluations(run)] == [64, 128, 192]
    assert all("charts/SPS" not in line for line in evaluations(run))
    assert read_curve(run, "eval/episodic_return").steps.tolist() == [64, 128, 192]


def test_the_record_of_one_episode_is_json(tmp_path: Path) -> None:
    words = [*TRAIN, "--eval.episodes", "1", "--eval.num-envs", "1", "--ppo.total-timesteps", "64"]
    assert main([*words, "--run", str(tmp_path / "run")]) == 0
    record = (tmp_path / "run" / "best" / "evaluation.json").read_text()
    found = json.loads(record, parse_constant=pytest.fail)  # NaN is no JSON
    assert found["eval/episodes"] == 1 and "eval/episodic_return_low" not in found


def test_a_stopped_run_evaluates_the_rest_when_it_is_resumed(tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert main([*TRAIN, "--run", str(whole), "--ppo.total-timesteps", "160"]) == 0

    words = [*TRAIN[1:], "--ppo.total-timesteps", "160"]
    config = parse(TrainArguments, "train", words, TrainArguments(TrainConfig())).settings
    stop = threading.Event()
    stop.set()  # ends after the first update; and again after the second
    train(config, parts, stop=stop)
    train(config, parts, resume=True, stop=stop)
    assert evaluations(parts) == [] and len(checkpoint_paths(parts / "eval")) == 1
    assert main(["train", "--resume", str(parts)]) == 0
    assert evaluations(parts) == evaluations(whole) != []


def test_the_best_is_one_of_the_run_and_of_its_evaluations(tmp_path: Path) -> None:
    run, record = tmp_path / "run", tmp_path / "run" / "best" / "evaluation.json"
    assert main([*TRAIN, "--run", str(run), "--ppo.total-timesteps", "96"]) == 0
    found = {**json.loads(record.read_text()), "eval/episodic_return": 1e9}
    resume, more = ["train", "--resume", str(run), "--ppo.total-timesteps"], iter(("160", "224", "288"))

    def best_after(**changes: object) -> int:
        """Let an earlier evaluation be the best by far, and go on."""
        record.write_text(json.dumps({**found, **changes}))
        assert main([*resume, next(more)]) == 0
        return int(json.loads(record.read_text())["step"])

    assert best_after() == 64
    assert best_after(step=2000) > 64  # of a part that was trained again
    assert best_after(settings=[]) > 64  # of other games


def test_a_resume_that_trains_nothing_leaves_the_best(tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert main([*TRAIN, "--run", str(run), "--ppo.total-timesteps", "96"]) == 0
    before = {path: path.read_bytes() for path in (run / "best").rglob("*") if path.is_file()}
    for code, words in (
        (2, ["--ppo.total-timesteps", "32", "--eval.episodes", "8"]),  # it has taken more
        (0, ["--eval.episodes", "8"]),  # it is over
        (0, ["--env.kwargs", "num_workers=2"]),
    ):
        assert main(["train", "--resume", str(run), *words]) == code
        assert {path: path.read_bytes() for path in (run / "best").rglob("*") if path.is_file()} == before
    record = json.loads((run / "best" / "evaluation.json").read_text())
    (checkpoint,) = checkpoint_paths(run / "best" / "checkpoints")
    checkpoint.rename(run / "eval" / checkpoint.name)  # of a run that is over, with settings that are not
    assert main(["train", "--resume", str(run), "--eval.episodes", "8"]) == 0
    assert json.loads((run / "best" / "evaluation.json").read_text()) == record
    workers = ["--env.kwargs", "num_workers=2", "--ppo.total-timesteps", "128"]
    (run / "best" / "evaluation.json").write_text(json.dumps({**record, "eval/episodic_return": 1e9}))
    assert main(["train", "--resume", str(run), *workers]) == 0
    assert json.loads((run / "best" / "evaluation.json").read_text())["step"] == record["step"]


def test_the_best_of_before_is_there_where_a_killed_run_begins_anew(tmp_path: Path) -> None:
    """Checkpoints 1 to 4 are evaluated, the run has the second; 3 was the best and is trained again."""
    folder = RunFolder(tmp_path / "run")
    best = BestCheckpoint(folder)

    def evaluated(step: int, mean: float) -> list[int]:
        path = write_checkpoint(folder.path / "eval", step, {"policy": {"w": torch.ones(1)}}, {})
        best.keep_if_best(path, {"eval/episodic_return": mean}, [])
        return [int(path.name[5:]) for path in checkpoint_paths(tmp_path / "run" / "best" / "checkpoints")]

    assert evaluated(1, 0.5) == [1]
    assert evaluated(2, 0.4) == [1]
    write_checkpoint(folder.checkpoints, 2, {"policy": {"w": torch.ones(1)}}, {})
    assert evaluated(3, 0.6) == [1, 3]
    assert evaluated(4, 0.3) == [1, 3]
    record = tmp_path / "run" / "best" / "evaluation.json"
    assert json.loads(record.read_text())["step"] == 3
    best.forget_after(2)
    found = json.loads(record.read_text())
    assert (found["step"], found["eval/episodic_return"]) == (1, 0.5) and "before" not in found
    assert evaluated(3, 0.55) == [1, 3]
    write_checkpoint(folder.checkpoints, 4, {"policy": {"w": torch.ones(1)}}, {})
    best.tidy()
    assert evaluated(4, 0.1) == [3]
    best.forget_after(0)
    assert not record.exists()


def test_a_run_that_is_over_keeps_its_configuration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    assert main([*TRAIN, "--run", str(run), "--ppo.total-timesteps", "64"]) == 0
    before = (run / "config.yaml").read_bytes()
    assert main(["train", "--resume", str(run), "--ppo.learning-rate", "0.5"]) == 0
    assert "trained to its end" in capsys.readouterr().out
    assert (run / "config.yaml").read_bytes() == before
    assert main(["train", "--resume", str(run), "--ppo.total-timesteps", "96"]) == 0
    assert (run / "config.yaml").read_bytes() != before


@pytest.mark.parametrize("has_record", [False, True])
def test_a_result_that_was_logged_before_a_kill_is_not_logged_again(tmp_path: Path, has_record: bool) -> None:
    run = tmp_path / "run"
    assert main([*TRAIN, "--run", str(run), "--ppo.total-timesteps", "96"]) == 0
    before, record = evaluations(run), (run / "best" / "evaluation.json").read_bytes()
    (checkpoint,) = checkpoint_paths(run / "best" / "checkpoints")
    checkpoint.rename(run / "eval" / checkpoint.name)
    if not has_record:
        (run / "best" / "evaluation.json").unlink()
    assert main(["train", "--resume", str(run)]) == 0
    assert evaluations(run) == before != [] and not checkpoint_paths(run / "eval")
    assert (run / "best" / "evaluation.json").read_bytes() == record
    assert [path.name for path in checkpoint_paths(run / "best" / "checkpoints")] == [checkpoint.name]


def test_an_evaluation_that_fails_is_reported_and_training_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    broken = ["--eval.kwargs", "board_size=2"]
    assert main([*TRAIN, *broken, "--run", str(run), "--ppo.total-timesteps", "128"]) == 0
    told = capsys.readouterr().out
    assert "step 64 failed" in told and "2 snakes" in told, told
    assert evaluations(run) == [] and not checkpoint_paths(run / "eval")
    assert read_metrics(run / "metrics.jsonl")[-1]["step"] == 128


#: MultiSnake as a module of its own, whose evaluations do what `eval.kwargs` says.
GAME = """
import pathlib, shutil, sys, time
import entitize as ez

def make_env(noise=0, erase=None, heartbeat=None):
    sys.stdout.write("noise" * noise)
    sys.stderr.write("noise" * noise)
    if erase is not None:
        shutil.rmtree(erase)
    while heartbeat is not None:
        pathlib.Path(heartbeat).write_text(str(time.time()))
        time.sleep(0.05)
    return ez.games.MultiSnake()
"""


@pytest.fixture
def words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    (tmp_path / "snake_game.py").write_text(GAME)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{Path(ez.__file__).parents[1]}")
    return [*TRAIN, "--env.id", "snake_game:make_env", "--run", str(tmp_path / "run")]


def start(words: list[str], stop: threading.Event) -> threading.Thread:
    """Train in a thread until `stop`."""
    given, run = words[1:-2], Path(words[-1])
    config = parse(TrainArguments, "train", given, TrainArguments(TrainConfig())).settings
    thread = threading.Thread(target=train, args=(config, run), kwargs={"stop": stop}, daemon=True)
    thread.start()
    return thread


def test_an_evaluation_that_writes_much_ends_while_training_goes_on(words: list[str], tmp_path: Path) -> None:
    stop = threading.Event()
    noise = ["--eval.kwargs", "noise=100_000", "--eval.every", "32", "--ppo.total-timesteps", "100_000_000"]
    training = start([*words[:-2], *noise, *words[-2:]], stop)
    try:
        metrics = tmp_path / "run" / "metrics.jsonl"
        wait_until(lambda: metrics.exists() and bool(evaluations(tmp_path / "run")))
        assert training.is_alive()
    finally:
        stop.set()
        training.join(PATIENCE)


def test_training_goes_on_if_waiting_checkpoints_are_deleted(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    erase = ["--eval.kwargs", f"erase={tmp_path / 'run' / 'eval'}", "--ppo.total-timesteps", "96"]
    assert main([*words, *erase]) == 0
    assert "step 64 failed" in capsys.readouterr().out
    assert read_metrics(tmp_path / "run" / "metrics.jsonl")[-1]["step"] == 96


def test_a_stop_does_not_wait_for_an_evaluation_that_hangs(words: list[str], tmp_path: Path) -> None:
    heartbeat, stop = tmp_path / "heartbeat", threading.Event()
    hang = ["--eval.kwargs", f"heartbeat={heartbeat}", "--ppo.total-timesteps", "64"]
    training = start([*words[:-2], *hang, *words[-2:]], stop)
    wait_until(heartbeat.exists)
    stop.set()
    training.join(PATIENCE)
    assert not training.is_alive()
    assert [path.name for path in checkpoint_paths(tmp_path / "run" / "eval")] == ["step_000000000064"]


def test_an_evaluation_ends_with_a_training_that_is_killed(words: list[str], tmp_path: Path) -> None:
    heartbeat = tmp_path / "heartbeat"
    hang = ["--eval.kwargs", f"heartbeat={heartbeat}", "--ppo.total-timesteps", "100_000_000"]
    with subprocess.Popen([sys.executable, "-m", "entitize", *words, *hang]) as training:
        try:
            wait_until(heartbeat.exists)
        finally:
            training.kill()

    def is_still() -> bool:
        before = heartbeat.stat().st_mtime_ns
        time.sleep(1)
        return heartbeat.stat().st_mtime_ns == before

    wait_until(is_still)
