"""The "fused" path: all blocks of the transformer as one autograd function on torch's memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from .attention.varlen import tile_capacity
from .fused_kernels import blocks_backward, blocks_forward, fold, unfold
from .parallel import max_shares, over_sequences
from .rows import Rows


def block_parameters(block: nn.Module) -> list[nn.Parameter]:
    """The parameters of one block, in the order of `fused_kernels.places`."""
    return [
        block.get_parameter(name)
        for name in (
            "ln1.weight", "ln1.bias", "attn.qkv.weight", "attn.qkv.bias", "attn.proj.weight", "attn.proj.bias",
            "ln2.weight", "ln2.bias", "mlp.0.weight", "mlp.0.bias", "mlp.2.weight", "mlp.2.bias",
        )
    ]  # fmt: skip


class FusedBlocks(torch.autograd.Function):
    """Rows (N, D) float32 through `layers` blocks; parameters: those of all blocks, one after the other."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: Rows, n_head: int, layers: int, *parameters: Tensor) -> Tensor:
        d_model = x.shape[1]
        x = x.contiguous()
        weights = torch.cat([p.reshape(-1) for p in parameters])
        folded = weights.clone()
        fold(weights.numpy(), folded.numpy(), layers, d_model)
        out = torch.empty_like(x)
        capacity = tile_capacity(rows.longest, d_model)
        source, target, w = x.numpy().reshape(-1), out.numpy().reshape(-1), folded.numpy()

        def run(share: int, first: int, last: int) -> None:
            blocks_forward(source, target, w, rows.offsets, first, last, capacity, layers, d_model, n_head)

        over_sequences(rows.offsets, run)
        ctx.save_for_backward(x, weights, folded)
        ctx.settings = rows, n_head, layers, capacity
        ctx.shapes = [p.shape for p in parameters]
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        x, weights, folded = ctx.saved_tensors
        rows, n_head, layers, capacity = ctx.settings
        d_model = x.shape[1]
        gradients = np.zeros((max_shares(rows.offsets), weights.numel()), np.float32)
        d_x = torch.empty_like(x)
        source, target, w = x.numpy().reshape(-1), d_x.numpy().reshape(-1), folded.numpy()
        given = d_out.contiguous().numpy().reshape(-1)

        def run(share: int, first: int, last: int) -> None:
            blocks_backward(
                source, given, target, w, gradients[share], rows.offsets, first, last, capacity, layers, d_model,
                n_head,
            )  # fmt: skip

        over_sequences(rows.offsets, run)
        total = gradients[0] if len(gradients) == 1 else gradients.sum(0)
        unfold(weights.numpy(), total, layers, d_model)
        parts = torch.from_numpy(total).split([shape.numel() for shape in ctx.shapes])
        shaped = [part.view(shape) for part, shape in zip(parts, ctx.shapes, strict=True)]
        return d_x, None, None, None, *shaped


def fused_blocks(x: Tensor, rows: Rows, n_head: int, blocks: nn.ModuleList) -> Tensor:
    """All `blocks` over rows (N, D) on the CPU in float32; D a multiple of 4, no dropout, plain attention."""
    parameters = [parameter for block in blocks for parameter in block_parameters(block)]
    return FusedBlocks.apply(x, rows, n_head, len(blocks), *parameters)
