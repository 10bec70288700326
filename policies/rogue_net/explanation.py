"""Attention weights of the blocks, for people to look at.

The network that is trained never has them as an array: its kernels keep them in tiles. Here torch computes
them, at a single step. Shape alphabet: n rows, D width, H heads.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ...envs import EntityBatch
from ..inputs.prepare import check_batch
from ..inputs.rows import RowLayout
from .blocks import Relative, SelfAttention


def attention_weights(attention: SelfAttention, x: Tensor, relative: Relative | None) -> Tensor:
    """Return softmax((q·k + q·K) / √d) of the rows (n, D) of a single step: (H, n, n), the reading row first.

    K are the keys of relative positions, where the network has them.
    """
    n, width = x.shape
    qkv = attention.qkv(x).view(n, 3, attention.n_head, width // attention.n_head)
    queries, keys, _ = qkv.permute(1, 2, 0, 3)  # each (H, n, d)
    scores = queries @ keys.transpose(-2, -1)
    if relative is not None and n:
        scores = scores + torch.einsum("hqd,qkd->hqk", queries, relative.pairs[0].keys[0])
    return torch.softmax(scores / math.sqrt(queries.shape[-1]), -1)


@contextmanager
def watch_attention(blocks: nn.ModuleList) -> Iterator[list[NDArray[np.float32]]]:
    """Yield a list that gets the weights of each of `blocks` that has attention, as torch runs it."""
    weights: list[NDArray[np.float32]] = []
    thread = threading.get_ident()

    def keep(attention: Any, arguments: tuple[Any, ...]) -> None:
        if threading.get_ident() != thread:  # it acts meanwhile
            return
        x, _, relative = arguments
        weights.append(attention_weights(attention, x, relative).float().cpu().numpy())

    attentions = [block.attn for block in blocks if isinstance(block.attn, SelfAttention)]
    handles = [attention.register_forward_pre_hook(keep) for attention in attentions]
    try:
        yield weights
    finally:
        for handle in handles:
            handle.remove()


def entities_of_rows(rows: RowLayout) -> NDArray[np.int64]:
    """Return the entity index of each row of a single step (n,); -1 is the step as a whole."""
    entities = np.full(rows.num_rows, -1, np.int64)
    count = int(rows.entity_offsets[-1])
    places = np.arange(count) if rows.row_of_entity is None else rows.row_of_entity
    known = np.flatnonzero(places >= 0)
    entities[places[known]] = known
    return entities


def check_one_step(batch: EntityBatch) -> None:
    """
    Raises:
        TypeError: `batch` is no batch.
        ValueError: `batch` has another number of steps than one.
    """
    check_batch(batch)
    if len(batch) != 1:
        raise ValueError(f"explain: expected a batch of 1 step, got {len(batch)}. Use batch.gather([step])")
