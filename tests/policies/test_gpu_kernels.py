"""The kernels for GPUs against torch in float64: on a GPU, or in Triton's interpreter."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # read where a kernel is defined
pytest.importorskip("triton")

from entitize.policies.engines.graphs import Tiles, static_attention
from entitize.policies.gpu_kernels import attend_in_tiles, layer_norm, runs_triton
from entitize.policies.inputs import RowLayout
from torch import Tensor
from torch.nn import functional

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def draw(rng: np.random.Generator, *shape: int) -> Tensor:
    return torch.tensor(rng.standard_normal(shape, np.float32), device=DEVICE)


def assert_same(ours: Any, theirs: Any, inputs: list[Tensor], given: Tensor, tolerance: float = 2e-5) -> None:
    """The same result and gradients as `theirs` in float64, relative to the largest number of each."""
    inputs = [x.requires_grad_() for x in inputs]
    exact = [x.detach().double().requires_grad_() for x in inputs]
    got, wanted = ours(*inputs), theirs(*exact)
    pairs = [(got, wanted)]
    pairs += zip(
        torch.autograd.grad(got, inputs, given),
        torch.autograd.grad(wanted, exact, given.double()),
        strict=True,
    )
    for a, b in pairs:
        assert a.dtype == torch.float32
        assert float((a - b).detach().abs().max()) <= tolerance * (1e-3 + float(b.detach().abs().max()))


def tiles_of(lengths: list[int]) -> tuple[dict[int, int], Tensor]:
    """Widths and numbers of the tiles of such steps, an empty tile of each width among them, and the steps of
    all slots."""
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    tiles = Tiles(RowLayout(offsets, offsets))
    room = {width: count + 1 for width, count in tiles.counts.items()}
    steps = np.full(sum(width * count for width, count in room.items()), len(lengths))
    tiles.place(room, steps)
    return room, torch.tensor(steps, device=DEVICE)


@pytest.mark.parametrize(
    ("lengths", "n_head", "d_head"),
    [
        ([5, 1, 0, 9, 30, 2, 2, 32], 2, 8),
        ([64, 3, 40], 1, 20),  # tiles of two widths
        ([7] * 20, 3, 4),
        ([1], 2, 32),
    ],
)
def test_attention_stays_within_steps(lengths: list[int], n_head: int, d_head: int) -> None:
    room, steps = tiles_of(lengths)
    rng = np.random.default_rng(0)
    d, start = n_head * d_head, 0
    for width, count in room.items():
        part = steps[start : start + width * count]
        start += width * count
        qkv = 2 * draw(rng, len(part), 3 * d)
        layout = static_attention.Tiling({width: count}, part)
        assert_same(
            lambda x, part=part, width=width: attend_in_tiles(x, part, width, n_head),
            lambda x, layout=layout: static_attention.attend(x, layout, n_head),
            [qkv],
            draw(rng, len(part), d),
        )


@pytest.mark.parametrize(("rows", "width"), [(1, 16), (700, 16), (1025, 12), (300, 64), (9, 256), (40, 1)])
def test_layer_norm(rows: int, width: int) -> None:
    rng = np.random.default_rng(rows)
    x = 3 * draw(rng, rows, width) + 2
    weight, bias = draw(rng, width), draw(rng, width)
    assert_same(
        lambda *inputs: layer_norm(*inputs, 1e-5),
        lambda x, w, b: functional.layer_norm(x, (width,), w, b, 1e-5),
        [x, weight, bias],
        draw(rng, rows, width),
    )


def test_layer_norm_of_no_rows() -> None:
    x = torch.zeros(0, 16, device=DEVICE, requires_grad=True)
    weight, bias = (torch.ones(16, device=DEVICE, requires_grad=True) for _ in range(2))
    result = layer_norm(x, weight, bias, 1e-5)
    gradients = torch.autograd.grad(result.sum(), [x, weight, bias])
    assert result.shape == (0, 16)
    assert [float(gradient.sum()) for gradient in gradients] == [0, 0, 0]


def test_columns_and_rows_of_a_larger_tensor() -> None:
    """Views that are not contiguous."""
    rng = np.random.default_rng(3)
    weight, bias = draw(rng, 16), draw(rng, 16)
    assert_same(
        lambda x: layer_norm(x[::2, 4:20], weight, bias, 1e-5),
        lambda x: functional.layer_norm(x[::2, 4:20], (16,), weight.double(), bias.double(), 1e-5),
        [draw(rng, 100, 24)],
        draw(rng, 50, 16),
    )


@pytest.mark.parametrize("value", ["1", "0"])
def test_only_float32_on_a_gpu_is_for_kernels(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("ENTITIZE_TRITON", value)
    assert not runs_triton(torch.zeros(1))
    assert not runs_triton(torch.zeros(1, dtype=torch.float64, device=DEVICE))
    assert runs_triton(torch.zeros(1, device=DEVICE)) == (DEVICE.type == "cuda" and value == "1")
