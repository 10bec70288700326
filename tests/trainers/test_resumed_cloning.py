"""Runs of behaviour cloning: their configuration, stopped, resumed, asked for some epochs, undone."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import entitize as ez
import pytest
import torch
import yaml
from entitize.datasets import EntityDataset
from entitize.trainers import NonFiniteError

from nets import treasure_net


@pytest.fixture(scope="module")
def plays(tmp_path_factory: Any) -> Path:
    path: Path = tmp_path_factory.mktemp("plays") / "plays"
    ez.record(ez.make_vec("TreasureHunt", num_envs=8), None, path, episodes=24, seed=3)
    return path


def test_a_run_that_was_stopped_after_its_best_epoch_goes_on_from_its_last(
    plays: Path, tmp_path: Path
) -> None:
    dataset, seen = EntityDataset(plays), list[float]()

    def is_worse(_: ez.BehaviorCloning, metrics: dict[str, float]) -> bool:
        seen.append(metrics["held_out/log_likelihood"])
        return seen[-1] < max(seen)

    config = ez.BehaviorCloningConfig(
        epochs=6, minibatch_size=64, patience=None, learning_rate=0.3, anneal_lr=False
    )
    whole, first, second = treasure_net(), treasure_net(), treasure_net(5)
    ez.BehaviorCloning(whole, dataset, config, tmp_path / "whole").train()
    ez.BehaviorCloning(first, dataset, config, tmp_path / "parts", callbacks=[is_worse]).train()
    assert 1 < len(seen) < 6
    ez.BehaviorCloning(second, dataset, config, tmp_path / "parts", resume=True).train()
    for name, tensor in whole.state_dict().items():
        torch.testing.assert_close(second.state_dict()[name], tensor, rtol=0, atol=0)


def test_the_learning_rate_falls_over_the_epochs_that_are_asked_for(plays: Path) -> None:
    net = treasure_net()
    config = ez.BehaviorCloningConfig(epochs=30, minibatch_size=2048, learning_rate=0.5, patience=None)
    rates: list[float] = []
    trainer = ez.BehaviorCloning(
        net,
        EntityDataset(plays),
        config,
        callbacks=[lambda trainer, _: rates.append(trainer.optimizer.param_groups[0]["lr"])],
    )
    trainer.train(4)
    minibatches = math.ceil(len(trainer.demonstrations.learned) / 2048)
    lasts = [epoch + (minibatches - 1) / minibatches for epoch in range(4)]
    assert rates == pytest.approx([0.5 * (1 - last / 4) for last in lasts])


def test_a_resumed_clone_goes_on_counting_its_time(plays: Path, tmp_path: Path) -> None:
    dataset, config = EntityDataset(plays), ez.BehaviorCloningConfig(epochs=1, minibatch_size=512)
    first = ez.BehaviorCloning(treasure_net(), dataset, config, tmp_path / "run")
    first.train()
    again = ez.BehaviorCloning(treasure_net(), dataset, config, tmp_path / "run", resume=True)
    assert again.elapsed_seconds == first.elapsed_seconds > 0


def test_the_run_of_a_clone_names_the_environment_and_its_view(tmp_path: Path) -> None:
    options: dict[str, Any] = {"view": {"view": "Vector", "name": "Cart"}, "max_episode_steps": 9}
    with ez.make_vec("CartPole-v1", 2, **options) as venv:
        ez.record(venv, None, tmp_path / "plays", episodes=8, seed=0)
        net = ez.RogueNet(venv.single_observation_space, venv.single_action_space, d_model=8, n_layer=1)
    config = ez.BehaviorCloningConfig(epochs=1)
    ez.BehaviorCloning(net, EntityDataset(tmp_path / "plays"), config, tmp_path / "run").train()
    env = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())["env"]
    assert env == {"id": "CartPole-v1", "kwargs": {"max_episode_steps": 9}, "view": options["view"]}


def test_weights_that_overflow_are_an_error_and_put_back(plays: Path) -> None:
    """A single gradient step, after which nothing is computed that could be NaN."""
    net = treasure_net()
    config = ez.BehaviorCloningConfig(learning_rate=1e39, minibatch_size=1 << 20, held_out=0, anneal_lr=False)
    trainer = ez.BehaviorCloning(net, EntityDataset(plays), config)
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    with pytest.raises(NonFiniteError):
        trainer.train()
    for name, tensor in net.state_dict().items():
        torch.testing.assert_close(tensor, before[name], rtol=0, atol=0)
