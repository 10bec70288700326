"""Numba kernels: the head that selects an entity.

With queries q = W_q x + b_q of the actors and keys k = W_k x + b_k of the actees of a step, all K wide, actor
a picks among the actees that its mask allows with

    l_e = q_a·k_e / √K,    p = softmax of l,    log π = log p_c,    H = -Σ p_e log p_e.

Backward, from a = ∂/∂ log π and h = ∂/∂ H:

    ∂/∂ l_e = a (1[e = c] - p_e) - h p_e (log p_e + H)
    dq_a = Σ_e dl_e k_e / √K,    dk_e = Σ_a dl_e q_a / √K

Scores stand as in `tile_attention`: 16 actors in the lanes, actees down the column, at a cost of actors ×
actees of each step. A tile holds whole steps; what blocks of 16 columns write beyond a step is overwritten
when the next step's turn comes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...inputs.actors import FORBIDDEN
from ..tiles.actor_tiles import draw_one, gather_rows, masked_logit, scatter_add_rows
from ..tiles.functions import exp, log
from ..tiles.linear_maps import Linear, linear, linear_backward, linear_gradients
from ..tiles.matrices import Floats, Line, Strided, Tile, up_to_4, up_to_16
from ..tiles.matrix_products import ADD, SET, SET_BIAS, product_16
from ..tiles.simd import (
    LANES,
    inlined,
    kernel,
    load,
    maximum,
    smaller,
    splat,
    store,
    transpose,
    where_positive,
)
from ..tiles.tile_kernels import clear_columns, new_floats

_ZERO = np.float32(0.0)
_ONE = np.float32(1.0)
_FORBIDDEN = np.float32(FORBIDDEN)


class SelectionHead(NamedTuple):
    """A head that selects an entity: W_q (K, d), b_q, W_k and b_k lie one after the other."""

    w: Floats  # all parameters
    start: int  # where W_q starts in `w`
    d: int
    width: int  # K, of queries and keys


class SelectionBatch(NamedTuple):
    """The actors and actees of one action, and what was or is to be selected."""

    rows: NDArray[np.int64]  # (A,): the row of each actor
    actee_rows: NDArray[np.int64]  # (E,): the row of each actee
    actor_offsets: NDArray[np.int64]  # (B + 1,): where each step's actors start
    actee_offsets: NDArray[np.int64]  # (B + 1,): where each step's actees start
    pair_offsets: NDArray[np.int64]  # (B + 1,): where each step's part of the mask starts
    actees: NDArray[np.int64]  # (E,): entity indices
    mask: NDArray[np.bool_]  # (P,), actor by actor
    chosen: NDArray[np.int64]  # (A,): entity indices
    capacity: int  # columns of a tile, see `select_capacity`
    draws: NDArray[np.float64]  # (A,) in [0, 1); below 0: the most probable one. (0,): `chosen` is given


class SelectionPlaces(NamedTuple):
    """The start of each part of the scratch memory; tiles have lines of `capacity` + 16 columns."""

    gathered: int  # rows, one after the other
    actors: int  # (d, capacity): actors' rows
    actees: int  # (d, capacity): actees' rows
    queries: int  # (K, capacity), as are the next three
    keys: int
    d_queries: int
    d_keys: int
    scores: int  # (capacity, 16): l, of 16 actors and all actees of a step
    probabilities: int  # (capacity, 16)
    tops: int  # (16,), as are the next four: the largest score of each actor
    log_sums: int  # log Σ exp(score - top)
    entropies: int
    d_log_probs: int
    d_entropies: int


class SelectionBlock(NamedTuple):
    """Up to 16 actors of a step, and all of its actees, in a tile."""

    actor: int  # the first actor
    lanes: int  # actors
    actee: int  # the first actee
    actees: int
    query: int  # the first actor's column
    key: int  # the first actee's column
    pair: int  # where their part of the mask starts


def select_capacity(most: int) -> int:
    """Return the columns of a tile, for at most `most` actors or actees of a step."""
    return max(128, int(up_to_16(most)))


def select_scratch(d: int, width: int, capacity: int) -> int:
    """Return the numbers of scratch memory `s` that the kernels below need."""
    return (3 * d + 4 * up_to_4(width) + 2 * LANES) * (capacity + LANES) + 5 * LANES


@inlined
def selection_places(d: int, width: int, capacity: int) -> SelectionPlaces:
    stride = capacity + LANES
    padded = up_to_4(width) * stride
    actors = d * stride
    actees = actors + d * stride
    queries = actees + d * stride
    keys = queries + padded
    d_queries = keys + padded
    d_keys = d_queries + padded
    scores = d_keys + padded
    probabilities = scores + LANES * stride
    tops = probabilities + LANES * stride
    return SelectionPlaces(
        0, actors, actees, queries, keys, d_queries, d_keys, scores, probabilities, tops, tops + LANES,
        tops + 2 * LANES, tops + 3 * LANES, tops + 4 * LANES,
    )  # fmt: skip


@inlined
def _query_map(head: Any) -> Linear:
    return Linear(head.w, head.start, head.start + head.width * head.d, head.width, head.d)


@inlined
def _key_map(head: Any) -> Linear:
    start = head.start + head.width * (head.d + 1)
    return Linear(head.w, start, start + head.width * head.d, head.width, head.d)


@inlined
def _tile_end(batch: Any, first: int, last: int) -> int:
    """Return the end of the longest run of steps from `first` whose actors and actees fit in a tile."""
    actors, actees = batch.actor_offsets, batch.actee_offsets
    end = first + 1
    while (
        end < last
        and actors[end + 1] - actors[first] <= batch.capacity
        and actees[end + 1] - actees[first] <= batch.capacity
    ):
        end += 1
    return end


@kernel
def _queries_and_keys(head: Any, batch: Any, x: Any, first: int, end: int, s: Any) -> None:
    """Fill the tiles of actors, actees, queries and keys of steps first to end."""
    at, stride, d = selection_places(head.d, head.width, batch.capacity), batch.capacity + LANES, head.d
    start, count = batch.actor_offsets[first], batch.actor_offsets[end] - batch.actor_offsets[first]
    tile, gathered = Tile(s, at.actors, stride), Line(s, at.gathered)
    gather_rows(x, batch.rows, start, count, d, gathered, tile)
    linear(_query_map(head), tile, Tile(s, at.queries, stride), up_to_16(count), SET_BIAS)
    start, count = batch.actee_offsets[first], batch.actee_offsets[end] - batch.actee_offsets[first]
    tile = Tile(s, at.actees, stride)
    gather_rows(x, batch.actee_rows, start, count, d, gathered, tile)
    linear(_key_map(head), tile, Tile(s, at.keys, stride), up_to_16(count), SET_BIAS)


@inlined
def _selection_block(batch: Any, first: int, b: int, actor: int) -> SelectionBlock:
    """Return the block of step b from `actor`, in a tile whose first step is `first`."""
    step_actor, step_actee = batch.actor_offsets[b], batch.actee_offsets[b]
    actees = batch.actee_offsets[b + 1] - step_actee
    return SelectionBlock(
        actor, smaller(LANES, batch.actor_offsets[b + 1] - actor), step_actee, actees,
        actor - batch.actor_offsets[first], step_actee - batch.actee_offsets[first],
        batch.pair_offsets[b] + (actor - step_actor) * actees,
    )  # fmt: skip


@kernel
def _selection_distributions(at: Any, block: Any, mask: Any, width: int, stride: int, s: Any) -> None:
    """Write scores and probabilities of a block, with their largest scores, log sums and entropies."""
    n, scores = block.actees, Tile(s, at.scores, LANES)
    keys = Strided(s, at.keys + block.key, 1, stride)
    product_16(n, width, keys, Tile(s, at.queries + block.query, stride), scores, SET)
    scale = splat(np.float32(1.0 / np.sqrt(width)))
    for e in range(n):
        flags = at.probabilities + e * LANES
        for i in range(block.lanes):
            s[flags + i] = _ONE if mask[block.pair + i * n + e] else _ZERO
        for i in range(block.lanes, LANES):
            s[flags + i] = _ONE
    top = splat(_FORBIDDEN)
    for e in range(0, n * LANES, LANES):
        score = masked_logit(load(s, at.probabilities + e), load(s, at.scores + e) * scale)
        store(s, at.scores + e, score)
        top = maximum(top, score)
    total, weighted = splat(_ZERO), splat(_ZERO)
    for e in range(0, n * LANES, LANES):
        shifted = load(s, at.scores + e) - top
        power = exp(shifted) * load(s, at.probabilities + e)
        store(s, at.probabilities + e, power)
        total = total + power
        weighted = weighted + power * shifted
    total = total + splat(_ONE) - where_positive(total, splat(_ONE))
    inverse = splat(_ONE) / total
    for e in range(0, n * LANES, LANES):
        store(s, at.probabilities + e, load(s, at.probabilities + e) * inverse)
    log_total = log(total)
    store(s, at.tops, top)
    store(s, at.log_sums, log_total)
    store(s, at.entropies, log_total - weighted * inverse)


@inlined
def _find_chosen(batch: Any, block: Any, i: int) -> int:
    """Return which actee of the block actor i chose, or -1 if it is not there or not allowed."""
    mask, actees, wanted = batch.mask, batch.actees, batch.chosen[block.actor + i]
    for e in range(block.actees):
        if mask[block.pair + i * block.actees + e] and actees[block.actee + e] == wanted:
            return e
    return -1


@inlined
def _log_prob(at: Any, e: int, i: int, s: Any) -> float:
    return s[at.scores + e * LANES + i] - s[at.tops + i] - s[at.log_sums + i]


@kernel
def evaluate_selections(
    head: Any, batch: Any, x: Any, first: int, last: int, log_probs: Any, entropies: Any, s: Any
) -> int:
    """Write log π and H (A,) of the actors of steps first to last, whose rows are in x (N * d,).

    With `draws` entities are selected first, and `chosen` is written. `s`: `select_scratch`. Returns the
    first actor whose choice is not allowed, or that has no allowed actee; or -1.
    """
    at, stride = selection_places(head.d, head.width, batch.capacity), batch.capacity + LANES
    while first < last:
        end = _tile_end(batch, first, last)
        _queries_and_keys(head, batch, x, first, end, s)
        for b in range(first, end):
            for a in range(batch.actor_offsets[b], batch.actor_offsets[b + 1], LANES):
                block = _selection_block(batch, first, b, a)
                _selection_distributions(at, block, batch.mask, head.width, stride, s)
                for i in range(block.lanes):
                    if len(batch.draws):
                        e = draw_one(
                            batch.mask, block.pair + i * block.actees, 1, s, at.scores + i,
                            at.probabilities + i, LANES, block.actees, batch.draws[a + i],
                        )  # fmt: skip
                        if e >= 0:
                            batch.chosen[a + i] = batch.actees[block.actee + e]
                    else:
                        e = _find_chosen(batch, block, i)
                    if e < 0:
                        return a + i
                    log_probs[a + i], entropies[a + i] = _log_prob(at, e, i, s), s[at.entropies + i]
        first = end
    return -1


@inlined
def _score_gradients(at: Any, batch: Any, block: Any, width: int, s: Any) -> None:
    """Scores become their gradients, times 1 / √K; a and h are in their lines."""
    n = block.actees
    given, bonus = load(s, at.d_log_probs), load(s, at.d_entropies)
    shift, entropy = load(s, at.tops) + load(s, at.log_sums), load(s, at.entropies)
    scale = splat(np.float32(-1.0 / np.sqrt(width)))
    for e in range(0, n * LANES, LANES):
        p = load(s, at.probabilities + e) * scale
        store(s, at.scores + e, p * (given + bonus * (load(s, at.scores + e) - shift + entropy)))
    for i in range(block.lanes):
        e = _find_chosen(batch, block, i)
        others = _ZERO  # all of an actor's add up to 0; 1 - p would be rounding
        for other in range(n):
            if other != e:
                others += s[at.scores + other * LANES + i]
        s[at.scores + e * LANES + i] = -others


@inlined
def _block_backward(at: Any, block: Any, width: int, stride: int, turned: Any, s: Any) -> None:
    """Gradients of a block's queries, and added to those of its keys, from the gradients of its scores."""
    n, scores = block.actees, Tile(s, at.scores, LANES)
    query, key = at.queries + block.query, at.keys + block.key
    d_query = Tile(s, at.d_queries + block.query, stride)
    product_16(width, n, Strided(s, key, stride, 1), scores, d_query, SET)
    for j in range(0, n, LANES):
        transpose(s, at.scores + j * LANES, LANES, turned, 0, LANES)
        d_key = Tile(s, at.d_keys + block.key + j, stride)
        product_16(width, block.lanes, Strided(s, query, stride, 1), Tile(turned, 0, LANES), d_key, ADD)


@kernel
def selections_backward(
    head: Any, batch: Any, x: Any, first: int, last: int, d_log_probs: Any, d_entropies: Any, d_x: Any,
    g: Any, s: Any,
) -> None:  # fmt: skip
    """Add the gradients of the rows to `d_x` (N * d,), and of the weights to `g` where `w` has them.

    Arguments as in `evaluate_selections`; d a multiple of 4. `g` has 4 d numbers or more behind the head's.
    """
    width, stride = head.width, batch.capacity + LANES
    at = selection_places(head.d, width, batch.capacity)
    turned = new_floats(LANES * LANES)
    while first < last:
        end = _tile_end(batch, first, last)
        _queries_and_keys(head, batch, x, first, end, s)
        s[at.d_queries : at.scores] = _ZERO
        for b in range(first, end):
            d_key = at.d_keys + batch.actee_offsets[b] - batch.actee_offsets[first]
            n = batch.actee_offsets[b + 1] - batch.actee_offsets[b]
            for k in range(width):  # the step before may have written here
                s[d_key + k * stride : d_key + k * stride + n] = _ZERO
            for a in range(batch.actor_offsets[b], batch.actor_offsets[b + 1], LANES):
                block = _selection_block(batch, first, b, a)
                _selection_distributions(at, block, batch.mask, width, stride, s)
                s[at.d_log_probs : at.d_entropies + LANES] = _ZERO
                for i in range(block.lanes):
                    s[at.d_log_probs + i], s[at.d_entropies + i] = d_log_probs[a + i], d_entropies[a + i]
                _score_gradients(at, batch, block, width, s)
                _block_backward(at, block, width, stride, turned, s)
        actors, actees = batch.actor_offsets[first], batch.actee_offsets[first]
        _map_backward(
            _query_map(head), Tile(s, at.d_queries, stride), Tile(s, at.actors, stride),
            batch.rows[actors : batch.actor_offsets[end]], d_x, g, Line(s, at.gathered),
        )  # fmt: skip
        _map_backward(
            _key_map(head), Tile(s, at.d_keys, stride), Tile(s, at.actees, stride),
            batch.actee_rows[actees : batch.actee_offsets[end]], d_x, g, Line(s, at.gathered),
        )  # fmt: skip
        first = end


@kernel
def _map_backward(layer: Any, dy: Any, tile: Any, rows: Any, d_x: Any, g: Any, gathered: Any) -> None:
    """Gradients of a linear map of the rows in a tile, and through it of the `rows`."""
    count = len(rows)
    clear_columns(dy, layer.outputs, count, dy.stride)
    linear_gradients(layer, dy, tile, up_to_16(count), g)
    linear_backward(layer, dy, tile, up_to_16(count))
    scatter_add_rows(tile, d_x, rows, 0, count, layer.inputs, gathered)
