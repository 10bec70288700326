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

from typing import Any

import numpy as np

from ...inputs.actors import FORBIDDEN
from ..tiles.actor_tiles import give_rows, lowered, take_rows, up_to_4
from ..tiles.products import ADD, SET, SET_BIAS, outer_sums, product, product_16, row_sums
from ..tiles.simd import LANES, exp, kernel, load, log, maximum, splat, store, transpose, where_positive

_ZERO = np.float32(0.0)
_ONE = np.float32(1.0)
_FORBIDDEN = np.float32(FORBIDDEN)


def select_capacity(most: int) -> int:
    """Columns of a tile, for at most `most` actors or actees of a step."""
    return max(128, -(-most // LANES) * LANES)


def select_scratch(d: int, width: int, capacity: int) -> int:
    """Numbers of scratch memory for the kernels below."""
    return (3 * d + 4 * up_to_4(width) + 2 * LANES) * (capacity + LANES) + 5 * LANES


@kernel
def _places(d: int, width: int, capacity: int) -> tuple[int, ...]:
    """Where in the scratch memory lie: a list of rows, tiles of actors and actees, queries, keys, their
    gradients, scores, probabilities, and lines of the largest score, log of the sum, entropy, a and h."""
    stride = capacity + LANES
    padded = (width + 3) // 4 * 4
    actors = d * stride
    actees = actors + d * stride
    queries = actees + d * stride
    keys = queries + padded * stride
    d_queries = keys + padded * stride
    d_keys = d_queries + padded * stride
    scores = d_keys + padded * stride
    probabilities = scores + LANES * stride
    return (
        0, actors, actees, queries, keys, d_queries, d_keys, scores, probabilities,
        probabilities + LANES * stride,
    )  # fmt: skip


@kernel
def _tile_end(actors: Any, actees: Any, first: int, last: int, capacity: int) -> int:
    """The end of the longest run of steps from `first` whose actors and actees fit in a tile."""
    end = first + 1
    while (
        end < last
        and actors[end + 1] - actors[first] <= capacity
        and actees[end + 1] - actees[first] <= capacity
    ):
        end += 1
    return end


@kernel
def _fill(
    x: Any, actor_rows: Any, actee_rows: Any, a0: int, actors: int, e0: int, actees: int, d: int, w: Any,
    w0: int, width: int, capacity: int, s: Any,
) -> None:  # fmt: skip
    """The tiles of actors, actees, queries and keys."""
    line, actor_tile, actee_tile, queries, keys, _, _, _, _, _ = _places(d, width, capacity)
    stride = capacity + LANES
    take_rows(x, actor_rows, a0, actors, d, s, line, actor_tile, stride)
    take_rows(x, actee_rows, e0, actees, d, s, line, actee_tile, stride)
    bias, size = w0 + width * d, width * (d + 1)
    columns = (actors + LANES - 1) // LANES * LANES
    product(width, d, w, w0, d, 1, s, actor_tile, stride, s, queries, stride, columns, SET_BIAS, w, bias)
    columns = (actees + LANES - 1) // LANES * LANES
    product(
        width, d, w, w0 + size, d, 1, s, actee_tile, stride, s, keys, stride, columns, SET_BIAS, w,
        bias + size,
    )  # fmt: skip


@kernel
def _distributions(
    s: Any, query: int, key: int, n: int, lanes: int, width: int, stride: int, mask: Any, place: int,
    scores: int, probabilities: int, lines: int,
) -> None:  # fmt: skip
    """Scores and probabilities of `n` actees for the `lanes` actors at column `query`, and their lines."""
    product_16(n, width, s, key, 1, stride, s, query, stride, s, scores, LANES, SET)
    scale = splat(np.float32(1.0 / np.sqrt(width)))
    for e in range(n):
        flags = probabilities + e * LANES
        for i in range(lanes):
            s[flags + i] = _ONE if mask[place + i * n + e] else _ZERO
        for i in range(lanes, LANES):
            s[flags + i] = _ONE
    top = splat(_FORBIDDEN)
    for e in range(0, n * LANES, LANES):
        flag = load(s, probabilities + e)
        score = lowered(flag, load(s, scores + e) * scale)
        store(s, scores + e, score)
        top = maximum(top, score)
    total, weighted = splat(_ZERO), splat(_ZERO)
    for e in range(0, n * LANES, LANES):
        shifted = load(s, scores + e) - top
        power = exp(shifted) * load(s, probabilities + e)
        store(s, probabilities + e, power)
        total = total + power
        weighted = weighted + power * shifted
    total = total + splat(_ONE) - where_positive(total, splat(_ONE))
    inverse = splat(_ONE) / total
    for e in range(0, n * LANES, LANES):
        store(s, probabilities + e, load(s, probabilities + e) * inverse)
    log_total = log(total)
    store(s, lines, top)
    store(s, lines + LANES, log_total)
    store(s, lines + 2 * LANES, log_total - weighted * inverse)


@kernel
def _find(actees: Any, first: int, n: int, mask: Any, place: int, wanted: int) -> int:
    """Where `wanted` is among the `n` actees from `first`, or -1 if it is not there or not allowed."""
    for e in range(n):
        if actees[first + e] == wanted and mask[place + e]:
            return e
    return -1


@kernel
def evaluate_selections(
    x: Any, actor_rows: Any, actee_rows: Any, actor_offsets: Any, actee_offsets: Any, pair_offsets: Any,
    actees: Any, first: int, last: int, d: int, w: Any, w0: int, width: int, capacity: int, mask: Any,
    chosen: Any, log_probs: Any, entropies: Any, s: Any,
) -> int:  # fmt: skip
    """log π and H (A,) of the actors of steps first to last, who chose the entities `chosen` (A,).

    x (N * d,) holds the rows; actor_rows (A,) and actee_rows (E,) say which are whose, actor_offsets and
    actee_offsets (B + 1,) where each step's start; actees (E,) are entity indices; mask (P,), actor by actor,
    starts for each step at pair_offsets (B + 1,). W_q (K, d), b_q, W_k and b_k lie from `w0` in `w`;
    capacity: `select_capacity`, `s`: `select_scratch`. Returns the first actor whose choice is not allowed,
    or -1.
    """
    _, _, _, queries, keys, _, _, scores, probabilities, lines = _places(d, width, capacity)
    stride = capacity + LANES
    while first < last:
        end = _tile_end(actor_offsets, actee_offsets, first, last, capacity)
        a0, e0 = actor_offsets[first], actee_offsets[first]
        _fill(
            x, actor_rows, actee_rows, a0, actor_offsets[end] - a0, e0, actee_offsets[end] - e0, d, w, w0,
            width, capacity, s,
        )  # fmt: skip
        for b in range(first, end):
            e1, n = actee_offsets[b], actee_offsets[b + 1] - actee_offsets[b]
            for a in range(actor_offsets[b], actor_offsets[b + 1], LANES):
                lanes = min(LANES, actor_offsets[b + 1] - a)
                place = pair_offsets[b] + (a - actor_offsets[b]) * n
                _distributions(
                    s, queries + a - a0, keys + e1 - e0, n, lanes, width, stride, mask, place, scores,
                    probabilities, lines,
                )  # fmt: skip
                for i in range(lanes):
                    e = _find(actees, e1, n, mask, place + i * n, chosen[a + i])
                    if e < 0:
                        return a + i
                    log_probs[a + i] = s[scores + e * LANES + i] - s[lines + i] - s[lines + LANES + i]
                    entropies[a + i] = s[lines + 2 * LANES + i]
        first = end
    return -1


@kernel
def _score_gradients(s: Any, n: int, width: int, scores: int, probabilities: int, lines: int) -> None:
    """Scores become their gradients but for the chosen ones', times 1 / √K; a and h are in the last lines."""
    given, bonus = load(s, lines + 3 * LANES), load(s, lines + 4 * LANES)
    shift, entropy = load(s, lines) + load(s, lines + LANES), load(s, lines + 2 * LANES)
    scale = splat(np.float32(-1.0 / np.sqrt(width)))
    for e in range(0, n * LANES, LANES):
        p = load(s, probabilities + e) * scale
        store(s, scores + e, p * (given + bonus * (load(s, scores + e) - shift + entropy)))


@kernel
def selections_backward(
    x: Any, actor_rows: Any, actee_rows: Any, actor_offsets: Any, actee_offsets: Any, pair_offsets: Any,
    actees: Any, first: int, last: int, d: int, w: Any, w0: int, width: int, capacity: int, mask: Any,
    chosen: Any, d_log_probs: Any, d_entropies: Any, d_x: Any, g: Any, s: Any,
) -> None:  # fmt: skip
    """Add the gradients of the rows to `d_x` (N * d,), and of the weights to `g` where `w` has them.

    Arguments as in `evaluate_selections`; d a multiple of 4. `g` has 4 d numbers or more behind the head's.
    """
    line, actor_tile, actee_tile, queries, keys, d_queries, d_keys, scores, probabilities, lines = _places(
        d, width, capacity
    )
    stride, padded = capacity + LANES, (width + 3) // 4 * 4
    turned = np.empty(LANES * LANES, np.float32)
    a_line, h_line = lines + 3 * LANES, lines + 4 * LANES
    while first < last:
        end = _tile_end(actor_offsets, actee_offsets, first, last, capacity)
        a0, e0 = actor_offsets[first], actee_offsets[first]
        num_actors, num_actees = actor_offsets[end] - a0, actee_offsets[end] - e0
        _fill(x, actor_rows, actee_rows, a0, num_actors, e0, num_actees, d, w, w0, width, capacity, s)
        s[d_queries : d_queries + 2 * padded * stride] = _ZERO
        for b in range(first, end):
            e1, n = actee_offsets[b], actee_offsets[b + 1] - actee_offsets[b]
            key, d_key = keys + e1 - e0, d_keys + e1 - e0
            for k in range(width):  # the step before may have written here
                s[d_key + k * stride : d_key + k * stride + n] = _ZERO
            for a in range(actor_offsets[b], actor_offsets[b + 1], LANES):
                lanes = min(LANES, actor_offsets[b + 1] - a)
                place = pair_offsets[b] + (a - actor_offsets[b]) * n
                query, d_query = queries + a - a0, d_queries + a - a0
                _distributions(
                    s, query, key, n, lanes, width, stride, mask, place, scores, probabilities, lines
                )
                s[a_line : h_line + LANES] = _ZERO
                for i in range(lanes):
                    s[a_line + i], s[h_line + i] = d_log_probs[a + i], d_entropies[a + i]
                _score_gradients(s, n, width, scores, probabilities, lines)
                for i in range(lanes):
                    e = _find(actees, e1, n, mask, place + i * n, chosen[a + i])
                    others = _ZERO  # all of an actor's add up to 0; 1 - p would be rounding
                    for other in range(n):
                        if other != e:
                            others += s[scores + other * LANES + i]
                    s[scores + e * LANES + i] = -others
                product_16(width, n, s, key, stride, 1, s, scores, LANES, s, d_query, stride, SET)
                for j in range(0, n, LANES):
                    transpose(s, scores + j * LANES, LANES, turned, 0, LANES)
                    product_16(width, lanes, s, query, stride, 1, turned, 0, LANES, s, d_key + j, stride, ADD)
        for k in range(width):
            s[d_queries + k * stride + num_actors : d_queries + (k + 1) * stride] = _ZERO
            s[d_keys + k * stride + num_actees : d_keys + (k + 1) * stride] = _ZERO
        _weights_backward(
            s, d_queries, actor_tile, num_actors, d, w, w0, width, stride, g, d_x, actor_rows, a0, line
        )
        _weights_backward(
            s, d_keys, actee_tile, num_actees, d, w, w0 + width * (d + 1), width, stride, g, d_x,
            actee_rows, e0, line,
        )  # fmt: skip
        first = end


@kernel
def _weights_backward(
    s: Any, d_y: int, tile: int, count: int, d: int, w: Any, w0: int, width: int, stride: int, g: Any,
    d_x: Any, rows: Any, start: int, line: int,
) -> None:  # fmt: skip
    """Gradients of one linear map of a tile's rows, and through it of the rows."""
    columns = (count + LANES - 1) // LANES * LANES
    outer_sums((width + 3) // 4 * 4, d, s, d_y, s, tile, stride, columns, g, w0, d)
    row_sums(width, s, d_y, stride, columns, g, w0 + width * d)
    product(d, width, w, w0, 1, d, s, d_y, stride, s, tile, stride, columns, SET, w, 0)
    give_rows(d_x, rows, start, count, d, s, line, tile, stride)


@kernel
def draw_selections(
    x: Any, actor_rows: Any, actee_rows: Any, actor_offsets: Any, actee_offsets: Any, pair_offsets: Any,
    actees: Any, first: int, last: int, d: int, w: Any, w0: int, width: int, capacity: int, mask: Any,
    draws: Any, choices: Any, log_probs: Any, s: Any,
) -> int:  # fmt: skip
    """An entity for each actor: `choices` and `log_probs` (A,) are written.

    draws (A,) in [0, 1), or (0,) to take what is most probable, the first of equals. Other arguments as in
    `evaluate_selections`. Returns the first actor without an allowed actee, or -1.
    """
    _, _, _, queries, keys, _, _, scores, probabilities, lines = _places(d, width, capacity)
    stride = capacity + LANES
    while first < last:
        end = _tile_end(actor_offsets, actee_offsets, first, last, capacity)
        a0, e0 = actor_offsets[first], actee_offsets[first]
        _fill(
            x, actor_rows, actee_rows, a0, actor_offsets[end] - a0, e0, actee_offsets[end] - e0, d, w, w0,
            width, capacity, s,
        )  # fmt: skip
        for b in range(first, end):
            e1, n = actee_offsets[b], actee_offsets[b + 1] - actee_offsets[b]
            for a in range(actor_offsets[b], actor_offsets[b + 1], LANES):
                lanes = min(LANES, actor_offsets[b + 1] - a)
                place = pair_offsets[b] + (a - actor_offsets[b]) * n
                _distributions(
                    s, queries + a - a0, keys + e1 - e0, n, lanes, width, stride, mask, place, scores,
                    probabilities, lines,
                )  # fmt: skip
                for i in range(lanes):
                    draw = draws[a + i] if len(draws) else -1.0
                    e = _pick(s, scores + i, probabilities + i, n, mask, place + i * n, draw)
                    if e < 0:
                        return a + i
                    choices[a + i] = actees[e1 + e]
                    log_probs[a + i] = s[scores + e * LANES + i] - s[lines + i] - s[lines + LANES + i]
        first = end
    return -1


@kernel
def _pick(s: Any, scores: int, probabilities: int, n: int, mask: Any, place: int, draw: float) -> int:
    """The allowed actee that `draw` in [0, 1) stands for; the most probable one for a negative draw."""
    best = -1
    for e in range(n):
        if mask[place + e] and (best < 0 or s[scores + e * LANES] > s[scores + best * LANES]):
            best = e
    if draw < 0.0 or best < 0:
        return best
    reached = 0.0
    for e in range(n):
        if mask[place + e]:
            reached += s[probabilities + e * LANES]
            if reached > draw:
                return e
    return best
