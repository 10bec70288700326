"""Loops and schedules of the user's own beside `train`, and what an error in an update leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from entitize.trainers import PPO, CheckpointError, PPOConfig, checkpoint_paths

from facts import raises

OPTIONS: dict[str, Any] = {
    "total_timesteps": 96,
    "num_steps": 6,
    "minibatch_size": 12,
    "update_epochs": 2,
    "learning_rate": 0.01,
}


def weights(trainer: PPO) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in trainer.policy.parameters()])


def test_a_rate_that_a_callback_sets_stays_where_none_is_annealed(toy_policy: Any, toy_venv: Any) -> None:
    seen = []

    def freeze(trainer: PPO, metrics: dict[str, float]) -> None:
        seen.append((metrics["charts/learning_rate"], weights(trainer)))
        for group in trainer.optimizer.param_groups:
            group["lr"] = 0.0

    PPO(toy_policy(), toy_venv(4), PPOConfig(**OPTIONS, anneal_lr=False), callbacks=[freeze]).train()
    assert [rate for rate, _ in seen] == [0.01, 0, 0, 0]
    assert all(torch.equal(seen[0][1], later) for _, later in seen[1:])


def test_a_scheduler_of_torch_sets_the_rate(toy_policy: Any, toy_venv: Any) -> None:
    trainer = PPO(toy_policy(), toy_venv(4), PPOConfig(**OPTIONS, anneal_lr=False))
    scheduler = torch.optim.lr_scheduler.ExponentialLR(trainer.optimizer, 0.5)
    rates = []
    for _ in range(4):
        trainer.collect()
        rates.append(trainer.update()["charts/learning_rate"])
        scheduler.step()
    np.testing.assert_allclose(rates, [0.01, 0.005, 0.0025, 0.00125])


def test_a_loop_of_ones_own_is_the_same_training(
    toy_policy: Any, toy_venv: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainers, told = [], []
    for _ in range(2):
        venv, heard = toy_venv(4), []
        monkeypatch.setattr(venv, "set_progress", heard.append)
        trainers.append(PPO(toy_policy(), venv, PPOConfig(**OPTIONS)))
        told.append(heard)
    trainers[0].train()
    while trainers[1].step < 96:
        trainers[1].collect()
        trainers[1].update()
    assert told[0] == told[1] == [0, 0.25, 0.5, 0.75]
    assert torch.equal(weights(trainers[0]), weights(trainers[1]))


def test_train_learns_from_the_rollout_that_waits(toy_policy: Any, toy_venv: Any) -> None:
    trainer, other = (PPO(toy_policy(), toy_venv(4), PPOConfig(**OPTIONS)) for _ in range(2))
    trainer.collect()
    trainer.train()
    other.train()
    assert (trainer.step, trainer.updates) == (other.step, other.updates) == (96, 4)
    assert torch.equal(weights(trainer), weights(other))


def test_an_error_in_an_update_loses_no_earlier_one(toy_policy: Any, toy_venv: Any, tmp_path: Path) -> None:
    trainer = PPO(toy_policy(), toy_venv(4), PPOConfig(**OPTIONS), tmp_path)
    step = trainer.learner.step

    def failing(minibatch: Any, ent_coef: float) -> Any:
        if trainer.updates == 2:
            raise MemoryError("out of memory")
        return step(minibatch, ent_coef)

    trainer.learner.step = failing  # type: ignore[method-assign]
    with raises(MemoryError, "out of memory"):
        trainer.train()
    again = PPO(toy_policy(), toy_venv(4), PPOConfig(**OPTIONS), tmp_path, resume=True)
    assert (again.step, again.updates) == (72, 2)  # the third rollout was taken
    assert torch.equal(weights(again), weights(trainer))


def test_an_adam_of_ones_own_is_assigned_again(toy_policy: Any, toy_venv: Any, tmp_path: Path) -> None:
    def make(resume: bool = False) -> PPO:
        return PPO(toy_policy(), toy_venv(4), PPOConfig(**OPTIONS), tmp_path, resume=resume)

    def own(trainer: PPO) -> torch.optim.Optimizer:
        return torch.optim.AdamW(trainer.policy.parameters(), lr=1e-5, betas=(0.5, 0.9))

    first = make()
    first.optimizer = own(first)
    first.train(48)
    with raises(CheckpointError, "trainer.optimizer"):
        make(resume=True).train()
    again = make(resume=True)
    again.optimizer = own(again)
    assert again.optimizer.state_dict()["state"].keys() == first.optimizer.state_dict()["state"].keys()
    metrics = again.train()
    assert metrics["charts/learning_rate"] == pytest.approx(1e-5 * 0.25)
    assert len(checkpoint_paths(tmp_path / "checkpoints")) == 2


def test_numbers_of_numpy_are_hyper_parameters(toy_policy: Any, toy_venv: Any, tmp_path: Path) -> None:
    rates = np.logspace(-4, -3, 3)
    options = {**OPTIONS, "learning_rate": rates[1]}
    PPO(toy_policy(), toy_venv(4), PPOConfig(**options), tmp_path).train(24)
    assert yaml.safe_load((tmp_path / "config.yaml").read_text())["ppo"]["learning_rate"] == rates[1]


def test_a_resumed_run_notes_its_hyper_parameters(toy_policy: Any, toy_venv: Any, tmp_path: Path) -> None:
    PPO(toy_policy(), toy_venv(4), PPOConfig(**OPTIONS), tmp_path).train(24)
    path = tmp_path / "config.yaml"
    path.write_text(path.read_text() + "eval:\n  seed: 3\n")  # as `entitize train` writes
    resumed = PPO(toy_policy(), toy_venv(4), PPOConfig(**OPTIONS, gamma=0.5), tmp_path, resume=True)
    assert yaml.safe_load(path.read_text())["ppo"]["gamma"] != 0.5  # it has not trained yet
    resumed.train(48)
    config = yaml.safe_load(path.read_text())
    assert (config["ppo"]["gamma"], config["eval"]) == (0.5, {"seed": 3})


def test_a_folder_without_a_name_is_refused(toy_policy: Any, toy_venv: Any) -> None:
    with raises(ValueError, "run_dir", "''"):
        PPO(toy_policy(), toy_venv(4), PPOConfig(**OPTIONS), "")
