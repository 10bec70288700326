"""Training on a GPU that is none (see `pretend_gpu`): nothing mixes the host's memory with the GPU's.

test_devices.py compares the numbers on a GPU, where there is one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import entitize as ez
import numpy as np
import pytest
import torch
from entitize.trainers import PPOConfig
from entitize.trainers.learners.graph_learner import GraphLearner

from pretend_gpu import pretend_gpu

OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "parts of minibatches": {"microbatch_size": 32},
    "one ratio per step": {"joint_log_prob": True},
    "value first": {"value_warmup_steps": 100},
    "penalty": {"start_kl_coef": 0.1},
    "stopping early": {"target_kl": 0.01, "normalize_rewards": True},
}


def config(**options: Any) -> PPOConfig:
    return PPOConfig(num_steps=8, minibatch_size=32, update_epochs=2, anneal_lr=False, **options)


def trained(engine: str, device: str, run_dir: Path | None = None, **options: Any) -> ez.RogueNet:
    venv = ez.make_vec("entitize/MultiSnake-v0", num_envs=8)
    torch.manual_seed(0)
    space = venv.single_observation_space
    net = ez.RogueNet(space, space.actions, engine=engine, d_model=16)  # type: ignore[arg-type]
    ez.PPO(net, venv, config(device=device, **options), run_dir=run_dir).train(128, progress=False)
    return net


def test_mixing_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pretend_gpu(monkeypatch):
        there = torch.ones(2, device="cuda")
        with pytest.raises(RuntimeError, match="same device"):
            there + torch.ones(2)
        with pytest.raises(TypeError, match="cpu"):
            there.numpy()
        assert (there.cpu() + torch.ones(2)).tolist() == [2, 2]


@pytest.mark.parametrize("engine", ["auto", "torch"])
@pytest.mark.parametrize("name", OPTIONS)
def test_training(name: str, engine: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    on_cpu = trained("torch", "cpu", **OPTIONS[name])
    with pretend_gpu(monkeypatch):
        net = trained(engine, "cuda", tmp_path / "run", **OPTIONS[name])
        assert next(net.parameters()).device.type == "cuda"
        assert net.engine.name == ("graphs" if engine == "auto" else "torch")
        weights = {name: tensor.cpu() for name, tensor in net.state_dict().items()}
        for key, expected in on_cpu.state_dict().items():
            torch.testing.assert_close(weights[key], expected, rtol=1e-3, atol=1e-4)
        venv = ez.make_vec("entitize/MultiSnake-v0", num_envs=8)
        again = ez.RogueNet(
            venv.single_observation_space, venv.single_action_space, engine=engine, d_model=16
        )
        resumed = config(device="cuda", **OPTIONS[name])
        ez.PPO(again, venv, resumed, run_dir=tmp_path / "run", resume=True).train(256, progress=False)
        assert ez.evaluate(again, venv, 4).returns.size == 4
    assert np.isfinite(ez.load_policy(tmp_path / "run").value_head.proj.weight.detach().numpy()).all()  # type: ignore[attr-defined]


def test_sb3(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pretend_gpu(monkeypatch):
        venv = ez.sb3.make_vec(ez.make_vec("entitize/MultiSnake-v0", num_envs=4))
        model = ez.sb3.PPO(venv, n_steps=16, batch_size=32, n_epochs=1, device="cuda")
        model.learn(64)
        assert model.policy.device.type == "cuda"
        model.predict(venv.reset())


def test_an_optimizer_that_no_graph_can_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    with pretend_gpu(monkeypatch):
        venv = ez.make_vec("entitize/MultiSnake-v0", num_envs=8)
        net = ez.RogueNet(venv.single_observation_space, venv.single_action_space)
        trainer = ez.PPO(net, venv, config(device="cuda"))
        assert isinstance(trainer.learner, GraphLearner) and trainer.learner.is_whole
        trainer.optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
        assert not trainer.learner.is_whole
        rates = {0.01: False, torch.tensor(0.01, device="cuda"): True}  # a graph would not see another number
        for rate, is_held in rates.items():
            trainer.optimizer = torch.optim.AdamW(net.parameters(), lr=rate, capturable=True)
            assert trainer.learner.is_whole is is_held
        trainer.optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
        before = net.value_head.proj.bias.cpu()
        trainer.train(64, progress=False)
        assert not torch.equal(net.value_head.proj.bias.cpu(), before)


@pytest.mark.parametrize("num_threads", [1, 3])
def test_minibatches_are_gathered_in_their_order(num_threads: int) -> None:
    venv = ez.make_vec("entitize/MineSweeper-v0", num_envs=8)
    net = ez.RogueNet(venv.single_observation_space, venv.single_action_space)
    samples = ez.PPO(net, venv, config()).collect()
    parts = np.array_split(np.random.default_rng(0).permutation(len(samples)), 7)
    for rows, found in zip(parts, samples.gather_each(parts, num_threads), strict=True):
        expected = samples.gather(rows)
        np.testing.assert_array_equal(found.values, expected.values)
        for name, entities in expected.observations.entities.items():
            np.testing.assert_array_equal(found.observations.entities[name].values, entities.values)
    with pytest.raises(IndexError):
        list(samples.gather_each([parts[0], np.array([len(samples)])], num_threads))
