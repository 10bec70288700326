"""Loops and schedules of the user's own beside `train`, and what an error in an update leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from entitize.trainers import PPO, CheckpointError, NonFiniteError, PPOConfig, checkpoint_paths

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


def test_a_loop_of_ones_own_is_the_same_training(toy_policy: Any, toy_venv: Any) -> None:
    trainer, own = (PPO(toy_policy(), toy_venv(4), PPOConfig(**OPTIONS)) for _ in range(2))
    trainer.train()
    while own.step < 96:
        own.collect()
        own.update()
    assert torch.equal(weights(trainer), weights(own))


@pytest.mark.parametrize("updates", [0, 3])
def test_train_learns_from_the_rollout_that_waits(updates: int, toy_policy: Any, toy_venv: Any) -> None:
    trainer, other = (PPO(toy_policy(), toy_venv(4), PPOConfig(**OPTIONS)) for _ in range(2))
    trainer.collect()
    for _ in range(updates):
        trainer.update()
        trainer.collect()
    trainer.train()
    other.train()
    assert (trainer.step, trainer.updates) == (other.step, other.updates) == (96, 4)
    assert torch.equal(weights(trainer), weights(other))


@pytest.mark.parametrize("failing_update", [2, 3])  # the last is the fourth
def test_an_error_in_an_update_loses_no_earlier_one_and_is_made_up_for(
    failing_update: int, toy_policy: Any, toy_venv: Any, tmp_path: Path
) -> None:
    trainer = PPO(toy_policy(), toy_venv(4), PPOConfig(**OPTIONS), tmp_path)
    step = trainer.learner.step

    def failing(minibatch: Any, ent_coef: float) -> Any:
        if trainer.updates == failing_update:
            raise MemoryError("out of memory")
        return step(minibatch, ent_coef)

    trainer.learner.step = failing  # type: ignore[method-assign]
    for _ in range(3):
        with raises(MemoryError, "out of memory"):
            trainer.train()
        assert (trainer.step, trainer.updates) == (24 * failing_update, failing_update)
    again = PPO(toy_policy(), toy_venv(4), PPOConfig(**OPTIONS), tmp_path, resume=True)
    assert (again.step, again.updates) == (24 * failing_update, failing_update)
    assert torch.equal(weights(again), weights(trainer))
    again.train()
    assert (again.step, again.updates) == (96, 4)


def test_a_rollout_with_a_wrong_number_is_not_tried_again(toy_policy: Any, toy_venv: Any) -> None:
    trainer = PPO(toy_policy(), toy_venv(4), PPOConfig(**OPTIONS))
    trainer.collect().observations.globals[3, 0] = np.nan
    with raises(NonFiniteError, "global feature 'time'"):
        trainer.train()
    trainer.train()
    assert (trainer.step, trainer.updates) == (96, 4)


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


def test_the_configuration_of_another_program_stays(toy_policy: Any, toy_venv: Any, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("name: trial\nppo: {lr: 0.1}  # mine\n")
    for resume in (False, True):
        PPO(toy_policy(), toy_venv(4), PPOConfig(**OPTIONS), tmp_path, resume=resume).train(24 + 24 * resume)
        assert path.read_text() == "name: trial\nppo: {lr: 0.1}  # mine\n"


def test_a_folder_without_a_name_is_refused(toy_policy: Any, toy_venv: Any) -> None:
    with raises(ValueError, "run_dir", "''"):
        PPO(toy_policy(), toy_venv(4), PPOConfig(**OPTIONS), "")
