"""The "numba" attention path: variable-length attention on the memory of torch tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable

from ...kernels.attention.tile_attention import attend_rows, attend_rows_backward
from ...kernels.parallel import over_sequences, workspace
from ...kernels.tiles.simd import LANES
from ...kernels.tiles.step_tiles import StepRange, tile_capacity


class VarlenAttention(torch.autograd.Function):
    """Queries, keys and values of all rows (N, 3 D) float32 to the attended values (N, D)."""

    @staticmethod
    def forward(ctx: Any, qkv: Tensor, offsets: NDArray[np.int64], longest: int, n_head: int) -> Tensor:
        d_model = qkv.shape[1] // 3
        qkv = qkv.contiguous()
        out = qkv.new_empty(len(qkv), d_model)
        capacity = tile_capacity(longest, d_model)
        ctx.save_for_backward(qkv)
        ctx.settings = offsets, capacity, d_model, n_head
        source, target = qkv.detach().numpy().reshape(-1), out.numpy().reshape(-1)

        def run(share: int, first: int, last: int) -> None:
            scratch = workspace((4 * d_model + LANES) * (capacity + LANES))
            steps = StepRange(offsets, first, last, capacity)
            attend_rows(source, target, steps, d_model, n_head, scratch)

        over_sequences(offsets, run)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor, None, None, None]:
        (qkv,) = ctx.saved_tensors
        offsets, capacity, d_model, n_head = ctx.settings
        d_qkv = torch.empty_like(qkv)
        source, target = qkv.detach().numpy().reshape(-1), d_qkv.numpy().reshape(-1)
        given = d_out.contiguous().numpy().reshape(-1)

        def run(share: int, first: int, last: int) -> None:
            scratch = workspace((8 * d_model + n_head + 2 * LANES + 1) * (capacity + LANES))
            steps = StepRange(offsets, first, last, capacity)
            attend_rows_backward(source, given, target, steps, d_model, n_head, scratch)

        over_sequences(offsets, run)
        return d_qkv, None, None, None
