"""The first comparison of engines within whatever modes of torch the caller is in."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from entitize import EntitySpace, RogueNet
from entitize.envs import Categorical, EntityActionSpace, EntityBatch, SelectEntity
from torch.utils.checkpoint import checkpoint

from nets import fused_net, sampled_batch

ACTIONS: dict[str, Any] = {"move": Categorical(3), "aim": SelectEntity()}
SPACE = EntitySpace({"Unit": ["x", "y"]}, EntityActionSpace(ACTIONS))


def fresh() -> RogueNet:
    return fused_net(SPACE, 0, 0.2, d_model=8, n_layer=1)


def played() -> tuple[EntityBatch, dict[str, Any]]:
    batch = sampled_batch(SPACE, 6, 0)
    return batch, fresh().act(batch, np.random.default_rng(0)).raw


def gradients(net: RogueNet) -> list[torch.Tensor]:
    return [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in net.parameters()]


def test_a_first_evaluation_may_be_recomputed_by_torch() -> None:
    batch, raw = played()
    plain, net = fresh(), fresh()
    plain.evaluate(batch, raw).values.sum().backward()
    for _ in range(2):  # the second time nothing is compared
        net.zero_grad()
        # It refuses if the recomputation saves another number of tensors.
        checkpoint(lambda: net.evaluate(batch, raw).values.sum(), use_reentrant=False).backward()
        for ours, theirs in zip(gradients(net), gradients(plain), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


def test_other_modes_change_no_choice_of_engine() -> None:
    for mode in (torch.inference_mode(), torch.no_grad(), torch.autocast("cpu"), torch.device("meta")):
        net = fresh()
        with mode:
            assert net.fused_engine() is not None
        assert net.engine.name == "fused"
        net.evaluate(*played()).values.sum().backward()
