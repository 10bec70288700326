"""Attention over tiles (see `static_tiles`), as torch's masked scaled dot products.

On a GPU, for steps of 5 to 20 rows, this was faster than padding, groups of similar length and jagged
tensors. Torch's kernel for variable lengths took 0.9 to 2.7 times as long, backward included (docs/gpu.md).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional


class Tiling(NamedTuple):
    """A layout in the form that attention reads, computed once for all layers."""

    room: dict[int, int]  # tiles of each width
    masks: list[Tensor]  # per width (tiles, 1, width, width): 0, or -∞ between steps


def tiling(room: dict[int, int], steps: Tensor, dtype: torch.dtype) -> Tiling:
    """Compute the `Tiling` of slots. `steps` (R,): the step of each slot; `dtype`: of the queries.

    Empty slots attend to each other; the result is never read.
    """
    masks = []
    for part, (width, count) in zip(_parts(steps, room), room.items(), strict=True):
        ids = part.view(count, 1, width)
        others = ids.unsqueeze(3) != ids.unsqueeze(2)
        masks.append(torch.zeros_like(others, dtype=dtype).masked_fill_(others, -math.inf))
    return Tiling(room, masks)


def attend(qkv: Tensor, tiling: Tiling, n_head: int) -> Tensor:
    """Return attention within each step: queries, keys and values (R, 3 D) to (R, D)."""
    results = []
    parts = _parts(qkv, tiling.room)
    for part, mask, (width, count) in zip(parts, tiling.masks, tiling.room.items(), strict=True):
        q, k, v = part.view(count, width, 3, n_head, -1).permute(2, 0, 3, 1, 4).unbind(0)
        y = functional.scaled_dot_product_attention(q, k, v, mask)  # (tiles, H, width, d_head)
        results.append(y.transpose(1, 2).reshape(count * width, -1))
    return torch.cat(results) if len(results) > 1 else results[0]


def _parts(x: Tensor, room: dict[int, int]) -> tuple[Tensor, ...]:
    return x.split([width * count for width, count in room.items()])
