"""Numba kernels: forward, loss and backward of one tile of whole steps after the other.

`block_kernels` goes through a batch twice, and backward computes again what would take longer to write to
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

from ...policies.kernels.block_kernels import (
    SLOPES,
    BlocksShape,
    backward_memory,
    block_backward,
    block_forward,
    block_parameters,
    block_tiles,
)
from ...policies.kernels.embedding_kernels import (
    add_weight_gradients,
    embed_tiles,
    embed_tiles_backward,
    prepare_weights,
    type_table,
)
from ...policies.kernels.heads.choice_kernels import (
    ChoiceBatch,
    ChoiceHead,
    choices_backward,
    evaluate_choices,
)
from ...policies.kernels.heads.select_kernels import (
    SelectionBatch,
    SelectionHead,
    evaluate_selections,
    selections_backward,
)
from ...policies.kernels.heads.value_kernels import ValueMap, evaluate_values, values_backward
from ...policies.kernels.tiles.matrices import Tile
from ...policies.kernels.tiles.simd import kernel
from ...policies.kernels.tiles.step_tiles import StepRange, step_tile
from ...policies.kernels.tiles.tile_kernels import rows_to_tile, tile_to_rows
from .loss_kernels import VALUE, actor_units, value_errors

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]


class Net(NamedTuple):
    """The network."""

    w: Floats  # (P,)
    folded: Floats  # the blocks' parameters, see `fold`
    blocks: int  # where the blocks' parameters start in `w`
    value_head: ValueMap
    shape: BlocksShape


class Steps(NamedTuple):
    """The inputs of B steps with N rows."""

    types: Integers  # (6, T): a `TypeTable`
    type_offsets: Integers  # (T * (B + 1),): where each type's entities of each step start
    destination: Integers
    offsets: Integers  # (B + 1,): where the rows of each step start


class ActionTable(NamedTuple):
    """A number per action in each array (H,): where its parts of `Actors` start, and its head."""

    actors: Integers
    mask: Integers
    chosen: Integers
    actees: Integers
    components: Integers
    used: Integers
    parameters: Integers  # where the head's parameters start in `Net.w`
    num_components: Integers  # of a choice
    counts_all: Integers  # of a choice: 1 where all components count
    width: Integers  # of a selection, of queries and keys; 0: a choice
    capacity: Integers  # of a selection: columns of a tile


class Actors(NamedTuple):
    """The actors of H actions and what they chose, one action behind the other; see `ChoiceHead`,
    `ChoiceBatch` and `SelectionBatch`."""

    table: ActionTable
    rows: Integers  # (A,)
    offsets: Integers  # (H * (B + 1),): where each step's actors start, counted for each action by itself
    mask: NDArray[np.bool_]
    chosen: Integers
    actee_rows: Integers  # (E,)
    actees: Integers  # (E,)
    actee_offsets: Integers  # (H * (B + 1),), counted like `offsets`
    pair_offsets: Integers  # likewise
    components: Integers  # (M + 1,)
    used: NDArray[np.bool_]  # (K * M,)


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


@kernel
def _choice(net: Net, actors: Actors, h: int) -> tuple[ChoiceHead, ChoiceBatch]:
    """Return action h, a choice."""
    table = actors.table
    first, parts = table.components[h], table.num_components[h]
    head = ChoiceHead(
        net.w, table.parameters[h], net.shape.d, actors.components[first : first + parts + 1],
        actors.used[table.used[h] :], table.counts_all[h] > 0,
    )  # fmt: skip
    return head, ChoiceBatch(
        actors.rows[table.actors[h] :], actors.mask[table.mask[h] :], actors.chosen[table.chosen[h] :]
    )


@kernel
def _selection(net: Net, actors: Actors, h: int, ends: int) -> tuple[SelectionHead, SelectionBatch]:
    """Return action h, a selection, where steps have `ends` offsets."""
    table, steps = actors.table, slice(h * ends, (h + 1) * ends)
    head = SelectionHead(net.w, table.parameters[h], net.shape.d, table.width[h])
    return head, SelectionBatch(
        actors.rows[table.actors[h] :], actors.actee_rows[table.actees[h] :], actors.offsets[steps],
        actors.actee_offsets[steps], actors.pair_offsets[steps], actors.actees[table.actees[h] :],
        actors.mask[table.mask[h] :], actors.chosen[table.chosen[h] :], table.capacity[h],
    )  # fmt: skip


@kernel
def _act(
    net: Net, actors: Actors, target: Target, out: Outputs, selects: Any, h: int, first: int, end: int,
    sums: Any, s: Any,
) -> int:  # fmt: skip
    """Add action h's part of the loss at steps first to end, with its gradients by log π and entropy.

    Returns the first actor whose choice can't have been drawn, or -1.
    """
    # Numba compiles no branch for selections where `selects` is None; hence two ifs.
    at, ends = actors.table.actors[h], len(out.values) + 1
    offsets = actors.offsets[h * ends : (h + 1) * ends]
    start, stop = offsets[first], offsets[end]
    log_probs, entropies = out.log_probs[at:], out.entropies[at:]
    chooses, wrong = True, -1
    if selects is not None:
        chooses = actors.table.width[h] == 0
        if not chooses:
            selection, selected = _selection(net, actors, h, ends)
            wrong = evaluate_selections(selection, selected, out.x, first, end, log_probs, entropies, s)
    if chooses:
        choice, chosen = _choice(net, actors, h)
        wrong = evaluate_choices(choice, chosen, out.x, start, stop, log_probs, entropies, s)
    if wrong < 0:
        actor_units(
            log_probs, target.log_probs[at:], entropies, offsets[first : end + 1],
            target.advantages[first:end], target.clip, target.scale, out.d_log_probs[at:], sums,
        )  # fmt: skip
        for i in range(at + start, at + stop):
            out.d_entropies[i] = target.entropy_scale
    return wrong


@kernel
def _act_backward(
    net: Net, actors: Actors, out: Outputs, selects: Any, h: int, g: Any, first: int, end: int, s: Any
) -> None:
    """Add to the rows' gradients what action h gives at steps first to end, and to `g`."""
    at, ends = actors.table.actors[h], len(out.values) + 1
    d_log_probs, d_entropies = out.d_log_probs[at:], out.d_entropies[at:]
    chooses = True
    if selects is not None:
        chooses = actors.table.width[h] == 0
        if not chooses:
            selection, selected = _selection(net, actors, h, ends)
            selections_backward(
                selection, selected, out.x, first, end, d_log_probs, d_entropies, out.d_x, g, s
            )
    if chooses:
        choice, chosen = _choice(net, actors, h)
        start, stop = actors.offsets[h * ends + first], actors.offsets[h * ends + end]
        choices_backward(choice, chosen, out.x, start, stop, d_log_probs, d_entropies, out.d_x, g, s)


@kernel
def _heads(
    net: Net, steps: Steps, actors: Actors, target: Target, out: Outputs, selects: Any, g: Any, first: int,
    end: int, sums: Any, s: Any,
) -> tuple[int, int]:  # fmt: skip
    """From rows `out.x` of steps first to end to their gradients `out.d_x`, through heads and loss.

    Returns the first action and its actor whose choice can't have been drawn, or -1 twice.
    """
    actions = len(actors.table.actors)
    evaluate_values(net.value_head, out.x, steps.offsets, first, end, out.values, s)
    for h in range(actions):
        wrong = _act(net, actors, target, out, selects, h, first, end, sums, s)
        if wrong >= 0:
            return h, wrong
    sums[VALUE] += value_errors(
        out.values[first:end], target.values[first:end], target.returns[first:end], target.clips_values,
        target.clip, target.value_scale, out.d_values[first:end],
    )  # fmt: skip
    values_backward(net.value_head, out.x, steps.offsets, first, end, out.d_values, out.d_x, g, s)
    for h in range(actions):
        _act_backward(net, actors, out, selects, h, g, first, end, s)
    return -1, -1


@kernel
def learn_tiles(
    net: Net, steps: Steps, actors: Actors, target: Target, out: Outputs, selects: Any, g: Any, first: int,
    last: int, capacity: int, sums: Any, s: Any, s_embedding: Any, s_heads: Any,
) -> tuple[int, int]:  # fmt: skip
    """Add the gradients of the parameters at steps first to last to `g` (P,), where `net.w` has them, those
    of the blocks folded; and to `sums` (6,).

    It has so many parameters because each is memory of another kind. `selects`: None if no action is a
    selection, whose kernels then need not be compiled, else True. `capacity` as in `StepRange`; `s`:
    scratch of `backward_scratch` numbers for all layers and the longest step; `s_embedding`: of
    `embedding_scratch` numbers for a tile's rows; `s_heads`: enough for either head. Returns as `_heads`.
    """
    shape, d = net.shape, net.shape.d
    g_blocks, ends = g[net.blocks :], len(steps.offsets)
    size = block_parameters(0, d).end
    types = type_table(steps.types.copy())
    prepare_weights(types, d, net.w, s_embedding)
    while first < last:
        tile = step_tile(StepRange(steps.offsets, first, last, capacity), first)
        memory = backward_memory(shape, tile.stride, s, shape.layers)
        x, dx = Tile(s, memory.x, tile.stride), Tile(s, memory.dx, tile.stride)
        for t in range(len(types.first)):
            types.first[t] = steps.type_offsets[t * ends + first]
            types.last[t] = steps.type_offsets[t * ends + tile.end]
        embed_tiles(types, d, net.w, steps.destination, out.x, s_embedding, True)
        rows_to_tile(out.x, tile.row, tile.rows, d, x)
        for layer in range(shape.layers):
            at = block_parameters(layer * size, d)
            tiles = block_tiles(memory.saved + layer * memory.layer_size, d, tile.stride)
            block_forward(net.folded, at, shape, tile, memory, tiles, SLOPES)
        tile_to_rows(x, out.x, tile.row, tile.rows, d)
        wrong = _heads(net, steps, actors, target, out, selects, g, first, tile.end, sums, s_heads)
        if wrong[0] >= 0:
            return wrong
        rows_to_tile(out.d_x, tile.row, tile.rows, d, dx)
        for layer in range(shape.layers - 1, -1, -1):
            at = block_parameters(layer * size, d)
            tiles = block_tiles(memory.saved + layer * memory.layer_size, d, tile.stride)
            block_backward(net.folded, at, g_blocks, shape, tile, memory, tiles)
        tile_to_rows(dx, out.d_x, tile.row, tile.rows, d)
        embed_tiles_backward(types, d, net.w, steps.destination, out.d_x, g, s_embedding, True)
        first = tile.end
    add_weight_gradients(types, d, g, s_embedding)
    return -1, -1
