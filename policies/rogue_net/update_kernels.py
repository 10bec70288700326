"""Numba kernels: forward, loss and backward of one tile of whole steps after the other.

`fused_kernels` goes through a batch twice, and backward computes again what would take longer to write to
memory and to read. Where the loss is known in advance there is no need to: a step's gradients depend on its
own outputs only. So here a tile goes all the way, and what backward needs of all layers is still in the
cache.

The pieces are those of the two passes, with the same results. It is for networks that have one encoder for
policy and value, and one action that is chosen by softmax.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..loss_kernels import VALUE, actor_units, value_errors
from .attention.tile_attention import tile_end
from .choice_kernels import choices_backward, evaluate_choices
from .embedding_kernels import (
    COLUMNS,
    embed_tiles,
    embed_tiles_backward,
    give_weights,
    turn_weights,
)
from .fused_kernels import SLOPES, block_backward, block_forward, layer_rows, places
from .simd import LANES, kernel
from .tiles import rows_to_tile, tile_to_rows
from .value_kernels import evaluate_values, values_backward

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]


class Net(NamedTuple):
    """The network."""

    w: Floats  # (P,)
    folded: Floats  # the blocks' parameters, see `fold`
    blocks: int  # where the blocks' parameters start in `w`
    value_head: int  # and the value head's
    action_head: int
    d: int
    layers: int
    n_head: int


class Steps(NamedTuple):
    """What was seen at B steps with N rows."""

    table: Integers  # (T * COLUMNS,), see `embedding_kernels`
    type_offsets: Integers  # (T * (B + 1),): where each type's entities of each step start
    destination: Integers
    offsets: Integers  # (B + 1,): where the rows of each step start


class Actors(NamedTuple):
    """Who acted, and what was chosen; see `choice_kernels`."""

    rows: Integers  # (A,)
    offsets: Integers  # (B + 1,): where each step's actors start
    mask: NDArray[np.bool_]  # (A * C,)
    chosen: Integers  # (A * M,)
    components: Integers  # (M + 1,)
    used: NDArray[np.bool_]  # (K * M,)
    counts_all: bool


class Target(NamedTuple):
    """The loss; see `loss_kernels`."""

    log_probs: Floats  # (A,), when the actions were taken
    values: Floats  # (B,)
    advantages: Floats  # (B,)
    returns: Floats  # (B,)
    clip: float
    clips_values: bool
    scale: float  # of an actor's share of the loss
    entropy_scale: float  # of an actor's entropy
    value_scale: float  # of a step's error


class Outputs(NamedTuple):
    """Memory for what is computed of each row, actor and step, and for its gradients."""

    x: Floats  # (N * d,)
    d_x: Floats  # (N * d,)
    log_probs: Floats  # (A,)
    entropies: Floats  # (A,)
    d_log_probs: Floats  # (A,)
    d_entropies: Floats  # (A,)
    values: Floats  # (B,)
    d_values: Floats  # (B,)


def update_scratch(capacity: int, layers: int, d: int, n_head: int) -> int:
    """Numbers of scratch memory for the blocks: x, dx, 5 d rows, all layers, p, and ds with the means."""
    rows: int = 7 * d + layers * layer_rows(d, n_head) + 2 * LANES
    return rows * (capacity + LANES) + capacity + LANES


@kernel
def _loss(actors: Actors, target: Target, out: Outputs, first: int, end: int, sums: Any) -> None:
    """The gradients of what the heads gave for steps first to end; adds to `sums` (6,)."""
    actor_units(
        out.log_probs, target.log_probs, out.entropies, actors.offsets[first : end + 1],
        target.advantages[first:end], target.clip, target.scale, out.d_log_probs, sums,
    )  # fmt: skip
    for i in range(actors.offsets[first], actors.offsets[end]):
        out.d_entropies[i] = target.entropy_scale
    sums[VALUE] += value_errors(
        out.values[first:end], target.values[first:end], target.returns[first:end], target.clips_values,
        target.clip, target.value_scale, out.d_values[first:end],
    )  # fmt: skip


@kernel
def _heads(
    net: Net, steps: Steps, actors: Actors, target: Target, out: Outputs, g: Any, first: int, end: int,
    sums: Any, s: Any,
) -> int:  # fmt: skip
    """From rows `out.x` of steps first to end to their gradients `out.d_x`, through heads and loss.

    Returns the first actor whose choice can't have been drawn, or -1.
    """
    start, stop = actors.offsets[first], actors.offsets[end]
    evaluate_values(out.x, steps.offsets, first, end, net.d, net.w, net.value_head, out.values, s)
    wrong = evaluate_choices(
        out.x, actors.rows, start, stop, net.d, net.w, net.action_head, actors.components, actors.used,
        actors.counts_all, actors.mask, actors.chosen, out.log_probs, out.entropies, s,
    )  # fmt: skip
    if wrong < 0:
        _loss(actors, target, out, first, end, sums)
        values_backward(
            out.x, steps.offsets, first, end, net.d, net.w, net.value_head, out.d_values, out.d_x, g, s
        )
        choices_backward(
            out.x, actors.rows, start, stop, net.d, net.w, net.action_head, actors.components, actors.used,
            actors.counts_all, actors.mask, actors.chosen, out.d_log_probs, out.d_entropies, out.d_x, g, s,
        )  # fmt: skip
    return wrong


@kernel
def learn_tiles(
    net: Net, steps: Steps, actors: Actors, target: Target, out: Outputs, g: Any, first: int, last: int,
    capacity: int, sums: Any, s: Any, s_embedding: Any, s_heads: Any,
) -> int:  # fmt: skip
    """Add the gradients of the parameters at steps first to last to `g` (P,), where `net.w` has them, those
    of the blocks folded; and to `sums` (6,).

    `capacity` as in `blocks_forward`; `s`: scratch of `update_scratch` numbers, for the longest step;
    `s_embedding`: of `embedding_scratch` numbers for a tile's rows; `s_heads`: enough for either head.
    Returns as `_heads`.
    """
    d, layers, n_head, offsets = net.d, net.layers, net.n_head, steps.offsets
    size, g_blocks, steps_and_one = places(d)[12], g[net.blocks :], len(offsets)
    table = steps.table.copy()
    turn_weights(table, d, net.w, s_embedding)
    while first < last:
        end = tile_end(offsets, first, last, capacity)
        row, rows = offsets[first], offsets[end] - offsets[first]
        columns = (rows + LANES - 1) // LANES * LANES
        stride = max(capacity, columns) + LANES
        x, dx, scratch, saved = 0, d * stride, 2 * d * stride, 7 * d * stride
        layer_size = layer_rows(d, n_head) * stride
        p = s[saved + layers * layer_size :]
        ds = p[stride * LANES :]
        for t in range(len(table) // COLUMNS):
            table[t * COLUMNS + 4] = steps.type_offsets[t * steps_and_one + first]
            table[t * COLUMNS + 5] = steps.type_offsets[t * steps_and_one + end]
        embed_tiles(table, d, net.w, steps.destination, out.x, s_embedding, True)
        rows_to_tile(out.x, row, rows, d, s, x, stride)
        for layer in range(layers):
            block_forward(
                net.folded, layer * size, s, x, saved + layer * layer_size, stride, rows, columns, d, n_head,
                offsets, first, end, p, SLOPES,
            )  # fmt: skip
        tile_to_rows(s, x, stride, out.x, row, rows, d)
        wrong = _heads(net, steps, actors, target, out, g, first, end, sums, s_heads)
        if wrong >= 0:
            return wrong
        rows_to_tile(out.d_x, row, rows, d, s, dx, stride)
        for layer in range(layers - 1, -1, -1):
            block_backward(
                net.folded, layer * size, g_blocks, s, dx, saved + layer * layer_size, scratch, stride, rows,
                columns, d, n_head, offsets, first, end, p, ds,
            )  # fmt: skip
        tile_to_rows(s, dx, stride, out.d_x, row, rows, d)
        embed_tiles_backward(table, d, net.w, steps.destination, out.d_x, g, s_embedding, True)
        first = end
    give_weights(table, d, g, s_embedding)
    return -1
