"""Attention over tiles (see `tiles`), in one of two ways."""

from __future__ import annotations

import math
from functools import cache
from importlib.util import find_spec
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

TilePath = Literal["tiles", "varlen"]

#: From this width on, masks and scores of tiles cost more than what a kernel for variable lengths wastes.
_WIDE = 256


@cache
def has_varlen(device: torch.device) -> bool:
    """Return True if the installed torch has a kernel of `torch.nn.attention.varlen` for the device.

    Flash attention needs a GPU of compute capability 8.0 (Ampere) or later.
    """
    if device.type != "cuda" or torch.version.cuda is None:
        return False
    if torch.cuda.get_device_capability(device) < (8, 0):
        return False
    return find_spec("torch.nn.attention.varlen") is not None  # torch has it since 2.10


def choose_path(varlen: bool, dtype: torch.dtype, d_head: int, widest: int) -> TilePath:
    """Choose how to compute attention, for `dtype` and width `d_head` of queries and tiles up to `widest`.

    | path | torch's | when it is taken |
    |---|---|---|
    | "varlen" | `nn.attention.varlen` | CUDA, bfloat16, `d_head` 8, 16, … 256, tiles of 256 or wider |
    | "tiles" | `scaled_dot_product_attention`, masked | otherwise: any device, precision, `d_head` |

    Not taken: FlexAttention needs `d_head` of at least 16 and a compiler; nested (jagged) tensors read
    lengths back from the device, which no CUDA graph allows; groups of similar length (`rogue_net.attention`)
    have other shapes in every batch.
    """
    if varlen and dtype == torch.bfloat16 and d_head % 8 == 0 and d_head <= 256 and widest >= _WIDE:
        return "varlen"
    return "tiles"


class Tiling(NamedTuple):
    """A layout in the form that attention reads, computed once for all layers."""

    room: dict[int, int]  # tiles of each width
    masks: list[Tensor]  # per width (tiles, 1, width, width): 0, or -∞ between steps; none for varlen
    starts: Tensor | None  # varlen: where sequences start, int32


def tiling(room: dict[int, int], steps: Tensor, starts: Tensor | None, dtype: torch.dtype) -> Tiling:
    """Compute the `Tiling` of slots. `steps` (R,): the step of each slot; `dtype`: of the queries.

    Empty slots attend to each other; the result is never read.
    """
    if starts is not None:
        return Tiling(room, [], starts.int())
    masks = []
    for part, (width, count) in zip(_parts(steps, room), room.items(), strict=True):
        ids = part.view(count, 1, width)
        others = ids.unsqueeze(3) != ids.unsqueeze(2)
        masks.append(torch.zeros_like(others, dtype=dtype).masked_fill_(others, -math.inf))
    return Tiling(room, masks, None)


def attend(qkv: Tensor, tiling: Tiling, n_head: int) -> Tensor:
    """Return attention within each step: queries, keys and values (R, 3 D) to (R, D)."""
    num_slots = len(qkv)
    if tiling.starts is not None:
        q, k, v = qkv.view(num_slots, 3, n_head, -1).unbind(1)
        return varlen(q, k, v, tiling.starts, max(tiling.room)).reshape(num_slots, -1)
    results = []
    parts = _parts(qkv, tiling.room)
    for part, mask, (width, count) in zip(parts, tiling.masks, tiling.room.items(), strict=True):
        q, k, v = part.view(count, width, 3, n_head, -1).permute(2, 0, 3, 1, 4).unbind(0)
        y = functional.scaled_dot_product_attention(q, k, v, mask)  # (tiles, H, width, d_head)
        results.append(y.transpose(1, 2).reshape(count * width, -1))
    return torch.cat(results) if len(results) > 1 else results[0]


def varlen(q: Tensor, k: Tensor, v: Tensor, starts: Tensor, longest: int) -> Tensor:
    """Call torch's kernel for variable lengths: (R, H, d_head) each, sequences from `starts` on."""
    from torch.nn.attention.varlen import varlen_attn

    result: Any = varlen_attn(q, k, v, starts, starts, longest, longest)
    return result


def _parts(x: Tensor, room: dict[int, int]) -> tuple[Tensor, ...]:
    return x.split([width * count for width, count in room.items()])
