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
there stays in its own lanes, or in lines of p and ds that nobody reads.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..tiles.products import ADD, SET, product_16
from ..tiles.simd import LANES, kernel, load, log, maximum, splat, store, transpose
from ..tiles.tile_kernels import rows_to_tile, tile_to_rows
from .score_kernels import (
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


@kernel
def attend_tile(
    x: Any, qkv: int, out: int, logs: int, stride: int, d_model: int, n_head: int, offsets: Any, first: int,
    last: int, p: Any,
) -> None:  # fmt: skip
    """Sequences first to last of a tile whose first column is row offsets[first].

    Within the array `x`: queries, keys and values at `qkv` (3 d_model rows of `stride`), the result at `out`
    (d_model rows), and at `logs` lᵢ for backward (n_head rows); negative: it is not wanted. `p`: scratch of
    (longest + 16) * 16.
    """
    d_head = d_model // n_head
    factor = splat(np.float32(_LOG2_E / np.sqrt(d_head)))
    rounds = np.empty(ROUNDS, np.float32)
    b = first
    while b < last:
        end, longest = short_end(offsets, b, last), 0
        if end > b + 1:
            longest = plan_rounds(offsets, b, end, False, rounds)
        start, n = offsets[b] - offsets[first], offsets[end] - offsets[b]
        for h in range(n_head):
            q = qkv + h * d_head * stride + start
            k, v = q + d_model * stride, q + 2 * d_model * stride
            o = out + h * d_head * stride + start
            if longest > 0:
                place = logs + h * stride + start if logs >= 0 else -1
                attend_short(x, q, k, v, o, place, stride, d_head, rounds, longest, p)
                continue
            for i in range(0, n, LANES):
                shift = _scores(x, k, q + i, stride, d_head, n, p) * factor
                total = _weighted(x, v, o + i, stride, d_head, n, p, factor, shift)
                if logs >= 0:
                    store(x, logs + h * stride + start + i, shift + log(total) * splat(_LOG2_E))
        b = end


@kernel
def _scores(x: Any, k: int, q: int, stride: int, d_head: int, n: int, p: Any) -> Any:
    """The scores of 16 queries and n keys to `p`; returns the largest of each query."""
    product_16((n + 3) // 4 * 4, d_head, x, k, 1, stride, x, q, stride, p, 0, LANES, SET)
    top = load(p, 0)
    for j in range(1, n):
        top = maximum(top, load(p, j * LANES))
    return top


@kernel
def _weighted(
    x: Any, v: int, o: int, stride: int, d_head: int, n: int, p: Any, factor: Any, shift: Any
) -> Any:
    """The means of n values for 16 queries, weighted by 2 ** (factor p - shift); returns the weights' sum."""
    rows = 8 if d_head >= 8 else (4 if d_head >= 4 else 1)
    if rows == 8:
        total = weigh_block_8(p, n, factor, shift, x, v, o, stride)
    elif rows == 4:
        total = weigh_block_4(p, n, factor, shift, x, v, o, stride)
    else:
        total = weigh_block_1(p, n, factor, shift, x, v, o, stride)
    if rows < d_head:
        rest = rows * stride
        product_16(d_head - rows, n, x, v + rest, stride, 1, p, 0, LANES, x, o + rest, stride, SET)
        inverse = splat(_ONE) / total
        for m in range(o + rest, o + d_head * stride, stride):
            store(x, m, load(x, m) * inverse)
    return total


@kernel
def attend_tile_backward(
    x: Any, qkv: int, out: int, logs: int, d_out: int, d_qkv: int, stride: int, d_model: int, n_head: int,
    offsets: Any, first: int, last: int, p: Any, ds: Any,
) -> None:  # fmt: skip
    """Gradients at `d_qkv` (3 d_model rows) of the queries, keys and values, from `d_out` (d_model rows).

    `out` and `logs` are what `attend_tile` has written. `p`: scratch of (longest + 16) * 16; `ds`: of
    (longest + 16) * 17.
    """
    d_head = d_model // n_head
    scale = np.float32(1.0 / np.sqrt(d_head))
    turned, rounds = np.empty(LANES * LANES, np.float32), np.empty(ROUNDS, np.float32)
    b = first
    while b < last:
        end, longest = short_end(offsets, b, last), 0
        if end > b + 1:
            longest = plan_rounds(offsets, b, end, True, rounds)
        start, n = offsets[b] - offsets[first], offsets[end] - offsets[b]
        means = (n + LANES) * LANES  # within ds, behind what the blocks below need
        for h in range(n_head):
            head = h * d_head * stride + start
            q, dq, do = qkv + head, d_qkv + head, d_out + head
            k, dk = q + d_model * stride, dq + d_model * stride
            v, dv = k + d_model * stride, dk + d_model * stride
            log = logs + h * stride + start
            if longest > 0:
                o = out + head
                attend_short_backward(
                    x, q, k, v, o, log, do, dq, dk, dv, stride, d_head, rounds, longest, p, ds
                )
                continue
            _means(x, out + head, do, stride, d_head, n, scale, ds, means)
            for j in range(0, n, LANES):
                keys = min(LANES, n - j)
                mode = SET if j == 0 else ADD
                _slopes(x, q, k + j, do, v + j, log, stride, d_head, n, scale, p, ds, means)
                product_16(d_head, n, x, do, stride, 1, p, 0, LANES, x, dv + j, stride, SET)
                product_16(d_head, n, x, q, stride, 1, ds, 0, LANES, x, dk + j, stride, SET)
                for i in range(0, n, LANES):
                    transpose(ds, i * LANES, LANES, turned, 0, LANES)
                    product_16(d_head, keys, x, k + j, stride, 1, turned, 0, LANES, x, dq + i, stride, mode)
        b = end


@kernel
def _means(
    x: Any, o: int, do: int, stride: int, d_head: int, n: int, scale: float, means: Any, start: int
) -> None:
    """o·do / √d of n queries."""
    for i in range(0, n, LANES):
        mean = splat(_ZERO)
        for m in range(i, i + d_head * stride, stride):
            mean = mean + load(x, o + m) * load(x, do + m)
        store(means, start + i, mean * splat(scale))


@kernel
def _slopes(
    x: Any, q: int, k: int, do: int, v: int, log: int, stride: int, d_head: int, n: int, scale: float,
    p: Any, ds: Any, means: int,
) -> None:  # fmt: skip
    """p and ds of n queries, and up to three behind them, and 16 keys."""
    factors, scales = splat(scale * _LOG2_E), splat(scale)
    i = 0
    while i + 4 < n:
        slope_block_8(
            x, q + i, k, do + i, v, stride, d_head, log + i, factors, scales, p, ds, i * LANES, means + i
        )
        i += 8
    if i < n:
        slope_block_4(
            x, q + i, k, do + i, v, stride, d_head, log + i, factors, scales, p, ds, i * LANES, means + i
        )


def tile_capacity(longest: int, d_model: int) -> int:
    """Rows of a tile: enough for the longest sequence, and small enough for the L2 cache."""
    wanted = 256 if d_model <= 32 else 128
    return max(wanted, -(-longest // LANES) * LANES)


@kernel
def tile_end(offsets: Any, first: int, last: int, capacity: int) -> int:
    """The end of the longest run of sequences from `first` that fits in `capacity` rows."""
    end = first + 1
    while end < last and offsets[end + 1] - offsets[first] <= capacity:
        end += 1
    return end


@kernel
def attend_rows(
    qkv: Any, out: Any, offsets: Any, first: int, last: int, capacity: int, d_model: int, n_head: int, x: Any
) -> None:
    """Attention of sequences first to last: `qkv` (N * 3 d_model,) row-major to `out` (N * d_model,).

    `capacity`: rows of a tile, a multiple of 16 and no less than the longest sequence; `x`: scratch of
    (4 d_model + 16) * (capacity + 16).
    """
    stride = capacity + LANES
    p = x[4 * d_model * stride :]
    result = 3 * d_model * stride
    while first < last:
        end = tile_end(offsets, first, last, capacity)
        row, rows = offsets[first], offsets[end] - offsets[first]
        rows_to_tile(qkv, row, rows, 3 * d_model, x, 0, stride)
        attend_tile(x, 0, result, -1, stride, d_model, n_head, offsets, first, end, p)
        tile_to_rows(x, result, stride, out, row, rows, d_model)
        first = end


@kernel
def attend_rows_backward(
    qkv: Any, d_out: Any, d_qkv: Any, offsets: Any, first: int, last: int, capacity: int,
    d_model: int, n_head: int, x: Any,
) -> None:  # fmt: skip
    """The gradient `d_qkv` (N * 3 d_model,) for `d_out` (N * d_model,); arguments as in `attend_rows`.

    `x`: scratch of (8 d_model + n_head + 33) * (capacity + 16).
    """
    stride = capacity + LANES
    given, result, gradient = 3 * d_model * stride, 4 * d_model * stride, 5 * d_model * stride
    logs = 8 * d_model * stride
    p = x[logs + n_head * stride :]
    dp = p[LANES * stride :]
    while first < last:
        end = tile_end(offsets, first, last, capacity)
        row, rows = offsets[first], offsets[end] - offsets[first]
        rows_to_tile(qkv, row, rows, 3 * d_model, x, 0, stride)
        rows_to_tile(d_out, row, rows, d_model, x, given, stride)
        attend_tile(x, 0, result, logs, stride, d_model, n_head, offsets, first, end, p)
        attend_tile_backward(
            x, 0, result, logs, given, gradient, stride, d_model, n_head, offsets, first, end, p, dp
        )
        tile_to_rows(x, gradient, stride, d_qkv, row, rows, 3 * d_model)
        first = end
