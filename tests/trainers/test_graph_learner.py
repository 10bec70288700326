"""Updates on arrays of fixed shapes, as on a GPU, against the ragged ones; all on the CPU."""

from __future__ import annotations

import copy
import logging
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from entitize import RogueNet, make_vec
from entitize.policies.engines.graphs import matrix_precision
from entitize.trainers import PPO, NonFiniteError, PPOConfig, Samples
from entitize.trainers.learners import (
    GraphLearner,
    TorchLearner,
    make_optimizer,
    place,
    set_learning_rate,
)

from facts import raises

CONFIG = PPOConfig(num_steps=16, minibatch_size=48, update_epochs=2, learning_rate=0.003, target_kl=0.5)


def trainer_of(config: PPOConfig, fixed_shapes: bool, env_id: str = "entitize/MultiSnake-v0") -> PPO:
    """float64, so that the ways differ by no more than what they get in float32."""
    venv = make_vec(env_id, num_envs=8)
    torch.manual_seed(0)
    space, actions = venv.single_observation_space, venv.single_action_space
    engine = "graphs" if fixed_shapes else "torch"
    return PPO(RogueNet(space, actions, d_model=8, n_layer=1, engine=engine).double(), venv, config)


def learner_of(trainer: PPO) -> GraphLearner:
    assert isinstance(trainer.learner, GraphLearner)
    return trainer.learner


def assert_same_training(one: PPO, other: PPO, updates: int) -> None:
    for _ in range(updates):
        one.collect()
        other.collect()
        ours, theirs = one.update(), other.update()
        assert ours.keys() == theirs.keys()
        for name, value in theirs.items():
            np.testing.assert_allclose(ours[name], value, rtol=2e-5, atol=2e-6, err_msg=name)
    for name, tensor in other.policy.state_dict().items():
        torch.testing.assert_close(one.policy.state_dict()[name], tensor, rtol=1e-5, atol=1e-6, msg=name)


@pytest.mark.parametrize(
    "options", [{}, {"joint_log_prob": True, "clip_vloss": False}, {"norm_adv": False, "max_grad_norm": None}]
)
def test_updates_are_those_of_ragged_minibatches(options: Any) -> None:
    config = replace(CONFIG, **options)
    assert_same_training(trainer_of(config, True), trainer_of(config, False), 2)


def test_selecting_actions_are_learned_alike() -> None:
    trainers = (trainer_of(CONFIG, way, "entitize/PickMatchingBalls-v0") for way in (True, False))
    assert_same_training(*trainers, 2)  # type: ignore[arg-type]


def stand_in_for_graphs(monkeypatch: pytest.MonkeyPatch) -> list[list[torch.Tensor]]:
    """Stand in for CUDA graphs: a capture runs nothing, a replay works on the capture's memory.

    Returns for each capture the results of its replays.
    """
    captures: list[list[torch.Tensor]] = []

    def capture(function: Any, device: torch.device, pool: Any) -> Any:
        result = torch.zeros(0, dtype=torch.float64)
        replays: list[torch.Tensor] = []
        captures.append(replays)

        def replay() -> None:
            computed = function().detach()
            replays.append(result.resize_(computed.shape).copy_(computed))

        return result, replay, pool

    cuda = "entitize.policies.engines.graphs.cuda"
    monkeypatch.setattr(f"{cuda}.aside", lambda function, device: function())
    monkeypatch.setattr(f"{cuda}.capture", capture)
    return captures


def test_a_replayed_graph_makes_the_same_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    captures = stand_in_for_graphs(monkeypatch)
    graphed, plain = trainer_of(CONFIG, True), trainer_of(CONFIG, True)
    learner_of(graphed).graphs.captures = True
    assert_same_training(graphed, plain, 2)
    assert sum(map(len, captures)) > 4


def test_a_step_that_is_not_finite_is_undone() -> None:
    trainer = trainer_of(CONFIG, True)
    trainer.collect()
    trainer.update()
    samples = trainer.collect()
    samples.returns[5] = np.inf
    before = {name: tensor.clone() for name, tensor in trainer.policy.state_dict().items()}
    with raises(NonFiniteError, "value_loss", "inf"):
        trainer.update()
    for name, tensor in trainer.policy.state_dict().items():
        torch.testing.assert_close(tensor, before[name], rtol=0, atol=0)


def test_numbers_of_an_update_that_an_error_ended_are_forgotten() -> None:
    trainer = trainer_of(CONFIG, True)
    samples = trainer.collect()
    learner, calls = learner_of(trainer), 0
    step = learner.step

    def interrupted(minibatch: Samples, ent_coef: float) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise KeyboardInterrupt
        return step(replace(minibatch, returns=np.full_like(minibatch.returns, np.inf)), ent_coef)

    learner.step = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        trainer.update(samples)
    learner.step = step  # type: ignore[method-assign]
    assert np.isfinite(trainer.update(trainer.collect())["losses/loss"])


def test_graphs_are_not_used_once_the_optimizer_was_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    captures = stand_in_for_graphs(monkeypatch)
    trainer = trainer_of(CONFIG, True)
    learner, samples = learner_of(trainer), trainer.collect()
    learner.graphs.captures = True

    def captured() -> int:
        before = len(captures)
        for _ in range(5):
            learner.step(samples, 0.01)
        learner.read()
        return len(captures) - before

    assert (captured(), captured()) == (1, 0)
    trainer.optimizer.load_state_dict(trainer.optimizer.state_dict())
    assert captured() == 0  # torch keeps the tensors that it is given
    state = {
        i: {n: t.clone() for n, t in entry.items()}
        for i, entry in trainer.optimizer.state_dict()["state"].items()
    }
    trainer.optimizer.load_state_dict({**trainer.optimizer.state_dict(), "state": state})
    assert captured() == 1


@pytest.mark.parametrize("is_graphed", [False, True])
@pytest.mark.parametrize("microbatch_size", [7, 48])
def test_split_minibatches(microbatch_size: int, is_graphed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    captures = stand_in_for_graphs(monkeypatch)
    config = replace(CONFIG, microbatch_size=microbatch_size)
    split, whole = trainer_of(config, True), trainer_of(CONFIG, False)
    learner_of(split).graphs.captures = is_graphed
    assert not learner_of(split).is_whole
    assert_same_training(split, whole, 2)
    assert (sum(map(len, captures)) > 4) is is_graphed


@pytest.mark.parametrize("microbatch_size", [None, 48])
def test_graphs_are_not_used_once_a_part_is_frozen(
    microbatch_size: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    captures = stand_in_for_graphs(monkeypatch)
    trainer = trainer_of(replace(CONFIG, microbatch_size=microbatch_size), True)
    learner_of(trainer).graphs.captures = True
    for is_learning in (True, False, True):
        before, weights = len(captures), trainer.policy.value_head.proj.weight.clone()
        trainer.policy.value_head.requires_grad_(is_learning)
        trainer.collect()
        trainer.update()
        assert len(captures) > before
        assert torch.equal(weights, trainer.policy.value_head.proj.weight) is not is_learning


@pytest.mark.parametrize("microbatch_size", [None, 48])
def test_hooks_of_parameters_run_at_each_step(
    microbatch_size: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in_for_graphs(monkeypatch)
    trainer, calls = trainer_of(replace(CONFIG, microbatch_size=microbatch_size), True), []
    learner, samples = learner_of(trainer), trainer.collect()
    learner.graphs.captures = True
    minibatch = samples.gather(np.arange(48))
    for is_hooked in (False, True):
        if is_hooked:
            trainer.policy.value_head.proj.weight.register_post_accumulate_grad_hook(calls.append)
        for _ in range(5):
            learner.step(minibatch, 0.01)
        learner.read()
        assert len(calls) == 5 * is_hooked


class Momentum(torch.optim.Optimizer):
    """Replaces its state at each step."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {"lr": 0.01})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for p in self.param_groups[0]["params"]:
            if p.grad is not None:
                self.state[p]["mean"] = 0.9 * self.state[p].get("mean", 0.0) + p.grad
                p -= 0.01 * self.state[p]["mean"]


def test_gradients_are_captured_whatever_the_optimizer_does(monkeypatch: pytest.MonkeyPatch) -> None:
    captures = stand_in_for_graphs(monkeypatch)
    graphed, plain = trainer_of(replace(CONFIG, microbatch_size=24), True), trainer_of(CONFIG, False)
    for trainer in (graphed, plain):
        trainer.optimizer = Momentum(trainer.policy.parameters())
    learner_of(graphed).graphs.captures = True
    assert_same_training(graphed, plain, 2)
    assert sum(map(len, captures)) > 4


def test_networks_without_fixed_shapes_are_left_to_torch(caplog: pytest.LogCaptureFixture) -> None:
    trainer = trainer_of(CONFIG, False)
    net = RogueNet(
        trainer.policy.observation_space, trainer.policy.action_space, pooling="mean", engine="graphs"
    )
    assert net.engine.name == "torch" and "pooling" in net.engine.reason
    with caplog.at_level(logging.WARNING, "entitize.policies"):
        trainer = PPO(net, trainer.venv, CONFIG)
        trainer.collect()
    assert [record.message for record in caplog.records if "pooling" in record.message]
    assert isinstance(trainer.learner, TorchLearner)


def test_devices_and_precisions() -> None:
    module = torch.nn.Linear(2, 2)
    assert place(module, "auto").type == place(module, "cpu").type == "cpu"
    with raises(ValueError, "cuda:99"):
        place(module, "cuda:99")
    with raises(ValueError, "precision", "tf32"):
        place(module, "auto", "tf32")
    for wrong in ({"device": "gpu"}, {"precision": "bf16"}):
        with raises(ValueError, next(iter(wrong))):
            PPOConfig(**wrong)
    with raises(TypeError, "device", "str"):
        PPOConfig(device=0)  # type: ignore[arg-type]
    before = torch.get_float32_matmul_precision()
    with matrix_precision("tf32"):
        assert torch.get_float32_matmul_precision() == "high"
    assert torch.get_float32_matmul_precision() == before


def test_a_learning_rate_on_the_device_changes_in_place() -> None:
    module = torch.nn.Linear(2, 1)
    optimizer = make_optimizer(module.parameters(), CONFIG, torch.device("cpu"))
    set_learning_rate(optimizer, 0.5)
    assert optimizer.param_groups[0]["lr"] == 0.5
    held = optimizer.param_groups[0]["lr"] = torch.tensor(0.1)
    set_learning_rate(optimizer, 0.25)
    assert optimizer.param_groups[0]["lr"] is held and float(held) == 0.25


@pytest.mark.parametrize("microbatch_size", [None, 20])
@pytest.mark.parametrize("part", ["head", "linear", "block"])
def test_modules_that_are_replaced_learn(part: str, microbatch_size: int | None) -> None:
    """After the trainer was made, and with an optimizer of the new parameters: as in torch."""
    config = replace(CONFIG, microbatch_size=microbatch_size, target_kl=None)
    trainers = [trainer_of(config, fixed_shapes) for fixed_shapes in (True, False)]
    assert_same_training(*trainers, 1)
    for trainer in trainers:
        replace_module(trainer.policy, part)
        trainer.optimizer = torch.optim.Adam(trainer.policy.parameters(), lr=0.003)
    before = {name: weights.detach().clone() for name, weights in trainers[0].policy.named_parameters()}
    assert_same_training(*trainers, 2)
    assert trainers[0].policy.engine.name == "graphs"
    same = [name for name, weights in trainers[0].policy.named_parameters() if weights.equal(before[name])]
    assert not same


def replace_module(net: Any, part: str) -> None:
    torch.manual_seed(1)
    if part == "head":
        net.action_heads["move"] = copy.deepcopy(net.action_heads["move"])
        torch.nn.init.normal_(net.action_heads["move"].proj.weight)
    elif part == "linear":
        net.action_heads["move"].proj = torch.nn.Linear(8, 4).double()
    else:
        block = net.policy_net.backbone.blocks[0]
        block.mlp = copy.deepcopy(block.mlp)
        for parameter in block.mlp.parameters():
            torch.nn.init.normal_(parameter, std=0.1)
