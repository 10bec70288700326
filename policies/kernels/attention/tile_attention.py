"""Numba kernels: multi-head self-attention over whole sequences of different lengths, forward and backward.

For a sequence with queries qᵢ, keys kⱼ and values vⱼ of one head (d wide):

    sⱼᵢ = qᵢ·kⱼ,   pⱼᵢ = softmax over j of sⱼᵢ / √d,   oᵢ = Σⱼ pⱼᵢ vⱼ

and backward from do, with p computed again rather than kept: of forward's softmax only o and a number per
query and head is needed, lᵢ = log₂ Σⱼ exp(sⱼᵢ / √d), because Σⱼ pⱼᵢ dpⱼᵢ = doᵢ·oᵢ.

    pⱼᵢ = 2 ** (sⱼᵢ log₂ e / √d - lᵢ),   dpⱼᵢ = doᵢ·vⱼ,   dsⱼᵢ = pⱼᵢ (dpⱼᵢ - doᵢ·oᵢ) / √d
    dqᵢ = Σⱼ dsⱼᵢ kⱼ,   dkⱼ = Σᵢ dsⱼᵢ qᵢ,   dvⱼ = Σᵢ pⱼᵢ doᵢ

Forward has 16 queries in the lanes of a vector and goes over the keys, backward 16 keys and goes over the
queries, so that a softmax needs no work across lanes. A sequence of n rows costs n × (n rounded up to 16): no
padding between sequences. Neighbours that have no more than 16 rows together are done at once, see
`short_attention`.

Blocks of 16 columns may reach beyond a sequence into the next one's columns. What they write there is
overwritten when the next sequence's turn comes (its first block sets, later ones add), and what they read
there stays in its own lanes, or in lines of p and ds that are never read.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..tiles.functions import log
from ..tiles.matrices import Strided, Tile, up_to_4
from ..tiles.matrix_products import ADD, SET, product_16
from ..tiles.simd import LANES, inlined, kernel, load, maximum, smaller, splat, store, transpose
from ..tiles.step_tiles import step_tile
from ..tiles.tile_kernels import new_floats, rows_to_tile, tile_to_rows
from .score_kernels import (
    HeadGradientPlaces,
    HeadPlaces,
    slope_block_4,
    slope_block_8,
    weigh_block_1,
    weigh_block_4,
    weigh_block_8,
)
from .short_attention import ROUNDS, attend_short, attend_short_backward, plan_rounds, short_end

_ZERO = np.float32(0.0)
_ONE = np.float32(1.0)
_LOG2_E = np.float32(1.4426950408889634)


class AttentionPlaces(NamedTuple):
    """The start of attention's parts in an array, in lines of a `StepTile`, a feature per line."""

    qkv: int  # 3 d_model lines
    out: int  # d_model lines
    logs: int  # lᵢ for backward, n_head lines; negative: not wanted


@inlined
def head_places(at: Any, d_model: int, n_head: int, h: int, start: int, n: int, stride: int) -> HeadPlaces:
    """Return the places of head h, for `n` rows from column `start`."""
    d_head = d_model // n_head
    q = at.qkv + h * d_head * stride + start
    o = at.out + h * d_head * stride + start
    logs = at.logs + h * stride + start if at.logs >= 0 else -1
    return HeadPlaces(q, q + d_model * stride, q + 2 * d_model * stride, o, logs, stride, d_head, n)


@kernel
def attend_tile(x: Any, at: Any, d_model: int, n_head: int, steps: Any, p: Any) -> None:
    """Attend within each step of a `StepTile`, inside the array `x`.

    `p`: scratch of (longest + 16) * 16.
    """
    factor = splat(np.float32(_LOG2_E / np.sqrt(d_model // n_head)))
    rounds = new_floats(ROUNDS)
    offsets, b = steps.offsets, steps.first
    while b < steps.end:
        end, longest = short_end(offsets, b, steps.end), 0
        if end > b + 1:
            longest = plan_rounds(offsets, b, end, False, rounds)
        start, n = offsets[b] - steps.row, offsets[end] - offsets[b]
        for h in range(n_head):
            head = head_places(at, d_model, n_head, h, start, n, steps.stride)
            if longest > 0:
                attend_short(x, head, rounds, longest, p)
                continue
            for i in range(0, n, LANES):
                shift = _scores(x, head, i, p) * factor
                total = weighted_values(x, head, i, p, factor, shift)
                if head.logs >= 0:
                    store(x, head.logs + i, shift + log(total) * splat(_LOG2_E))
        b = end


@inlined
def _scores(x: Any, head: Any, i: int, p: Any) -> Any:
    """Write the scores of 16 queries from `i` and all keys to `p`; return the largest of each query."""
    keys, queries = Strided(x, head.k, 1, head.stride), Tile(x, head.q + i, head.stride)
    product_16(up_to_4(head.n), head.d_head, keys, queries, Tile(p, 0, LANES), SET)
    top = load(p, 0)
    for j in range(1, head.n):
        top = maximum(top, load(p, j * LANES))
    return top


@inlined
def weighted_values(x: Any, head: Any, i: int, p: Any, factor: Any, shift: Any) -> Any:
    """Write the means of all values for 16 queries from `i`, weighted by 2 ** (factor p - shift); return the
    weights' sum."""
    v, o, n, stride, d_head = head.v, head.o + i, head.n, head.stride, head.d_head
    lines = 8 if d_head >= 8 else (4 if d_head >= 4 else 1)
    if lines == 8:
        total = weigh_block_8(p, n, factor, shift, x, v, o, stride)
    elif lines == 4:
        total = weigh_block_4(p, n, factor, shift, x, v, o, stride)
    else:
        total = weigh_block_1(p, n, factor, shift, x, v, o, stride)
    if lines < d_head:
        rest = lines * stride
        values, out = Strided(x, v + rest, stride, 1), Tile(x, o + rest, stride)
        product_16(d_head - lines, n, values, Tile(p, 0, LANES), out, SET)
        inverse = splat(_ONE) / total
        for m in range(o + rest, o + d_head * stride, stride):
            store(x, m, load(x, m) * inverse)
    return total


@kernel
def attend_tile_backward(
    x: Any, at: Any, d_out: int, d_qkv: int, d_model: int, n_head: int, steps: Any, p: Any, ds: Any
) -> None:
    """Write the gradients of queries, keys and values to `d_qkv` (3 d_model lines), from `d_out` (d_model).

    `at` has what `attend_tile` has written. `p`: scratch of (longest + 16) * 16; `ds`: of
    (longest + 16) * 17.
    """
    turned, rounds = new_floats(LANES * LANES), new_floats(ROUNDS)
    offsets, b, stride = steps.offsets, steps.first, steps.stride
    while b < steps.end:
        end, longest = short_end(offsets, b, steps.end), 0
        if end > b + 1:
            longest = plan_rounds(offsets, b, end, True, rounds)
        start, n = offsets[b] - steps.row, offsets[end] - offsets[b]
        for h in range(n_head):
            head = head_places(at, d_model, n_head, h, start, n, stride)
            own = h * head.d_head * stride + start
            dq = d_qkv + own
            gradients = HeadGradientPlaces(dq, dq + d_model * stride, dq + 2 * d_model * stride, d_out + own)
            if longest > 0:
                attend_short_backward(x, head, gradients, rounds, longest, p, ds)
            else:
                _head_backward(x, head, gradients, p, ds, turned)
        b = end


@inlined
def _head_backward(x: Any, head: Any, gradients: Any, p: Any, ds: Any, turned: Any) -> None:
    """Write the gradients of one head of a sequence; `turned`: scratch of 16 * 16."""
    d_head, stride, n = head.d_head, head.stride, head.n
    given, queries = Strided(x, gradients.do, stride, 1), Strided(x, head.q, stride, 1)
    weights, slopes = Tile(p, 0, LANES), Tile(ds, 0, LANES)
    _mean_products(x, head, gradients.do, ds)
    for j in range(0, n, LANES):
        mode = SET if j == 0 else ADD
        _slopes(x, head, gradients, j, p, ds)
        product_16(d_head, n, given, weights, Tile(x, gradients.dv + j, stride), SET)
        product_16(d_head, n, queries, slopes, Tile(x, gradients.dk + j, stride), SET)
        keys = Strided(x, head.k + j, stride, 1)
        for i in range(0, n, LANES):
            transpose(ds, i * LANES, LANES, turned, 0, LANES)
            d_query = Tile(x, gradients.dq + i, stride)
            product_16(d_head, smaller(LANES, n - j), keys, Tile(turned, 0, LANES), d_query, mode)


@inlined
def _mean_products(x: Any, head: Any, do: int, ds: Any) -> None:
    """Write o·do / √d of all queries to `ds`, behind what blocks of 16 keys write."""
    scale = splat(np.float32(1.0 / np.sqrt(head.d_head)))
    for i in range(0, head.n, LANES):
        mean = splat(_ZERO)
        for m in range(i, i + head.d_head * head.stride, head.stride):
            mean = mean + load(x, head.o + m) * load(x, do + m)
        store(ds, (head.n + LANES) * LANES + i, mean * scale)


@inlined
def _slopes(x: Any, head: Any, gradients: Any, j: int, p: Any, ds: Any) -> None:
    """Write p and ds of all queries, and up to three behind them, and 16 keys from `j`."""
    scale = np.float32(1.0 / np.sqrt(head.d_head))
    factors, scales = splat(scale * _LOG2_E), splat(scale)
    i = 0
    while i + 4 < head.n:
        slope_block_8(x, head, gradients, i, j, factors, scales, p, ds)
        i += 8
    if i < head.n:
        slope_block_4(x, head, gradients, i, j, factors, scales, p, ds)


@kernel
def attend_rows(qkv: Any, out: Any, steps: Any, d_model: int, n_head: int, x: Any) -> None:
    """Attend within the steps of a `StepRange`: row-major `qkv` (N * 3 d_model,) to `out` (N * d_model,).

    `x`: scratch of (4 d_model + 16) * (longest + 16), where a tile holds the longest step.
    """
    first = steps.first
    while first < steps.last:
        tile = step_tile(steps, first)
        at = AttentionPlaces(0, 3 * d_model * tile.stride, -1)
        rows_to_tile(qkv, tile.row, tile.rows, 3 * d_model, Tile(x, at.qkv, tile.stride))
        attend_tile(x, at, d_model, n_head, tile, x[4 * d_model * tile.stride :])
        tile_to_rows(Tile(x, at.out, tile.stride), out, tile.row, tile.rows, d_model)
        first = tile.end


@kernel
def attend_rows_backward(
    qkv: Any, d_out: Any, d_qkv: Any, steps: Any, d_model: int, n_head: int, x: Any
) -> None:
    """Write the gradient `d_qkv` (N * 3 d_model,) for `d_out` (N * d_model,); arguments as in `attend_rows`.

    `x`: scratch of (8 d_model + n_head + 33) * (longest + 16).
    """
    first = steps.first
    while first < steps.last:
        tile = step_tile(steps, first)
        row, rows, stride = tile.row, tile.rows, tile.stride
        given, gradient = 4 * d_model * stride, 5 * d_model * stride
        at = AttentionPlaces(0, 3 * d_model * stride, 8 * d_model * stride)
        p = x[at.logs + n_head * stride :]
        ds = p[LANES * stride :]
        rows_to_tile(qkv, row, rows, 3 * d_model, Tile(x, at.qkv, stride))
        rows_to_tile(d_out, row, rows, d_model, Tile(x, given, stride))
        attend_tile(x, at, d_model, n_head, tile, p)
        attend_tile_backward(x, at, given, gradient, d_model, n_head, tile, p, ds)
        tile_to_rows(Tile(x, gradient, stride), d_qkv, row, rows, 3 * d_model)
        first = tile.end
