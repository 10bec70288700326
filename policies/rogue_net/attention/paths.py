"""Attention within each step, over flat rows and offsets, at a cost of the sum of squared lengths.

| path | how | where |
|---|---|---|
| "numba" | a Numba kernel with a hand-written backward on torch's memory | CPU, float32 |
| "sorted" | steps of similar length padded to each other, torch's scaled dot product | any |
| "padded" | all steps padded to the longest | any |

They are those of the torch engine; the fused engine has its own (`policies.kernels.attention`). "auto" takes
the first that can do the work. A path that was asked for by name and can't do it (float64, a GPU; dropout
while training, relative positions) gives way to the next one below, with the same results.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ...inputs.rows import RowLayout
from ..config import AttentionPath
from ..relative_position import RelativeEncoding, RelativePairs
from ..tensors import runs_kernels
from .groups import grouped_attention, length_groups
from .varlen import VarlenAttention

__all__ = ["attend", "relative_pairs"]


def attend(
    qkv: Tensor,
    rows: RowLayout,
    n_head: int,
    path: AttentionPath = "auto",
    dropout: float = 0.0,
    pairs: list[RelativePairs] | None = None,
    gate: Tensor | None = None,
) -> Tensor:
    """Multi-head self-attention within each step: queries, keys and values (N, 3 D) to (N, D).

    `pairs`: relative keys and values of each length group; `gate` (N, d_head): factors of those values.
    """
    if path in ("auto", "numba") and runs_kernels(qkv) and not dropout and pairs is None:
        arguments: tuple[Any, ...] = (qkv, rows.offsets, rows.longest, n_head)
        return VarlenAttention.apply(*arguments)
    return grouped_attention(qkv, length_groups(rows, qkv, path == "padded"), n_head, dropout, pairs, gate)


def relative_pairs(
    encoding: RelativeEncoding, places: Any, rows: RowLayout, like: Tensor, path: AttentionPath
) -> Any:
    """The relative keys and values of each length group, once for all layers."""
    groups = length_groups(rows, like, path == "padded").groups
    return [encoding.pairs(places, group.index) for group in groups]
