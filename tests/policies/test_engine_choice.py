"""Which engine runs a network that was changed, what is said of it, and what both engines refuse alike."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from entitize.envs import (
    Categorical,
    Continuous,
    EntityActionSpace,
    EntityBatch,
    EntitySpace,
    SelectEntity,
    batch_observations,
)
from entitize.policies.rogue_net import RogueNet, RogueNetConfig
from entitize.policies.rogue_net.heads import ValueHead
from torch import nn
from torch.nn.utils import parametrizations, prune

ACTIONS: dict[str, Any] = {"move": Categorical(3), "aim": SelectEntity(), "steer": Continuous([-1.0], [1.0])}
SPACE = EntitySpace({"Unit": ["x", "y"]}, EntityActionSpace(ACTIONS))
CHOOSING = "entitize.policies.engines.engine_choice"


def make_batch() -> EntityBatch:
    SPACE.seed(0)
    return batch_observations(SPACE, [SPACE.sample() for _ in range(6)])


def make_pair(**options: Any) -> tuple[RogueNet, RogueNet]:
    """The same random network for each engine."""
    nets = []
    for engine in ("fused", "torch"):
        torch.manual_seed(0)
        net = RogueNet(SPACE, SPACE.actions, engine=engine, d_model=8, n_layer=1, **options)
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.2)
        nets.append(net)
    return nets[0], nets[1]


def replace_head(net: RogueNet) -> None:
    net.value_head = ValueHead(8)
    with torch.no_grad():
        net.value_head.proj.weight.add_(1.0)


def first_map(net: RogueNet) -> nn.Module:
    return next(m for m in net.policy_net.backbone.modules() if isinstance(m, nn.Linear))


CHANGES: dict[str, Callable[[RogueNet], Any]] = {
    "the module 'value_head' was replaced": replace_head,
    "the module 'proj' was replaced": lambda net: parametrizations.weight_norm(net.value_head.proj),
    "a module inside has hooks": lambda net: prune.random_unstructured(first_map(net), "weight", 0.5),
}


@pytest.mark.parametrize("reason", CHANGES)
def test_what_is_put_into_a_network_is_run_by_torch(reason: str) -> None:
    batch, numbers = make_batch(), []
    for net in make_pair():
        net.value(batch)
        torch.manual_seed(1)
        CHANGES[reason](net)
        evaluation = net.evaluate(batch, net.act(batch, np.random.default_rng(0)).drawn)
        (evaluation.values.sum() + evaluation.log_probs["move"].sum()).backward()
        gradients = [p.grad for p in net.parameters() if p.grad is not None]
        numbers.append((net.value(batch), len(gradients), sum(float(g.abs().sum()) for g in gradients)))
        wanted = reason if net.settings.engine == "fused" else "engine='torch'"
        assert net.engine == ("torch", wanted)
    (values, count, total), (torch_values, torch_count, torch_total) = numbers
    np.testing.assert_array_equal(values, torch_values)
    assert count == torch_count and total == pytest.approx(torch_total, rel=1e-6)


def test_copies_and_removed_hooks_are_as_they_were_built() -> None:
    net, _ = make_pair()
    twin = copy.deepcopy(net)
    hook = net.value_head.register_forward_hook(lambda *_: None)
    assert net.engine.name == "torch" and twin.engine.name == "fused"
    hook.remove()
    assert net.engine.name == "fused"
    twin.value_head = ValueHead(8)
    assert twin.engine.name == "torch" and net.engine.name == "fused"


def test_each_engine_is_told_once_and_one_that_nobody_wanted_loudly(caplog: pytest.LogCaptureFixture) -> None:
    fused, _ = make_pair(dropout=0.1)
    auto = RogueNet(SPACE, SPACE.actions, d_model=6)
    batch = make_batch()
    with caplog.at_level(logging.INFO, CHOOSING):
        for net in (fused, auto):
            for _ in range(2):
                net.evaluate(batch, net.act(batch, np.random.default_rng(0)).drawn)
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("INFO", "RogueNet: engine: fused (the fastest on the CPU)"),
        ("WARNING", "RogueNet: engine: torch (dropout acts in training)"),
        ("INFO", "RogueNet: engine: torch (the width 6 is no multiple of 4)"),
    ]


@pytest.mark.parametrize("which", [0, 1])
def test_actions_of_another_kind_are_refused_by_both_engines(which: int) -> None:
    net, batch = make_pair()[which], make_batch()
    drawn = net.act(batch, np.random.default_rng(0)).drawn

    def evaluate(name: str, change: Callable[[Any], Any]) -> Any:
        return net.evaluate(batch, {**drawn, name: drawn[name].with_values(change(drawn[name].values))})

    for name in ("move", "aim"):
        with pytest.raises(ValueError, match=rf"action '{name}': items must be integers, got float32"):
            evaluate(name, lambda values: values.astype(np.float32))
        with pytest.raises(ValueError, match=rf"action '{name}': .* got int64 of shape \(1,\)"):
            evaluate(name, lambda values: values[:, None])
    with pytest.raises(ValueError, match="action 'steer': items must be 1 real numbers"):
        evaluate("steer", lambda values: values[:, 0])
    evaluate("move", lambda values: values.astype(np.int32))


def test_what_is_no_batch_is_refused_by_name() -> None:
    net, _ = make_pair()
    with pytest.raises(TypeError, match=r"reads an EntityBatch \(batch_observations makes one\), got dict"):
        net.act(SPACE.sample(), np.random.default_rng(0))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["d_model", "n_layer", "value_n_head"])
@pytest.mark.parametrize("value", [4.0, "4", True])
def test_sizes_are_integers(name: str, value: Any) -> None:
    with pytest.raises(TypeError, match=f"{name} is {value!r}, expected an integer"):
        RogueNetConfig(**{"separate_value_net": True, name: value})
    with pytest.raises(TypeError, match="n_layer is None, expected an integer"):
        RogueNetConfig(n_layer=None)  # type: ignore[arg-type]
