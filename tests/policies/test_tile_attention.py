"""The attention kernels against softmax attention written out in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from entitize.policies.inputs.rows import RowLayout
from entitize.policies.rogue_net import KernelAttention
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
    return KernelAttention.apply(qkv, RowLayout(offsets, offsets), n_head)


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


@pytest.mark.parametrize("step", [4, 6, 14, 22])
def test_a_broken_number_breaks_its_own_step_only(step: int) -> None:
    # Long steps, and short ones that share vectors with their neighbours.
    qkv = torch.randn(sum(LENGTHS), 48, generator=torch.Generator().manual_seed(0))
    start, stop = sum(LENGTHS[:step]), sum(LENGTHS[: step + 1])
    qkv[stop - 1, 20] = float("nan")  # a key, in the first head
    qkv.requires_grad_()
    out = run(qkv, 2)
    out.sum().backward()
    assert qkv.grad is not None
    for broken, columns in ((out.isnan(), [0]), (qkv.grad.isnan(), [0, 16])):
        for column in columns:
            assert broken[start:stop, column : column + 8].all()
        broken[start:stop] = False
        assert not broken.any()


@pytest.mark.parametrize("value", [float("inf"), 3e38])
def test_an_overflow_stays_in_its_step(value: float) -> None:
    qkv = torch.randn(sum(LENGTHS), 48, generator=torch.Generator().manual_seed(0))
    for step in (6, 14, 22):
        start, stop = sum(LENGTHS[:step]), sum(LENGTHS[: step + 1])
        broken = qkv.clone()
        broken[start:stop] = value
        sound = torch.ones(len(qkv), dtype=torch.bool)
        sound[start:stop] = False
        torch.testing.assert_close(run(broken, 2)[sound], run(qkv, 2)[sound], rtol=1e-5, atol=1e-6)


def test_equal_rows_of_a_step_have_equal_results() -> None:
    qkv = torch.randn(sum(LENGTHS), 48, generator=torch.Generator().manual_seed(0))
    start = sum(LENGTHS[:15])  # a step of 3, which shares a vector
    qkv[start + 2] = qkv[start]
    out = run(qkv, 2)
    assert torch.equal(out[start + 2], out[start])
