"""Updates on arrays of fixed shapes, as on a GPU, against the ragged ones; all on the CPU."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from entitize.envs import make_vec
from entitize.policies.engines.graphs import cuda
from entitize.policies.engines.graphs.static_network import StaticForm
from entitize.policies.rogue_net import RogueNet
from entitize.trainers import PPO, NonFiniteError, PPOConfig
from entitize.trainers.learners.device import make_optimizer, place, set_learning_rate
from entitize.trainers.learners.device_update import DeviceUpdate, device_update

CONFIG = PPOConfig(num_steps=16, minibatch_size=48, update_epochs=3, learning_rate=0.003, target_kl=0.5)


def trainer_of(config: PPOConfig, fixed_shapes: bool, env_id: str = "entitize/MultiSnake-v0") -> PPO:
    """float64, so that the ways differ by no more than what they get in float32."""
    venv = make_vec(env_id, num_envs=8)
    torch.manual_seed(0)
    net = RogueNet(venv.single_observation_space, venv.single_action_space, d_model=8, n_layer=1).double()
    trainer = PPO(net, venv, config)
    if fixed_shapes:
        trainer.device_update = DeviceUpdate(StaticForm(net), net, trainer.optimizer, config)
    return trainer


def assert_same_training(one: PPO, other: PPO, updates: int) -> None:
    for _ in range(updates):
        one.collect()
        other.collect()
        ours, theirs = one.update(), other.update()
        assert ours.keys() == theirs.keys()
        for name, value in theirs.items():
            np.testing.assert_allclose(ours[name], value, rtol=2e-5, atol=2e-6, err_msg=name)
    for name, tensor in other.module.state_dict().items():
        torch.testing.assert_close(one.module.state_dict()[name], tensor, rtol=1e-5, atol=1e-6, msg=name)


@pytest.mark.parametrize(
    "options", [{}, {"joint_log_prob": True, "clip_vloss": False}, {"norm_adv": False, "anneal_lr": False}]
)
def test_updates_are_those_of_ragged_minibatches(options: Any) -> None:
    config = replace(CONFIG, **options)
    assert_same_training(trainer_of(config, True), trainer_of(config, False), 3)


def test_selecting_actions_are_learned_alike() -> None:
    trainers = (trainer_of(CONFIG, way, "entitize/PickMatchingBalls-v0") for way in (True, False))
    assert_same_training(*trainers, 2)  # type: ignore[arg-type]


def test_a_replayed_graph_makes_the_same_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a stand-in for CUDA graphs: a capture runs nothing, a replay works on the capture's memory."""
    replays = []

    def capture(function: Any, device: torch.device) -> Any:
        result = torch.zeros(8, dtype=torch.float64)
        return result, lambda: replays.append(result.copy_(function().detach()))

    monkeypatch.setattr(cuda, "aside", lambda function, device: function())
    monkeypatch.setattr(cuda, "capture", capture)
    graphed, plain = trainer_of(CONFIG, True), trainer_of(CONFIG, True)
    assert graphed.device_update is not None
    graphed.device_update.graphs.captures = True
    assert_same_training(graphed, plain, 3)
    assert len(replays) > 9


def test_a_step_that_is_not_finite_is_undone() -> None:
    trainer = trainer_of(CONFIG, True)
    trainer.collect()
    trainer.update()
    samples = trainer.collect()
    samples.returns[5] = np.inf
    before = {name: tensor.clone() for name, tensor in trainer.module.state_dict().items()}
    with pytest.raises(NonFiniteError, match="value_loss is inf"):
        trainer.update()
    for name, tensor in trainer.module.state_dict().items():
        torch.testing.assert_close(tensor, before[name], rtol=0, atol=0)


def test_graphs_are_not_used_once_the_optimizer_was_loaded() -> None:
    trainer = trainer_of(CONFIG, True)
    trainer.collect()
    trainer.update()
    update = trainer.device_update
    assert update is not None
    token = update._token()
    trainer.collect()
    trainer.update()
    assert update._token() == token
    trainer.optimizer.load_state_dict(trainer.optimizer.state_dict())
    assert update._token() == token  # torch keeps the tensors that it is given
    state = {
        i: {n: t.clone() for n, t in entry.items()}
        for i, entry in trainer.optimizer.state_dict()["state"].items()
    }
    trainer.optimizer.load_state_dict({**trainer.optimizer.state_dict(), "state": state})
    assert update._token() != token


def test_what_it_does_not_take_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    trainer = trainer_of(replace(CONFIG, microbatch_size=8), True)
    assert trainer.device_update is not None
    caplog.set_level(logging.INFO, "entitize.trainers.learners.device_update")
    assert not trainer.device_update.takes(trainer.collect())
    trainer.update()  # as ragged parts
    assert [record.message for record in caplog.records] == [
        "updates on the GPU launch kernels one at a time, on ragged arrays: minibatches are split"
    ]


def test_a_network_without_fixed_shapes_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    trainer = trainer_of(CONFIG, False)
    net = RogueNet(trainer.policy.observation_space, trainer.policy.action_space, pooling="mean")
    monkeypatch.setattr("entitize.trainers.learners.device_update.device_of", lambda _: torch.device("cuda"))
    with caplog.at_level(logging.INFO, "entitize.trainers.learners.device_update"):
        assert device_update(net, trainer.optimizer, CONFIG) is None
    assert caplog.records[0].message.endswith("on ragged arrays: it pools instead of attending")
    with pytest.raises(ValueError, match="precision='bf16' needs a policy with a static form: it pools"):
        device_update(net, trainer.optimizer, replace(CONFIG, precision="bf16"))


def test_devices_and_precisions() -> None:
    module = torch.nn.Linear(2, 2)
    assert place(module, PPOConfig()).type == place(module, PPOConfig(device="cpu")).type == "cpu"
    with pytest.raises(ValueError, match=r"torch sees \d+ GPUs"):
        place(module, PPOConfig(device="cuda:99"))
    with pytest.raises(ValueError, match="'bf16' is for GPUs"):
        place(module, PPOConfig(precision="bf16"))
    for wrong in ({"device": "gpu"}, {"precision": "fp16"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            PPOConfig(**wrong)
    with pytest.raises(TypeError, match="device must be str"):
        PPOConfig(device=0)  # type: ignore[arg-type]
    before = torch.get_float32_matmul_precision()
    with cuda.matrix_precision("tf32"):
        assert torch.get_float32_matmul_precision() == "high"
    assert torch.get_float32_matmul_precision() == before
    trainer = trainer_of(CONFIG, False)
    assert trainer.device_update is None
    assert device_update(trainer.policy, trainer.optimizer, CONFIG) is None


def test_a_learning_rate_on_the_device_changes_in_place() -> None:
    module = torch.nn.Linear(2, 1)
    optimizer = make_optimizer(module.parameters(), CONFIG, torch.device("cpu"))
    set_learning_rate(optimizer, 0.5)
    assert optimizer.param_groups[0]["lr"] == 0.5
    held = optimizer.param_groups[0]["lr"] = torch.tensor(0.1)
    set_learning_rate(optimizer, 0.25)
    assert optimizer.param_groups[0]["lr"] is held and float(held) == 0.25
