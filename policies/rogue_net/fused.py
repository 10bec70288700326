"""The "fused" path: all blocks of the transformer as one autograd function on torch's memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from .attention.varlen import tile_capacity
from .fused_kernels import (
    backward_scratch,
    blocks_backward,
    blocks_forward,
    fold,
    forward_scratch,
    unfold,
)
from .parallel import over_sequences, row_shares, workspace
from .rows import Rows


def _run_forward(
    x: Tensor, rows: Rows, n_head: int, layers: int, parameters: Sequence[Tensor]
) -> tuple[Tensor, Tensor, Tensor, int]:
    """The rows after all blocks; the parameters in one array, plain and folded; the rows of a tile."""
    d = x.shape[1]
    weights = torch.cat([p.view(-1) for p in parameters])
    folded = weights.clone()
    fold(weights.numpy(), folded.numpy(), layers, d)
    out = torch.empty_like(x)
    capacity = tile_capacity(rows.longest, d)
    source, target, w = x.detach().numpy().reshape(-1), out.numpy().reshape(-1), folded.numpy()

    def run(share: int, first: int, last: int) -> None:
        scratch = workspace(forward_scratch(capacity, d))
        blocks_forward(source, target, w, rows.offsets, first, last, capacity, layers, d, n_head, scratch)

    over_sequences(rows.offsets, run)
    return out, weights, folded, capacity


class FusedBlocks(torch.autograd.Function):
    """Rows (N, D) float32 through `layers` blocks; parameters: those of all blocks, in their order."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: Rows, n_head: int, layers: int, *parameters: Tensor) -> Tensor:
        out, weights, folded, capacity = _run_forward(x, rows, n_head, layers, parameters)
        ctx.save_for_backward(x, weights, folded)
        ctx.settings = rows, n_head, layers, capacity
        ctx.shapes = [p.shape for p in parameters]
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        x, weights, folded = ctx.saved_tensors
        rows, n_head, layers, capacity = ctx.settings
        d = x.shape[1]
        gradients = np.zeros((row_shares(rows.num_rows), weights.numel()), np.float32)
        d_x = torch.empty_like(x)
        source, target, w = x.detach().numpy().reshape(-1), d_x.numpy().reshape(-1), folded.numpy()
        given = d_out.contiguous().numpy().reshape(-1)

        def run(share: int, first: int, last: int) -> None:
            scratch = workspace(backward_scratch(capacity, layers, d))
            blocks_backward(
                source, given, target, w, gradients[share], rows.offsets, first, last, capacity,
                layers, d, n_head, scratch,
            )  # fmt: skip

        over_sequences(rows.offsets, run)
        total = gradients[0] if len(gradients) == 1 else gradients.sum(0)
        unfold(weights.numpy(), total, layers, d)
        parts = torch.from_numpy(total).split([shape.numel() for shape in ctx.shapes])
        shaped = [part.view(shape) for part, shape in zip(parts, ctx.shapes, strict=True)]
        return d_x, None, None, None, *shaped


class BlockParameters:
    """The parameters of blocks, in the order of `fused_kernels.places`, without a search at every call."""

    def __init__(self, blocks: nn.ModuleList) -> None:
        self._owners: list[nn.Module] = []
        for block in blocks:
            attention, mlp = block.attn, block.mlp
            self._owners += [block.ln1, attention.qkv, attention.proj, block.ln2, mlp[0], mlp[2]]  # type: ignore[index,union-attr,list-item]

    def __call__(self) -> list[Tensor]:
        # Straight from the module's dict: attribute access on a module costs a microsecond.
        own = [owner._parameters for owner in self._owners]
        return [p[name] for p in own for name in ("weight", "bias")]  # type: ignore[misc]


def fused_blocks(x: Tensor, rows: Rows, n_head: int, layers: int, parameters: Sequence[Tensor]) -> Tensor:
    """All blocks over rows (N, D) on the CPU in float32; D a multiple of 4, no dropout, plain attention."""
    x = x.contiguous()
    if torch.is_grad_enabled():
        return FusedBlocks.apply(x, rows, n_head, layers, *parameters)
    return _run_forward(x, rows, n_head, layers, parameters)[0]
