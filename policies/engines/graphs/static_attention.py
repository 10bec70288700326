"""Attention over tiles (see `static_tiles`), as torch's masked scaled dot products; the narrowest tiles by a
kernel of our own where `gpu_kernels` are switched on.

On a GPU, for steps of 5 to 20 rows, torch's products were faster than padding, groups of similar length and
jagged tensors. Torch's kernel for variable lengths took 0.9 to 2.7 times as long, backward included
(docs/gpu.md).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from ... import gpu_kernels
from .static_tiles import NARROWEST

#: The widest heads for the kernel, whose tiles would not stay in registers and shared memory with wider ones.
_WIDEST_HEAD = 32


class Tiling:
    """A layout in the form that attention reads, for all layers.

    Args:
        room: tiles of each width.
        steps: the step of each slot (R,). Empty slots attend to each other; the result is never read.
    """

    def __init__(self, room: dict[int, int], steps: Tensor) -> None:
        self.room = room
        self.steps = dict(zip(room, self.parts(steps), strict=True))  # per width (tiles × width,)
        self._masks: dict[int, Tensor] = {}

    def parts(self, x: Tensor) -> tuple[Tensor, ...]:
        """Return the slots (R, …) of each width."""
        return x.split([width * count for width, count in self.room.items()])

    def mask(self, width: int, dtype: torch.dtype) -> Tensor:
        """Return for the tiles of a width (tiles, 1, width, width): 0, or -∞ between steps. Computed once."""
        if width not in self._masks:
            ids = self.steps[width].view(-1, 1, width)
            others = ids.unsqueeze(3) != ids.unsqueeze(2)
            self._masks[width] = torch.zeros_like(others, dtype=dtype).masked_fill_(others, -math.inf)
        return self._masks[width]


def attend(qkv: Tensor, tiling: Tiling, n_head: int) -> Tensor:
    """Return attention within each step: queries, keys and values (R, 3 D) to (R, D)."""
    has_kernel = gpu_kernels.runs_triton(qkv) and qkv.shape[1] <= 3 * _WIDEST_HEAD * n_head
    results = []
    for part, (width, steps) in zip(tiling.parts(qkv), tiling.steps.items(), strict=True):
        if has_kernel and width == NARROWEST:
            results.append(gpu_kernels.attend_in_tiles(part, steps, width, n_head))
        else:
            results.append(masked_products(part, tiling.mask(width, qkv.dtype), n_head))
    return torch.cat(results) if len(results) > 1 else results[0]


def masked_products(qkv: Tensor, mask: Tensor, n_head: int) -> Tensor:
    """Return attention in tiles of one width (tiles × width, 3 D) by torch's products: (tiles × width, D)."""
    tiles, _, width, _ = mask.shape
    d_head = qkv.shape[1] // 3 // n_head
    q, k, v = qkv.view(tiles, width, 3, n_head, d_head).permute(2, 0, 3, 1, 4).unbind(0)
    y = functional.scaled_dot_product_attention(q, k, v, mask)  # (tiles, H, width, d_head)
    return y.transpose(1, 2).reshape(tiles * width, n_head * d_head)
