"""Networks and learners on every device at hand, against float64 torch on the CPU."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import entitize as ez
import numpy as np
import pytest
import stable_baselines3
import torch
from entitize.envs import batch_observations
from entitize.policies.engines.graphs import matrix_precision
from entitize.ragged import RaggedArray
from entitize.trainers import PPO, PPOConfig, Samples
from stable_baselines3.common.utils import obs_as_tensor

CPU = torch.device("cpu")
DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()
GPUS = [device for device in DEVICES if device != "cpu"]
NUMBERS = [(device, "float32") for device in DEVICES] + [(device, "tf32") for device in GPUS]
#: Relative error of one gradient step; TensorFloat-32 has 10 bits of mantissa.
TOLERANCE = {"float32": 1e-3, "tf32": 2e-2}
GAMES = ["entitize/MultiSnake-v0", "entitize/PickMatchingBalls-v0", "entitize/MineSweeper-v0"]
NETWORKS: dict[str, dict[str, Any]] = {
    "small": {"d_model": 16, "n_layer": 2, "n_head": 2},
    "value apart": {"d_model": 16, "n_layer": 1, "n_head": 2, "separate_value_net": True},
}
CONFIG = PPOConfig(num_steps=16, minibatch_size=128, update_epochs=1, ent_coef=0.01)


def samples_of(game: str) -> tuple[PPO, Samples]:
    """A trainer on the CPU, and its first rollout."""
    venv = ez.make_vec(game, num_envs=8)
    torch.manual_seed(0)
    net = ez.RogueNet(venv.single_observation_space, venv.single_action_space, engine="torch")
    trainer = ez.PPO(net, venv, CONFIG)
    return trainer, trainer.collect()


def network(samples: Samples, trainer: PPO, engine: str, options: dict[str, Any]) -> ez.RogueNet:
    torch.manual_seed(1)
    space = trainer.venv.single_observation_space
    net = ez.RogueNet(space, space.actions, engine=engine, **options)  # type: ignore[arg-type]
    net.update_normalization(samples.observations)
    return net


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("game", GAMES)
@pytest.mark.parametrize(("engine", "microbatch_size"), [("torch", None), ("graphs", None), ("graphs", 50)])
@pytest.mark.parametrize(("device", "precision"), NUMBERS)
def test_a_gradient_step(
    device: str, precision: str, engine: str, microbatch_size: int | None, game: str, name: str
) -> None:
    trainer, samples = samples_of(game)
    exact = network(samples, trainer, "torch", NETWORKS[name])
    net = copy.deepcopy(network(samples, trainer, engine, NETWORKS[name]))
    exact.double()
    options = {"device": device, "precision": precision, "microbatch_size": microbatch_size}
    expected = PPO(exact, trainer.venv, CONFIG).learner.step(samples, 0.01)
    learner = PPO(net, trainer.venv, replace(CONFIG, **options)).learner
    tolerance = TOLERANCE[precision]
    for _ in range(2 if device == "cpu" else 5):  # on a GPU until graphs are captured and replayed
        state = copy.deepcopy(net.state_dict())
        with matrix_precision(precision):
            found = dict(learner.step(samples, 0.01))
        gradients = {
            n: p.grad.detach().cpu().double() for n, p in net.named_parameters() if p.grad is not None
        }
        net.load_state_dict(state)
        for key in expected:
            assert found[key] == pytest.approx(expected[key], rel=tolerance, abs=tolerance), key
        for key, parameter in exact.named_parameters():
            if parameter.grad is None:
                assert key not in gradients or not gradients[key].any(), key
                continue
            scale = float(parameter.grad.abs().max()) + 1e-3
            difference = float((gradients[key] - parameter.grad).abs().max())
            assert difference <= 4 * tolerance * scale, (key, difference, scale)


@pytest.mark.parametrize("engine", ["torch", "graphs"])
@pytest.mark.parametrize("device", DEVICES)
def test_steps_of_an_optimizer_of_ones_own(device: str, engine: str) -> None:
    trainer, samples = samples_of("entitize/MultiSnake-v0")
    exact = network(samples, trainer, "torch", NETWORKS["small"])
    net = copy.deepcopy(network(samples, trainer, engine, NETWORKS["small"]))
    exact.double()
    for policy, config in ((exact, CONFIG), (net, replace(CONFIG, device=device))):
        made = PPO(policy, trainer.venv, config)
        made.optimizer = torch.optim.SGD(policy.parameters(), lr=0.3, momentum=0.9)
        for _ in range(6):  # on a GPU until graphs are captured and replayed
            made.learner.step(samples, 0.01)
    for key, parameter in exact.named_parameters():
        found = net.get_parameter(key).detach().cpu().double()
        torch.testing.assert_close(found, parameter.detach(), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("game", GAMES)
@pytest.mark.parametrize("engine", ["auto", "torch", "graphs"])
@pytest.mark.parametrize("device", DEVICES)
def test_acting(device: str, engine: str, game: str) -> None:
    """The probabilities and values that `act` reports are those of its choices in float64."""
    trainer, samples = samples_of(game)
    net = network(samples, trainer, engine, NETWORKS["small"])
    exact = network(samples, trainer, "torch", NETWORKS["small"]).double()
    net.to(device)
    batch = samples.observations
    result = net.act(batch, np.random.default_rng(2))
    expected = exact.evaluate(batch, result.actions)
    np.testing.assert_allclose(result.values, expected.values.detach(), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(net.value(batch), expected.values.detach(), rtol=1e-3, atol=1e-4)
    for action, log_probs in result.log_probs.items():
        values = log_probs.values if isinstance(log_probs, RaggedArray) else log_probs
        np.testing.assert_allclose(values, expected.log_probs[action].detach(), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("engine", ["torch", "graphs"])
@pytest.mark.parametrize("device", DEVICES)
def test_training_then_deciding_on_the_cpu(device: str, engine: str, tmp_path: Path) -> None:
    venv = ez.make_vec("entitize/MultiSnake-v0", num_envs=8)
    space = venv.single_observation_space
    net = ez.RogueNet(space, space.actions, engine=engine, d_model=16)  # type: ignore[arg-type]
    config = PPOConfig(num_steps=16, minibatch_size=32, update_epochs=2, device=device, anneal_lr=False)
    trainer = PPO(net, venv, config, run_dir=tmp_path / "run")
    trainer.train(512, progress=False)
    batch = trainer.collect().observations
    expected = net.value(batch)
    for loaded in (ez.load_policy(tmp_path / "run"), ez.load_agent(tmp_path / "run")):
        np.testing.assert_allclose(loaded.value(batch), expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("device", DEVICES)
def test_sb3(device: str) -> None:
    venv = ez.sb3.make_vec(ez.make_vec("entitize/MultiSnake-v0", num_envs=4))
    model = stable_baselines3.PPO(
        ez.sb3.RogueNetPolicy,
        venv,
        n_steps=16,
        batch_size=32,
        n_epochs=1,
        device=device,
        seed=0,
        rollout_buffer_class=ez.sb3.RaggedRolloutBuffer,
        policy_kwargs=NETWORKS["small"],
    )
    model.learn(128)
    observations = venv.reset()
    elsewhere = copy.deepcopy(model.policy).to("cpu")
    with torch.no_grad():
        given = obs_as_tensor(observations, model.device)  # type: ignore[arg-type]
        actions, *found = model.policy.forward(given)
        wanted = elsewhere.evaluate_actions(obs_as_tensor(observations, CPU), actions.cpu())  # type: ignore[arg-type]
    for number, right in zip(found, wanted, strict=False):
        torch.testing.assert_close(number.cpu(), right, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("device", DEVICES)
def test_impala(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)  # as convolutions do unless told
    actions = ez.EntityActionSpace({"act": ez.GlobalCategorical(15)})
    space = ez.EntitySpace({}, actions, frame=(64, 64, 3))
    torch.manual_seed(0)
    exact = ez.baselines.ImpalaNet(space, actions)
    net = copy.deepcopy(exact).to(device)
    exact.double()
    space.seed(0)
    allowed = {"act": {"mask": np.ones((1, 15), np.int8)}}
    batch = batch_observations(space, [{**space.sample(), "actions": allowed} for _ in range(4)])
    result = net.act(batch, np.random.default_rng(0))
    expected, found = (network.evaluate(batch, result.actions) for network in (exact, net))
    torch.testing.assert_close(found.values.cpu().double(), expected.values, rtol=2e-3, atol=2e-3)
    torch.testing.assert_close(
        found.log_probs["act"].cpu().double(), expected.log_probs["act"], rtol=2e-3, atol=2e-3
    )
    for evaluation in (found, expected):
        evaluation.values.sum().backward()
    for (name, parameter), right in zip(net.named_parameters(), exact.parameters(), strict=True):
        if right.grad is None:
            assert parameter.grad is None, name
            continue
        scale = float(right.grad.abs().max())
        assert parameter.grad is not None, name
        assert float((parameter.grad.cpu().double() - right.grad).abs().max()) <= 1e-2 * scale, name
