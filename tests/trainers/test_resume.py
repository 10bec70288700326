"""Runs that stop and go on: bit-equal to uninterrupted ones, also after kill -9."""

from __future__ import annotations

import gzip
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from entitize.trainers import (
    PPO,
    CheckpointError,
    PPOConfig,
    RunFolder,
    checkpoint_paths,
    read_checkpoint,
    read_metrics,
    step_of,
)

from facts import raises
from waiting import wait_until

OPTIONS: dict[str, Any] = {
    "total_timesteps": 144,
    "num_steps": 6,
    "minibatch_size": 12,
    "update_epochs": 2,
    "learning_rate": 0.01,
}


def stop_at(step: int) -> Any:
    return lambda trainer, _: trainer.step >= step


def assert_equal_states(one: PPO, other: PPO) -> None:
    for (name, left), right in zip(
        one.policy.state_dict().items(), other.policy.state_dict().values(), strict=True
    ):
        assert torch.equal(left, right), name
    moments = [trainer.optimizer.state_dict()["state"] for trainer in (one, other)]
    for index, entry in moments[0].items():
        for name, left in entry.items():
            assert torch.equal(left, moments[1][index][name]), (index, name)
    assert one.rng.bit_generator.state == other.rng.bit_generator.state
    assert (one.step, one.updates) == (other.step, other.updates)


@pytest.mark.parametrize("kind", ["environments that save their state", "new episodes at every checkpoint"])
def test_a_resumed_run_is_bit_equal_to_an_uninterrupted_one(
    kind: str, toy_policy: Any, toy_venv: Any, stateful_toy_venv: Any, tmp_path: Path
) -> None:
    stateful = kind.startswith("environments")
    venv_class = stateful_toy_venv if stateful else toy_venv
    config = PPOConfig(**OPTIONS, checkpoint_interval=48, reset_at_checkpoint=not stateful)
    whole = PPO(toy_policy(), venv_class(4), config, tmp_path / "whole")
    whole.train()
    PPO(toy_policy(), venv_class(4), config, tmp_path / "parts", callbacks=[stop_at(48)]).train()
    torch.manual_seed(99)
    resumed = PPO(toy_policy(scale=0.1), venv_class(4), config, tmp_path / "parts", resume=True)
    assert resumed.step == 48
    resumed.train()
    assert_equal_states(whole, resumed)
    logs = [read_metrics(tmp_path / part / "metrics.jsonl") for part in ("whole", "parts")]
    for left, right in zip(*logs, strict=True):
        timeless = [
            {k: v for k, v in line.items() if "time" not in k and "SPS" not in k} for line in (left, right)
        ]
        assert timeless[0] == timeless[1]


def test_environments_without_state_start_anew_with_a_seed_of_their_own(
    toy_policy: Any, toy_venv: Any, tmp_path: Path
) -> None:
    config = PPOConfig(**OPTIONS)
    PPO(toy_policy(), toy_venv(4), config, tmp_path, callbacks=[stop_at(48)]).train()
    seeds = []
    for _ in range(2):
        venv = toy_venv(4)
        trainer = PPO(toy_policy(), venv, config, tmp_path, resume=True)
        trainer.collect()
        assert len(venv.seeds) == 1 and venv.seeds[0] != config.seed
        seeds += venv.seeds
    assert seeds[0] == seeds[1], "the seed depends on the run's seed and the step alone"


def test_a_used_folder_is_not_written_over(toy_policy: Any, toy_venv: Any, tmp_path: Path) -> None:
    PPO(toy_policy(), toy_venv(4), PPOConfig(**OPTIONS), tmp_path).train(24)
    with raises(FileExistsError, tmp_path, "resume"):
        PPO(toy_policy(), toy_venv(4), PPOConfig(**OPTIONS), tmp_path)


def test_an_earlier_checkpoint_is_not_continued_in_a_folder_that_has_later_ones(
    toy_policy: Any, toy_venv: Any, tmp_path: Path
) -> None:
    trainer = PPO(toy_policy(), toy_venv(4), PPOConfig(**OPTIONS), tmp_path / "run")
    trainer.train(24)
    early = trainer.save_checkpoint()
    shutil.copytree(early, tmp_path / "early")
    trainer.train(72)
    trainer.save_checkpoint()
    steps = [line["step"] for line in read_metrics(tmp_path / "run" / "metrics.jsonl")]
    with raises(CheckpointError, tmp_path / "run", 72, 24):
        trainer.restore(tmp_path / "early")
    assert trainer.step == 72
    assert [line["step"] for line in read_metrics(tmp_path / "run" / "metrics.jsonl")] == steps
    other = PPO(toy_policy(), toy_venv(4), PPOConfig(**OPTIONS), tmp_path / "other")
    other.restore(tmp_path / "early")
    assert other.step == 24 and other.save_checkpoint().exists()


def test_a_run_killed_before_its_first_checkpoint_starts_again(
    toy_policy: Any, toy_venv: Any, tmp_path: Path
) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"step": 24, "losses/loss": 1.0}\n')
    (tmp_path / "checkpoints" / ".write_step_000000000024").mkdir(parents=True)
    trainer = PPO(toy_policy(), toy_venv(4), PPOConfig(**OPTIONS), tmp_path, resume=True)
    assert trainer.step == 0
    trainer.train(24)
    assert [line["step"] for line in read_metrics(tmp_path / "metrics.jsonl")] == [24]
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step_000000000024"]


def test_a_run_whose_checkpoints_are_gone_is_not_started_again(
    toy_policy: Any, toy_venv: Any, tmp_path: Path
) -> None:
    config = PPOConfig(**OPTIONS)
    PPO(toy_policy(), toy_venv(4), config, tmp_path).train(72)
    shutil.rmtree(tmp_path / "checkpoints")
    with raises(CheckpointError, str(tmp_path / "checkpoints"), 72):
        PPO(toy_policy(), toy_venv(4), config, tmp_path, resume=True)
    assert [line["step"] for line in read_metrics(tmp_path / "metrics.jsonl")] == [24, 48, 72]


def archive(run: Path) -> bytes:
    """Compress the metrics of a run; return them."""
    content = (run / "metrics.jsonl").read_bytes()
    (run / "metrics.jsonl.gz").write_bytes(gzip.compress(content))
    (run / "metrics.jsonl").unlink()
    return content


@pytest.mark.parametrize("is_killed", [False, True])
def test_an_archived_run_keeps_its_metrics(
    is_killed: bool, toy_policy: Any, toy_venv: Any, tmp_path: Path
) -> None:
    config = PPOConfig(**OPTIONS)
    PPO(toy_policy(), toy_venv(4), config, tmp_path).train(48)
    content = archive(tmp_path)
    if is_killed:  # after the metrics were unpacked, before the compressed ones were removed
        (tmp_path / "metrics.jsonl").write_bytes(content)
    trainer = PPO(toy_policy(), toy_venv(4), config, tmp_path, resume=True)
    assert (tmp_path / "metrics.jsonl").read_bytes() == content
    assert not (tmp_path / "metrics.jsonl.gz").exists()
    trainer.train(72)
    assert [line["step"] for line in read_metrics(tmp_path / "metrics.jsonl")] == [24, 48, 72]


def test_archived_metrics_are_not_lost(toy_policy: Any, toy_venv: Any, tmp_path: Path) -> None:
    config = PPOConfig(**OPTIONS)
    PPO(toy_policy(), toy_venv(4), config, tmp_path).train(48)
    archive(tmp_path)
    packed = tmp_path / "metrics.jsonl.gz"
    whole = packed.read_bytes()
    (tmp_path / "metrics.jsonl").write_text('{"step": 72}\n')
    with raises(CheckpointError, tmp_path, "metrics.jsonl", "metrics.jsonl.gz"):
        PPO(toy_policy(), toy_venv(4), config, tmp_path, resume=True)
    (tmp_path / "metrics.jsonl").unlink()
    packed.write_bytes(whole[:-20])
    with raises(CheckpointError, packed):
        PPO(toy_policy(), toy_venv(4), config, tmp_path, resume=True)
    packed.write_bytes(whole)
    shutil.rmtree(tmp_path / "checkpoints")
    with raises(FileExistsError, tmp_path):
        PPO(toy_policy(), toy_venv(4), config, tmp_path)
    (tmp_path / "run.json").unlink()
    with raises(CheckpointError, tmp_path / "checkpoints"):
        PPO(toy_policy(), toy_venv(4), config, tmp_path, resume=True)
    assert packed.read_bytes() == whole and not (tmp_path / "metrics.jsonl").exists()


def test_wrong_arguments_are_one_sentence(toy_policy: Any, toy_venv: Any, tmp_path: Path) -> None:
    config = PPOConfig(**OPTIONS)
    with raises(FileNotFoundError, str(tmp_path / "missing")):
        PPO(toy_policy(), toy_venv(4), config, tmp_path / "missing", resume=True)
    (tmp_path / "file").touch()
    with raises(NotADirectoryError, str(tmp_path / "file"), "folder"):
        PPO(toy_policy(), toy_venv(4), config, tmp_path / "file")
    for resume in (False, True):
        with raises(NotADirectoryError, f"{tmp_path / 'file' / 'a' / 'run'}:", f"{tmp_path / 'file'} "):
            PPO(toy_policy(), toy_venv(4), config, tmp_path / "file" / "a" / "run", resume=resume)
    with raises(TypeError, "PPOConfig", "{'gamma': 0.9}"):
        PPO(toy_policy(), toy_venv(4), {"gamma": 0.9})  # type: ignore[arg-type]
    with raises(ValueError, "total_timesteps", -5):
        PPO(toy_policy(), toy_venv(4), config).train(-5)


def test_resuming_from_a_corrupt_checkpoint_offers_the_previous_one(
    toy_policy: Any, toy_venv: Any, tmp_path: Path
) -> None:
    config = PPOConfig(**OPTIONS, checkpoint_interval=24)
    PPO(toy_policy(), toy_venv(4), config, tmp_path).train(48)
    good, spoiled = checkpoint_paths(tmp_path / "checkpoints")
    (spoiled / "policy.safetensors").write_bytes(b"x" * 100)
    with raises(CheckpointError, "policy.safetensors", good):
        PPO(toy_policy(), toy_venv(4), config, tmp_path, resume=True)
    trainer = PPO(toy_policy(), toy_venv(4), config)
    trainer.restore(good)
    assert trainer.step == 24


# -- the folder ----------------------------------------------------------------------------------------------


def test_a_run_writes_its_configuration_metrics_and_tensorboard_events(
    toy_policy: Any, toy_venv: Any, tmp_path: Path
) -> None:
    accumulators = importlib.import_module("tensorboard.backend.event_processing.event_accumulator")

    PPO(toy_policy(), toy_venv(4), PPOConfig(**OPTIONS), tmp_path).train()
    config = yaml.safe_load((tmp_path / "config.yaml").read_text())
    assert config["ppo"]["learning_rate"] == 0.01 and config["env"]["num_envs"] == 4
    assert (config["network"], config["baseline"]) == (f"{toy_policy.__module__}:ToyPolicy", {"scale": 0.1})
    lines = read_metrics(tmp_path / "metrics.jsonl")
    assert [line["step"] for line in lines] == [24, 48, 72, 96, 120, 144]
    names = {
        *("charts/learning_rate", "charts/entropy_coef", "charts/SPS", "charts/episodic_return"),
        *("charts/episodic_return_std", "charts/episodic_return_min", "charts/episodic_return_max"),
        *("charts/episodic_length", "losses/policy_loss", "losses/value_loss", "losses/entropy"),
        *("losses/approx_kl", "losses/old_approx_kl", "losses/clipfrac", "losses/grad_norm"),
        *("losses/explained_variance", "time/env", "time/inference", "time/storage", "time/update"),
    }
    assert names <= set(lines[-1])
    events = accumulators.EventAccumulator(str(tmp_path)).Reload()
    (text,) = events.Tensors("hyperparameters/text_summary")[0].tensor_proto.string_val
    assert b"learning_rate: 0.01" in text
    assert names <= set(events.Tags()["scalars"])
    assert [e.step for e in events.Scalars("losses/policy_loss")] == [24, 48, 72, 96, 120, 144]


def test_training_on_in_the_same_process_keeps_what_tensorboard_shows(
    toy_policy: Any, toy_venv: Any, tmp_path: Path
) -> None:
    trainer = PPO(toy_policy(), toy_venv(4), PPOConfig(**OPTIONS), tmp_path)
    trainer.train(24)
    time.sleep(1.1)  # TensorBoard orders files by their names, and names of one second by number as text
    trainer.train(48)
    accumulators = importlib.import_module("tensorboard.backend.event_processing.event_accumulator")
    events = accumulators.EventAccumulator(str(tmp_path)).Reload()
    assert [e.step for e in events.Scalars("losses/policy_loss")] == [24, 48]


def test_the_number_of_steps_that_train_was_told_is_noted(
    toy_policy: Any, toy_venv: Any, tmp_path: Path
) -> None:
    def noted() -> dict[str, Any]:
        ppo: dict[str, Any] = yaml.safe_load((tmp_path / "config.yaml").read_text())["ppo"]
        return ppo

    trainer = PPO(toy_policy(), toy_venv(), PPOConfig(**OPTIONS), run_dir=tmp_path)
    before = noted()
    for steps in (24, np.int64(48)):
        trainer.train(steps, progress=False)
        assert noted() == {**before, "total_timesteps": steps}
    trainer.train(progress=False)
    assert noted() == before


def test_a_configuration_that_is_there_already_stays(toy_policy: Any, toy_venv: Any, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("fuller: true\n")
    PPO(toy_policy(), toy_venv(4), PPOConfig(**OPTIONS), tmp_path).train(24)
    assert (tmp_path / "config.yaml").read_text() == "fuller: true\n"


def test_a_trainer_that_never_trained_leaves_no_configuration_to_the_next(
    toy_policy: Any, toy_venv: Any, tmp_path: Path
) -> None:
    for gamma in (0.5, 0.75):
        PPO(toy_policy(), toy_venv(4), PPOConfig(**OPTIONS, gamma=gamma), tmp_path)
    assert yaml.safe_load((tmp_path / "config.yaml").read_text())["ppo"]["gamma"] == 0.75
    PPO(toy_policy(), toy_venv(4), PPOConfig(**OPTIONS, gamma=0.9), tmp_path, resume=True)
    assert yaml.safe_load((tmp_path / "config.yaml").read_text())["ppo"]["gamma"] == 0.75


def test_metrics_keep_whole_lines_up_to_the_resumed_step(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    for step in (10, 20, 30):
        folder.log(step, {"a": step / 2, "b": float("nan")})
    folder.close()
    with folder.metrics.open("a") as file:
        file.write('{"step": 25, "a"')
    assert [line["step"] for line in read_metrics(folder.metrics)] == [10, 20, 30], "a torn line is not read"
    folder.purge(20)
    assert folder.metrics.read_text() == '{"step": 10, "a": 5.0}\n{"step": 20, "a": 10.0}\n'
    folder.log(40, {"a": 1.0})
    folder.close()
    assert [line["step"] for line in read_metrics(folder.metrics)] == [10, 20, 40]


# -- kill -9 -------------------------------------------------------------------------------------------------

TRAINING = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("toys", sys.argv[1])
toys = importlib.util.module_from_spec(spec)
spec.loader.exec_module(toys)
from entitize.trainers import PPO, PPOConfig
config = PPOConfig(total_timesteps=10**9, num_steps=6, minibatch_size=12, update_epochs=1, learning_rate=0.01,
                   anneal_lr=False, anneal_entropy=False, checkpoint_interval=48)
PPO(toys.ToyPolicy(), toys.StatefulToyVectorEnv(4), config, sys.argv[2]).train()
"""


def test_a_run_killed_at_any_moment_goes_on_as_if_nothing_had_happened(
    toy_policy: Any, stateful_toy_venv: Any, tmp_path: Path
) -> None:
    run, toys = tmp_path / "killed", Path(__file__).with_name("conftest.py")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    process = subprocess.Popen([sys.executable, "-c", TRAINING, str(toys), str(run)], env=environment)
    try:
        checkpoints = run / "checkpoints"
        wait_until(lambda: process.poll() is not None or len(checkpoint_paths(checkpoints)) >= 2)
        assert process.poll() is None, "the training ended by itself"
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()

    latest = checkpoint_paths(run / "checkpoints")[-1]
    logged = [json.loads(line)["step"] for line in (run / "metrics.jsonl").read_text().splitlines()[:-1]]
    assert logged[-1] - step_of(latest) <= 48, "no more is lost than what came after the last checkpoint"
    read_checkpoint(latest)

    config = PPOConfig(
        total_timesteps=10**9, num_steps=6, minibatch_size=12, update_epochs=1, learning_rate=0.01,
        anneal_lr=False, anneal_entropy=False, checkpoint_interval=48,
    )  # fmt: skip
    resumed = PPO(toy_policy(), stateful_toy_venv(4), config, run, resume=True)
    assert resumed.step == step_of(latest)
    resumed.train(resumed.step + 24)
    whole = PPO(toy_policy(), stateful_toy_venv(4), config)
    whole.train(resumed.step)
    assert_equal_states(whole, resumed)
    steps = [line["step"] for line in read_metrics(run / "metrics.jsonl")]
    assert steps == list(range(24, resumed.step + 1, 24)), "every update once, none twice"
