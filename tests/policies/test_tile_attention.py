"""The attention kernels against softmax attention written out in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from entitize.policies.rogue_net.attention.varlen import VarlenAttention
from torch import Tensor

#: Empty steps, steps of one, lengths on both sides of multiples of 4 and 16; neighbours that have fewer than
#: 16 rows together, 16, and more.
LENGTHS = [0, 1, 5, 16, 17, 0, 40, 3, 33, 12, 1, 0, 9, 2, 2, 3, 1, 4, 4, 5, 7, 0, 8, 8, 1]


def attended(qkv: Tensor, n_head: int) -> Tensor:
    """Every step's attention (n, D) by definition."""
    results = []
    for part in qkv.split(LENGTHS):
        q, k, v = (
            x.reshape(len(part), n_head, qkv.shape[1] // 3 // n_head).transpose(0, 1)
            for x in part.chunk(3, dim=1)
        )
        weights = (q @ k.transpose(1, 2) / q.shape[-1] ** 0.5).softmax(-1)
        results.append((weights @ v).transpose(0, 1).flatten(1))
    return torch.cat(results)


def run(qkv: Tensor, n_head: int) -> Tensor:
    offsets = np.concatenate([[0], np.cumsum(LENGTHS)])
    arguments = qkv, offsets, max(LENGTHS), n_head
    return VarlenAttention.apply(*arguments)


@pytest.mark.parametrize(("d_model", "n_head"), [(4, 4), (4, 2), (6, 2), (8, 2), (18, 3), (16, 2), (28, 1)])
@pytest.mark.parametrize("size", [1.0, 8.0])
def test_results_and_gradients_are_those_of_the_definition(d_model: int, n_head: int, size: float) -> None:
    generator = torch.Generator().manual_seed(d_model)
    qkv = torch.randn(sum(LENGTHS), 3 * d_model, generator=generator)
    qkv[:, : 2 * d_model] *= size  # weights from even to almost one for one key
    given = torch.randn(sum(LENGTHS), d_model, generator=generator)
    got, exact = qkv.clone().requires_grad_(), qkv.double().requires_grad_()
    out, wanted = run(got, n_head), attended(exact, n_head)
    out.backward(given)
    wanted.backward(given.double())
    torch.testing.assert_close(out.double(), wanted, rtol=1e-4, atol=2e-5)
    assert got.grad is not None and exact.grad is not None
    torch.testing.assert_close(got.grad.double(), exact.grad, rtol=1e-4, atol=2e-5 * size)


def test_scores_of_any_size_neither_overflow_nor_vanish() -> None:
    qkv = torch.randn(sum(LENGTHS), 48, generator=torch.Generator().manual_seed(0))
    for shift in (-300.0, 300.0):
        moved = qkv.clone()
        moved[:, :16] = shift
        moved[:, 16:32] = 1.0  # all scores of a step are alike, and far from 0
        moved.requires_grad_()
        out = run(moved, 2)
        torch.testing.assert_close(out.detach(), attended(moved.detach(), 2), rtol=1e-4, atol=1e-5)
        out.sum().backward()
        assert moved.grad is not None and moved.grad.isfinite().all()


def test_a_broken_number_breaks_its_own_step_only() -> None:
    qkv = torch.randn(sum(LENGTHS), 48, generator=torch.Generator().manual_seed(0))
    start = sum(LENGTHS[:4])
    qkv[start + 3, 20] = float("nan")  # a key of the step of 17, in the first head
    out = run(qkv, 2)
    broken = out.isnan()
    assert broken[start : start + 17, :8].all()
    broken[start : start + 17, :8] = False
    assert not broken.any()
