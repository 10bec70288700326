"""The "sorted" and "padded" attention paths: steps of similar length, padded to the longest of their group.

Plain torch: any device and dtype, dropout and relative positions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from ...inputs.rows import RowLayout
from ..relative_position import RelativePairs
from ..tensors import as_tensor, place_rows

#: A group takes in lengths up to this factor above its shortest, plus 2: at most 1.6 times the needed scores.
_SPREAD = 1.25

#: Scores of one group (sequences × length²) at most, to bound memory.
_MAX_SCORES = 1 << 22


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


def _cuts(lengths: NDArray[np.int64], spread: float) -> list[tuple[int, int]]:
    """Runs of ascending positive `lengths` that go into one group."""
    cuts: list[tuple[int, int]] = []
    start = 0
    while start < len(lengths):
        end = int(np.searchsorted(lengths, lengths[start] * spread + 2, "right")) if spread else len(lengths)
        while start < end:
            # The run's longest length decides how many steps fit; a shorter run has a shorter longest.
            fits = max(1, _MAX_SCORES // int(lengths[end - 1]) ** 2)
            stop = min(end, start + fits)
            cuts.append((start, stop))
            start = stop
    return cuts


def length_groups(rows: RowLayout, like: Tensor, padded: bool) -> Groups:
    """The steps in groups of similar length, or all in one where `padded`."""
    return rows.cached(("groups", padded, like.device), lambda: _make_groups(rows, like, padded))


def _make_groups(rows: RowLayout, like: Tensor, padded: bool) -> Groups:
    order = np.argsort(rows.lengths, kind="stable")
    order = order[np.searchsorted(rows.lengths[order], 1) :]
    groups, places = [], []
    for start, stop in _cuts(rows.lengths[order], 0.0 if padded else _SPREAD):
        steps = order[start:stop]
        lengths = rows.lengths[steps][:, None]  # (b, 1)
        slots = np.arange(int(lengths.max()))[None]  # (1, M)
        index = rows.offsets[steps][:, None] + np.minimum(slots, lengths - 1)
        real = slots < lengths
        places.append(index[real])
        groups.append(Group(as_tensor(index, like), None if real.all() else as_tensor(real, like)))
    destination = np.concatenate(places) if places else np.zeros(0, np.int64)
    return Groups(tuple(groups), as_tensor(destination, like))


def grouped_attention(
    qkv: Tensor,
    groups: Groups,
    n_head: int,
    dropout: float,
    pairs: Sequence[RelativePairs] | None,
    gate: Tensor | None,
) -> Tensor:
    """Attention of (N, 3 D) queries, keys and values to (N, D).

    `pairs`: relative keys and values of each group; `gate` (N, d_head): factors of the relative values.
    """
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
