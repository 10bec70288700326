"""`--eval.every`: checkpoints are evaluated beside the training, all of them, whatever it takes."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import entitize as ez
import pytest
from entitize.cli import main
from entitize.experiments import TrainArguments, TrainConfig, parse, train
from entitize.experiments.background_evaluation import measure
from entitize.trainers import checkpoint_paths, load_policy, read_metrics

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
        again = measure(run, by_step[int(line["step"])])
        assert {"step": line["step"], **again} == line
    best = max(found, key=lambda line: line["eval/episodic_return"])
    assert json.loads((run / "best" / "evaluation.json").read_text()) == best
    assert load_policy(run / "best").state_dict().keys()
    assert [int(path.name[5:]) for path in checkpoint_paths(run / "best" / "checkpoints")] == [best["step"]]
    assert not checkpoint_paths(run / "eval"), "none is left"
    ez.load_agent(run / "best")


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
