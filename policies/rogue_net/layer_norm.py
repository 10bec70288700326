"""`LayerNorm`: torch's; narrow rows by a kernel of our own where `gpu_kernels` are switched on."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .. import gpu_kernels

#: The widest rows for the kernel; torch's own fills a GPU with wider ones.
_WIDEST = 256


class LayerNorm(nn.LayerNorm):
    """Normalizes the rows of x (N, D)."""

    def forward(self, x: Tensor) -> Tensor:
        is_narrow = x.ndim == 2 and x.shape[1] <= _WIDEST
        if is_narrow and gpu_kernels.runs_triton(x) and not torch.compiler.is_compiling():
            return gpu_kernels.layer_norm(x, self.weight, self.bias, self.eps)
        return super().forward(x)
