"""RogueNet on padded arrays of fixed shapes: the same numbers and gradients as on ragged batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from entitize.envs import EntityBatch, EntitySpace, concatenate_batches
from entitize.policies.rogue_net import RogueNet
from entitize.policies.rogue_net.static import attention, cuda
from entitize.policies.rogue_net.static.attention import Capabilities, choose_path
from entitize.policies.rogue_net.static.capacity import Capacities, Capacity, rounded_up
from entitize.policies.rogue_net.static.graphs import WARM_UP, Graphs
from entitize.policies.rogue_net.static.network import Plan, StaticForm
from entitize.policies.rogue_net.static.packing import Field, Packing
from entitize.policies.rogue_net.static.staging import Staging
from entitize.policies.rogue_net.static.tiles import Tiles
from entitize.policies.rogue_net.rows import Rows
from torch import Tensor

CPU = torch.device("cpu")


def evaluate(form: StaticForm, batch: EntityBatch, actions: Any, capacity: Capacity | None = None) -> Any:
    """Through packing and staging, and without the padding."""
    plan = Plan(form, batch, actions)
    capacity = capacity or Capacities().fit(plan.sizes)
    packing = Packing(form.fields(capacity))

    def write(arrays: dict[str, np.ndarray]) -> None:
        for array in arrays.values():  # leftovers of another batch
            array.view(np.uint8)[...] = 255 if array.dtype != bool else 1
        plan.write(capacity, arrays)

    with Staging(CPU).sent(packing, write) as block:
        result = form.evaluate(capacity, packing.tensors(block))
    log_probs = {name: result.log_probs[name][: a.num_items] for name, a in actions.items()}
    entropies = {name: result.entropies[name][: a.num_items] for name, a in actions.items()}
    return log_probs, entropies, result.values[: len(batch)]


def loss(log_probs: Any, entropies: Any, values: Tensor) -> Tensor:
    total = (values * torch.linspace(-1, 2, len(values))).sum()
    for name in log_probs:
        weights = torch.linspace(1, 2, len(log_probs[name]))
        total = total + (weights * log_probs[name]).sum() + 0.3 * (weights * entropies[name]).sum()
    return total


def gradients(net: RogueNet, result: Any) -> dict[str, Tensor | None]:
    net.zero_grad()
    loss(*result).backward()
    return {name: parameter.grad for name, parameter in net.named_parameters()}


def assert_same(net: RogueNet, form: StaticForm, batch: EntityBatch, actions: Any, tolerance: float) -> None:
    expected = net.evaluate(batch, actions)
    wanted = (expected.log_probs, expected.entropies, expected.values)
    got = evaluate(form, batch, actions)
    for name in actions:
        torch.testing.assert_close(got[0][name], wanted[0][name], rtol=tolerance, atol=tolerance)
        torch.testing.assert_close(got[1][name], wanted[1][name], rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(got[2], wanted[2], rtol=tolerance, atol=tolerance)
    theirs, ours = gradients(net, wanted), gradients(net, got)
    for name, gradient in theirs.items():
        if gradient is None:
            assert ours[name] is None, name
        else:
            scale = 1 + float(gradient.abs().max())
            torch.testing.assert_close(ours[name], gradient, rtol=0, atol=tolerance * scale, msg=name)


OPTIONS: list[dict[str, Any]] = [
    {},
    {"d_model": 8, "n_layer": 1, "n_head": 1, "global_features": "concat"},
    {"d_model": 12, "n_layer": 2, "n_head": 3, "separate_value_net": True, "value_d_model": 8, "value_n_head": 2},
    {"n_layer": 0},
]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("seed", [0, 1])
def test_padded_batches_give_the_numbers_of_ragged_ones(
    make_space: Any, random_batch: Any, make_net: Any, legal_actions: Any, options: Any, seed: int
) -> None:
    space = make_space(global_action=bool(seed))
    batch = random_batch(space, steps=7, most=3 + 40 * seed, seed=seed)
    net = make_net(space, batch, engine="torch", **options)
    assert_same(net, StaticForm(net), batch, legal_actions(space, batch), 2e-5)
