"""Numba kernels: forward, loss and backward of one tile of whole steps after the other.

`fused_kernels` goes through a batch twice, and backward computes again what would take longer to write to
memory and to read. Where the loss is known in advance there is no need to: a step's gradients depend on its
own outputs only. So here a tile goes all the way, and what backward needs of all layers is still in the
cache.

The pieces are those of the two passes, with the same results. It is for networks that have one encoder for
policy and value, and whose actions are all chosen by softmax, among choices or entities.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...policies.kernels.attention.tile_attention import tile_end
from ...policies.kernels.embedding_kernels import (
    COLUMNS,
    embed_tiles,
    embed_tiles_backward,
    give_weights,
    turn_weights,
)
from ...policies.kernels.fused_kernels import SLOPES, block_backward, block_forward, layer_rows, places
from ...policies.kernels.heads.choice_kernels import choices_backward, evaluate_choices
from ...policies.kernels.heads.select_kernels import evaluate_selections, selections_backward
from ...policies.kernels.heads.value_kernels import evaluate_values, values_backward
from ...policies.kernels.tiles.simd import LANES, kernel
from ...policies.kernels.tiles.tile_kernels import rows_to_tile, tile_to_rows
from .loss_kernels import VALUE, actor_units, value_errors

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]


class Net(NamedTuple):
    """The network."""

    w: Floats  # (P,)
    folded: Floats  # the blocks' parameters, see `fold`
    blocks: int  # where the blocks' parameters start in `w`
    value_head: int  # and the value head's
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
    """Who acted, and what was chosen, of H actions one behind the other; see `choice_kernels` and
    `select_kernels`, which have names for the last three and the four before them."""

    heads: Integers  # (H * HEAD,): where each action's part of the arrays below starts, and in `Net.w`
    rows: Integers  # (A,)
    offsets: Integers  # (H * (B + 1),): where each step's actors start, counted for each action by itself
    mask: NDArray[np.bool_]
    chosen: Integers
    actees: Integers  # (E,): their rows
    entities: Integers  # (E,): their indices
    actee_offsets: Integers  # (H * (B + 1),), counted like `offsets`
    pair_offsets: Integers  # likewise
    components: Integers  # (M + 1,)
    used: NDArray[np.bool_]  # (K * M,)


#: Numbers per action in the table of heads: starts in rows, mask, chosen, actees, components and used; where
#: the parameters start; of a choice the number of components and whether all count; of a selection the width
#: of queries (of a choice 0) and the columns of a tile.
HEAD = 11


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
def _choosing(actors: Actors, h: int) -> Any:
    """Of action h, a choice: mask, chosen, components, used, and whether all components count."""
    head = actors.heads[h * HEAD : (h + 1) * HEAD]
    components = actors.components[head[4] : head[4] + head[7] + 1]
    return actors.mask[head[1] :], actors.chosen[head[2] :], components, actors.used[head[5] :], head[8] > 0


@kernel
def _selecting(actors: Actors, h: int, ends: int) -> Any:
    """Of action h, a selection: actees' rows, their offsets and those of pairs, entities, mask and chosen."""
    head = actors.heads[h * HEAD : (h + 1) * HEAD]
    return (
        actors.actees[head[3] :], actors.actee_offsets[h * ends : (h + 1) * ends],
        actors.pair_offsets[h * ends : (h + 1) * ends],
        actors.entities[head[3] :], actors.mask[head[1] :], actors.chosen[head[2] :],
    )  # fmt: skip


@kernel
def _act(
    net: Net, actors: Actors, target: Target, out: Outputs, h: int, first: int, end: int, sums: Any, s: Any
) -> int:
    """What action h adds to the loss at steps first to end, and its gradients by log π and entropy.

    Returns the first actor whose choice can't have been drawn, or -1.
    """
    head, ends = actors.heads[h * HEAD : (h + 1) * HEAD], len(out.values) + 1
    at, place, width, capacity = head[0], head[6], head[9], head[10]
    rows, offsets = actors.rows[at:], actors.offsets[h * ends : (h + 1) * ends]
    start, stop = offsets[first], offsets[end]
    if width:
        actees, actee_offsets, pair_offsets, entities, mask, chosen = _selecting(actors, h, ends)
        wrong = evaluate_selections(
            out.x, rows, actees, offsets, actee_offsets, pair_offsets, entities, first, end, net.d, net.w,
            place, width, capacity, mask, chosen, out.log_probs[at:], out.entropies[at:], s,
        )  # fmt: skip
    else:
        mask, chosen, components, used, counts_all = _choosing(actors, h)
        wrong = evaluate_choices(
            out.x, rows, start, stop, net.d, net.w, place, components, used, counts_all, mask, chosen,
            out.log_probs[at:], out.entropies[at:], s,
        )  # fmt: skip
    if wrong < 0:
        actor_units(
            out.log_probs[at:], target.log_probs[at:], out.entropies[at:], offsets[first : end + 1],
            target.advantages[first:end], target.clip, target.scale, out.d_log_probs[at:], sums,
        )  # fmt: skip
        for i in range(at + start, at + stop):
            out.d_entropies[i] = target.entropy_scale
    return wrong


@kernel
def _act_backward(
    net: Net, actors: Actors, out: Outputs, h: int, g: Any, first: int, end: int, s: Any
) -> None:
    """Add to the rows' gradients what action h gives at steps first to end, and to `g`."""
    head, ends = actors.heads[h * HEAD : (h + 1) * HEAD], len(out.values) + 1
    at, place, width, capacity = head[0], head[6], head[9], head[10]
    rows, offsets = actors.rows[at:], actors.offsets[h * ends : (h + 1) * ends]
    if width:
        actees, actee_offsets, pair_offsets, entities, mask, chosen = _selecting(actors, h, ends)
        selections_backward(
            out.x, rows, actees, offsets, actee_offsets, pair_offsets, entities, first, end, net.d, net.w,
            place, width, capacity, mask, chosen, out.d_log_probs[at:], out.d_entropies[at:], out.d_x, g, s,
        )  # fmt: skip
    else:
        mask, chosen, components, used, counts_all = _choosing(actors, h)
        choices_backward(
            out.x, rows, offsets[first], offsets[end], net.d, net.w, place, components, used, counts_all,
            mask, chosen, out.d_log_probs[at:], out.d_entropies[at:], out.d_x, g, s,
        )  # fmt: skip


@kernel
def _heads(
    net: Net, steps: Steps, actors: Actors, target: Target, out: Outputs, g: Any, first: int, end: int,
    sums: Any, s: Any,
) -> tuple[int, int]:  # fmt: skip
    """From rows `out.x` of steps first to end to their gradients `out.d_x`, through heads and loss.

    Returns the first action and its actor whose choice can't have been drawn, or -1 twice.
    """
    actions = len(actors.heads) // HEAD
    evaluate_values(out.x, steps.offsets, first, end, net.d, net.w, net.value_head, out.values, s)
    for h in range(actions):
        wrong = _act(net, actors, target, out, h, first, end, sums, s)
        if wrong >= 0:
            return h, wrong
    sums[VALUE] += value_errors(
        out.values[first:end], target.values[first:end], target.returns[first:end], target.clips_values,
        target.clip, target.value_scale, out.d_values[first:end],
    )  # fmt: skip
    values_backward(
        out.x, steps.offsets, first, end, net.d, net.w, net.value_head, out.d_values, out.d_x, g, s
    )
    for h in range(actions):
        _act_backward(net, actors, out, h, g, first, end, s)
    return -1, -1


@kernel
def learn_tiles(
    net: Net, steps: Steps, actors: Actors, target: Target, out: Outputs, g: Any, first: int, last: int,
    capacity: int, sums: Any, s: Any, s_embedding: Any, s_heads: Any,
) -> tuple[int, int]:  # fmt: skip
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
        if wrong[0] >= 0:
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
    return -1, -1
