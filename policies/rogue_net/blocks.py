"""The transformer: pre-norm blocks of attention (or pooling) and a four times wider MLP.

As in the reference, no layer norm follows the last block: the residual stream starts at unit scale after the
embedding's layer norm, and what the blocks add to it starts small (weights N(0, 0.02)).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..inputs.rows import RowLayout
from .attention import attend, length_groups
from .config import RogueNetConfig
from .layer_norm import LayerNorm
from .relative_position import Places, RelativeEncoding, RelativePairs
from .tensors import inverse_lengths, steps_of


def drop(x: Tensor, probability: float, training: bool) -> Tensor:
    """Apply dropout while the module trains and gradients are computed; never while acting."""
    if probability and training and torch.is_grad_enabled():
        return functional.dropout(x, probability)
    return x


@dataclass(frozen=True, eq=False)
class Relative:
    """Relative positions in the form that attention reads, computed once for all layers."""

    encoding: RelativeEncoding
    pairs: list[RelativePairs]


class SelfAttention(nn.Module):
    """Multi-head attention among the rows of a step."""

    def __init__(self, config: RogueNetConfig) -> None:
        super().__init__()
        self.n_head = config.n_head
        self.dropout = config.rate("attention")
        self.qkv = nn.Linear(config.d_model, 3 * config.d_model)  # queries, keys and values of all heads
        self.proj = nn.Linear(config.d_model, config.d_model)

    def forward(self, x: Tensor, rows: RowLayout, relative: Relative | None) -> Tensor:
        dropout = self.dropout if self.training and torch.is_grad_enabled() else 0.0
        pairs, gate = (None, None) if relative is None else (relative.pairs, relative.encoding.gate(x))
        y = attend(self.qkv(x), rows, self.n_head, dropout, pairs, gate)
        return self.proj(y)


class Pooling(nn.Module):
    """Pooling in place of attention: every row of a step gets the same mean and/or maximum over the step."""

    def __init__(self, config: RogueNetConfig) -> None:
        super().__init__()
        self.kind = config.pooling
        self.prepool = nn.Linear(config.d_model, config.d_model)
        self.proj = nn.Linear(config.d_model * (2 if self.kind == "meanmax" else 1), config.d_model)

    def forward(self, x: Tensor, rows: RowLayout, relative: Relative | None) -> Tensor:
        x = self.prepool(x)
        steps, pooled = steps_of(rows, x), []
        if self.kind in ("mean", "meanmax"):
            pooled.append(mean_of_steps(x, rows))
        if self.kind in ("max", "meanmax"):
            index = steps[:, None].expand_as(x)
            # Steps without rows keep a zero, which is never read.
            pooled.append(
                x.new_zeros(len(rows), x.shape[1]).scatter_reduce(0, index, x, "amax", include_self=False)
            )
        return self.proj(torch.cat(pooled, 1))[steps]


def mean_of_steps(x: Tensor, rows: RowLayout) -> Tensor:
    """Return the mean of each step's rows: (N, D) to (B, D); zeros for a step without rows."""
    sums = x.new_zeros(len(rows), x.shape[1]).index_add(0, steps_of(rows, x), x)
    return sums * inverse_lengths(rows, x)[:, None]


class Block(nn.Module):
    """x + attention(norm(x)), then x + MLP(norm(x))."""

    def __init__(self, config: RogueNetConfig) -> None:
        super().__init__()
        self.ln1 = LayerNorm(config.d_model)
        self.ln2 = LayerNorm(config.d_model)
        self.attn: nn.Module = Pooling(config) if config.pooling else SelfAttention(config)
        self.mlp = nn.Sequential(
            nn.Linear(config.d_model, 4 * config.d_model),
            nn.GELU(),
            nn.Linear(4 * config.d_model, config.d_model),
        )
        self.dropout = config.rate("residual")

    def forward(self, x: Tensor, rows: RowLayout, relative: Relative | None) -> Tensor:
        x = x + drop(self.attn(self.ln1(x), rows, relative), self.dropout, self.training)
        return x + drop(self.mlp(self.ln2(x)), self.dropout, self.training)


class Backbone(nn.Module):
    """All blocks between the embedding and the heads: from rows (N, D) and their layout to rows (N, D)."""

    def __init__(self, config: RogueNetConfig, features: Mapping[str, tuple[str, ...]]) -> None:
        super().__init__()
        self.dropout = config.rate("embedding")
        self.relpos_encoding = (
            RelativeEncoding(
                config.relative_position, features, config.d_model, config.d_model // config.n_head
            )
            if config.relative_position
            else None
        )
        self.blocks = nn.ModuleList([Block(config) for _ in range(config.n_layer)])
        self.apply(_initialize)

    def forward(self, x: Tensor, rows: RowLayout, places: Places | None = None) -> Tensor:
        """`places`: where each row is; needed with a relative position encoding."""
        x = drop(x, self.dropout, self.training)
        relative = None
        if self.relpos_encoding is not None:
            assert places is not None
            groups = length_groups(rows, x).groups
            pairs = [self.relpos_encoding.pairs(places, group.index) for group in groups]
            relative = Relative(self.relpos_encoding, pairs)
        for block in self.blocks:
            x = block(x, rows, relative)
        return x


def _initialize(module: nn.Module) -> None:
    """Weights N(0, 0.02) and no biases, as in the reference (and GPT-2)."""
    if isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, 0.0, 0.02)
        nn.init.zeros_(module.bias)
