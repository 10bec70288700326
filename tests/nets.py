"""Networks that tests of engines compare, and steps to compare them on."""

from __future__ import annotations

from typing import Any

import entitize as ez
import numpy as np
import torch
from entitize import RogueNet
from entitize.envs import EntityBatch, EntitySpace, batch_observations


def sampled_batch(space: EntitySpace, steps: int, seed: int) -> EntityBatch:
    """Random steps, some of them empty, with random masks; `steps` may be 0."""
    space.seed(seed)
    batch = batch_observations(space, [space.sample() for _ in range(steps + 1)])
    return batch.gather(np.arange(steps))


def tensors(layout: ez.batch.PaddedLayout, batch: EntityBatch) -> dict[str, torch.Tensor]:
    """The padded arrays of `batch`, as networks of fixed shapes take them."""
    return {name: torch.from_numpy(array) for name, array in layout.pad(batch).items()}


def fused_net(space: EntitySpace, seed: int, deviation: float, **options: Any) -> RogueNet:
    """A random network on the fused engine, no weight of which is 0."""
    torch.manual_seed(seed)
    net = RogueNet(space, space.actions, engine="fused", **options)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(torch.randn_like(parameter) * deviation)
    return net


def in_torch(net: RogueNet) -> RogueNet:
    """The same network on torch's engine."""
    same = RogueNet(net.observation_space, net.action_space, **{**net.config, "engine": "torch"})
    same.load_state_dict(net.state_dict())
    return same


def treasure_net(seed: int = 0) -> ez.RogueNet:
    """A small network for TreasureHunt."""
    venv = ez.make_vec("TreasureHunt", num_envs=1)
    torch.manual_seed(seed)
    return ez.RogueNet(venv.single_observation_space, venv.single_action_space, d_model=16, n_layer=1)
