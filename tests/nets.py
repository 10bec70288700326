"""Networks that tests of engines compare, and steps to compare them on."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from entitize import RogueNet
from entitize.envs import EntityBatch, EntitySpace, batch_observations


def sampled_batch(space: EntitySpace, steps: int, seed: int) -> EntityBatch:
    """Random steps, some of them empty, with random masks; `steps` may be 0."""
    space.seed(seed)
    batch = batch_observations(space, [space.sample() for _ in range(steps + 1)])
    return batch.gather(np.arange(steps))


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
