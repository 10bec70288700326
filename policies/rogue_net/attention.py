"""Attention within each step, over flat rows and offsets, at a cost of the sum of squared lengths.

On the CPU in float32 a Numba kernel computes it, with a backward of its own (`KernelAttention`). Everywhere
else (GPUs, float64, dropout in training, relative positions) torch's scaled dot product does, over groups of
steps of similar length, padded to the longest of their group. Both give the same results.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from ..inputs.rows import RowLayout
from ..kernels.attention.tile_attention import attend_rows, attend_rows_backward
from ..kernels.parallel import over_sequences, workspace
from ..kernels.tiles.simd import LANES
from ..kernels.tiles.step_tiles import StepRange, tile_capacity
from .relative_position import RelativePairs
from .tensors import as_tensor, place_rows, runs_kernels

#: A group takes in lengths up to this factor above its shortest, plus 2: at most 1.6 times the needed scores.
_SPREAD = 1.25

#: Scores of one group (sequences × length²) at most, to bound memory.
_MAX_SCORES = 1 << 22


def attend(
    qkv: Tensor,
    rows: RowLayout,
    n_head: int,
    dropout: float = 0.0,
    pairs: Sequence[RelativePairs] | None = None,
    gate: Tensor | None = None,
) -> Tensor:
    """Multi-head self-attention within each step: queries, keys and values (N, 3 D) to (N, D).

    `pairs`: relative keys and values of each length group; `gate` (N, d_head): factors of those values.
    """
    if runs_kernels(qkv) and not dropout and pairs is None:
        return KernelAttention.apply(qkv.contiguous(), rows, n_head)
    return _grouped(qkv, length_groups(rows, qkv), n_head, dropout, pairs, gate)


# -- groups of similar length --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Group:
    """Some steps, padded to the length M of the longest."""

    index: (
        Tensor  # (b, M) int64: rows; padding repeats the step's own last row, so that nothing foreign leaks
    )
    real: Tensor | None  # (b, M) bool; None: all are


@dataclass(frozen=True, eq=False)
class Groups:
    """All steps that have rows."""

    groups: tuple[Group, ...]
    destination: Tensor  # (N,): the row of each real slot, group after group


def _cuts(lengths: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Runs of ascending positive `lengths` that go into one group."""
    cuts: list[tuple[int, int]] = []
    start = 0
    while start < len(lengths):
        end = int(np.searchsorted(lengths, lengths[start] * _SPREAD + 2, "right"))
        while start < end:
            # The run's longest length decides how many steps fit; a shorter run has a shorter longest.
            fits = max(1, _MAX_SCORES // int(lengths[end - 1]) ** 2)
            stop = min(end, start + fits)
            cuts.append((start, stop))
            start = stop
    return cuts


def length_groups(rows: RowLayout, like: Tensor) -> Groups:
    """Return the steps in groups of similar length, on the device of `like`."""
    return rows.cached(("groups", like.device), lambda: _make_groups(rows, like))


def _make_groups(rows: RowLayout, like: Tensor) -> Groups:
    order = np.argsort(rows.lengths, kind="stable")
    order = order[np.searchsorted(rows.lengths[order], 1) :]
    groups, places = [], []
    for start, stop in _cuts(rows.lengths[order]):
        steps = order[start:stop]
        lengths = rows.lengths[steps][:, None]  # (b, 1)
        slots = np.arange(int(lengths.max()))[None]  # (1, M)
        index = rows.offsets[steps][:, None] + np.minimum(slots, lengths - 1)
        real = slots < lengths
        places.append(index[real])
        groups.append(Group(as_tensor(index, like), None if real.all() else as_tensor(real, like)))
    destination = np.concatenate(places) if places else np.zeros(0, np.int64)
    return Groups(tuple(groups), as_tensor(destination, like))


def _grouped(
    qkv: Tensor,
    groups: Groups,
    n_head: int,
    dropout: float,
    pairs: Sequence[RelativePairs] | None,
    gate: Tensor | None,
) -> Tensor:
    parts = []
    for i, group in enumerate(groups.groups):
        b, m = group.index.shape
        q, k, v = (
            qkv[group.index.reshape(-1)].view(b, m, 3, n_head, -1).permute(2, 0, 3, 1, 4).unbind(0)
        )  # each (b, H, M, d_head)
        mask = None if group.real is None else group.real[:, None, None, :]
        if pairs is None:
            y = functional.scaled_dot_product_attention(q, k, v, mask, dropout)
        else:
            y = _with_relative(q, k, v, mask, dropout, pairs[i], None if gate is None else gate[group.index])
        y = y.transpose(1, 2).reshape(b * m, -1)
        parts.append(y if group.real is None else y[group.real.reshape(-1)])
    if not parts:
        return qkv.new_zeros(0, qkv.shape[1] // 3) + 0 * qkv.sum()
    return place_rows(torch.cat(parts), groups.destination)


def _with_relative(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    dropout: float,
    pairs: RelativePairs,
    gate: Tensor | None,
) -> Tensor:
    """softmax((q·k + q·K) / √d) (v + g V): K, V of each pair (b, M, M, d), the gate g of the key's row."""
    scores = q @ k.transpose(-2, -1) + torch.einsum("bhqd,bqkd->bhqk", q, pairs.keys)
    scores = scores / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    weights = functional.dropout(torch.softmax(scores, -1), dropout)
    values = pairs.values if gate is None else pairs.values * gate[:, None]
    return weights @ v + torch.einsum("bhqk,bqkd->bhqd", weights, values)


# -- the kernel ----------------------------------------------------------------------------------------------


class KernelAttention(torch.autograd.Function):
    """Queries, keys and values of all rows (N, 3 D), contiguous float32, to the attended values (N, D).

    With create_graph=True torch computes the gradients, which have gradients themselves then.
    """

    @staticmethod
    def forward(ctx: Any, qkv: Tensor, rows: RowLayout, n_head: int) -> Tensor:
        d_model = qkv.shape[1] // 3
        out = qkv.new_empty(len(qkv), d_model)
        offsets, capacity = rows.offsets, tile_capacity(rows.longest, d_model)
        ctx.save_for_backward(qkv)  # the argument itself: what a copy came from would be unknown to backward
        ctx.settings = rows, capacity, d_model, n_head
        source, target = qkv.detach().numpy().reshape(-1), out.numpy().reshape(-1)

        def run(share: int, first: int, last: int) -> None:
            scratch = workspace((4 * d_model + LANES) * (capacity + LANES))
            steps = StepRange(offsets, first, last, capacity)
            attend_rows(source, target, steps, d_model, n_head, scratch)

        over_sequences(offsets, run)
        return out

    @staticmethod
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor, None, None]:
        (qkv,) = ctx.saved_tensors
        rows, capacity, d_model, n_head = ctx.settings
        if torch.is_grad_enabled():  # with create_graph=True alone
            return _differentiable_gradient(qkv, rows, n_head, d_out), None, None
        offsets, d_qkv = rows.offsets, torch.empty_like(qkv)
        source, target = qkv.detach().numpy().reshape(-1), d_qkv.numpy().reshape(-1)
        given = d_out.contiguous().numpy().reshape(-1)

        def run(share: int, first: int, last: int) -> None:
            scratch = workspace((8 * d_model + n_head + 2 * LANES + 1) * (capacity + LANES))
            steps = StepRange(offsets, first, last, capacity)
            attend_rows_backward(source, given, target, steps, d_model, n_head, scratch)

        over_sequences(offsets, run)
        return d_qkv, None, None


def _differentiable_gradient(qkv: Tensor, rows: RowLayout, n_head: int, d_out: Tensor) -> Tensor:
    """Return the gradient of `KernelAttention` (N, 3 D), as a function of `qkv` and `d_out` to autograd."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    with sdpa_kernel(SDPBackend.MATH):  # torch's other ones have no second derivatives
        out = _grouped(qkv, length_groups(rows, qkv), n_head, 0.0, None, None)
    (d_qkv,) = torch.autograd.grad(out, qkv, d_out, create_graph=True)
    return d_qkv
