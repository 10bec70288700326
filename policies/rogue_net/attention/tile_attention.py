"""Numba kernels: multi-head self-attention over whole sequences of different lengths, forward and backward.

For a sequence with queries qᵢ, keys kⱼ and values vⱼ of one head (d wide):

    sⱼᵢ = qᵢ·kⱼ,   pⱼᵢ = softmax over j of sⱼᵢ / √d,   oᵢ = Σⱼ pⱼᵢ vⱼ

and backward from do, with p computed again rather than kept:

    dpⱼᵢ = doᵢ·vⱼ,   dsⱼᵢ = pⱼᵢ (dpⱼᵢ - Σₘ pₘᵢ dpₘᵢ) / √d
    dqᵢ = Σⱼ dsⱼᵢ kⱼ,   dkⱼ = Σᵢ dsⱼᵢ qᵢ,   dvⱼ = Σᵢ pⱼᵢ doᵢ

Scores stand as p[j, i] with 16 queries i in the lanes of a vector, so the softmax over the keys runs down a
column. A sequence of n rows costs n × (n rounded up to 16): no padding between sequences.

Blocks of 16 columns may reach beyond a sequence into the next one's columns. What they write there is
overwritten when the next sequence's turn comes (its first block sets, later ones add), and what they read
there stays in its own lanes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..products import ADD, SET, product_16
from ..simd import LANES, kernel, transpose
from ..tiles import rows_to_tile, softmax, softmax_backward, tile_to_rows


@kernel
def attend_tile(
    x: Any,
    qkv: int,
    out: int,
    stride: int,
    d_model: int,
    n_head: int,
    offsets: Any,
    first: int,
    last: int,
    p: Any,
) -> None:
    """Sequences first to last of a tile whose first column is row offsets[first].

    Within the array `x`: queries, keys and values at `qkv` (3 d_model rows of `stride`), the result at `out`
    (d_model rows). `p`: scratch of (longest + 16) * 16.
    """
    d_head = d_model // n_head
    scale = np.float32(1.0 / np.sqrt(d_head))
    for b in range(first, last):
        start, n = offsets[b] - offsets[first], offsets[b + 1] - offsets[b]
        for h in range(n_head):
            q = qkv + h * d_head * stride + start
            k, v = q + d_model * stride, q + 2 * d_model * stride
            o = out + h * d_head * stride + start
            for i in range(0, n, LANES):
                product_16(n, d_head, x, k, 1, stride, x, q + i, stride, p, 0, LANES, SET)
                softmax(p, n, scale)
                product_16(d_head, n, x, v, stride, 1, p, 0, LANES, x, o + i, stride, SET)


@kernel
def attend_tile_backward(
    x: Any, qkv: int, d_out: int, d_qkv: int, stride: int, d_model: int, n_head: int,
    offsets: Any, first: int, last: int, p: Any, dp: Any,
) -> None:  # fmt: skip
    """Gradients at `d_qkv` (3 d_model rows) of the queries, keys and values, from `d_out` (d_model rows)."""
    d_head = d_model // n_head
    scale = np.float32(1.0 / np.sqrt(d_head))
    turned = np.empty(LANES * LANES, np.float32)
    for b in range(first, last):
        start, n = offsets[b] - offsets[first], offsets[b + 1] - offsets[b]
        for h in range(n_head):
            head = h * d_head * stride + start
            q, dq, do = qkv + head, d_qkv + head, d_out + head
            k, dk = q + d_model * stride, dq + d_model * stride
            v, dv = k + d_model * stride, dk + d_model * stride
            for i in range(0, n, LANES):
                queries = min(LANES, n - i)
                mode = SET if i == 0 else ADD
                product_16(n, d_head, x, k, 1, stride, x, q + i, stride, p, 0, LANES, SET)
                softmax(p, n, scale)
                product_16(n, d_head, x, v, 1, stride, x, do + i, stride, dp, 0, LANES, SET)
                for j in range(0, n, LANES):
                    transpose(p, j * LANES, LANES, turned, 0, LANES)
                    product_16(
                        d_head, queries, x, do + i, stride, 1, turned, 0, LANES, x, dv + j, stride, mode
                    )
                softmax_backward(p, dp, n, scale)
                product_16(d_head, n, x, k, stride, 1, dp, 0, LANES, x, dq + i, stride, SET)
                for j in range(0, n, LANES):
                    transpose(dp, j * LANES, LANES, turned, 0, LANES)
                    product_16(
                        d_head, queries, x, q + i, stride, 1, turned, 0, LANES, x, dk + j, stride, mode
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
        attend_tile(x, 0, result, stride, d_model, n_head, offsets, first, end, p)
        tile_to_rows(x, result, stride, out, row, rows, d_model)
        first = end


@kernel
def attend_rows_backward(
    qkv: Any, d_out: Any, d_qkv: Any, offsets: Any, first: int, last: int, capacity: int,
    d_model: int, n_head: int, x: Any,
) -> None:  # fmt: skip
    """The gradient `d_qkv` (N * 3 d_model,) for `d_out` (N * d_model,); arguments as in `attend_rows`.

    `x`: scratch of (7 d_model + 32) * (capacity + 16).
    """
    stride = capacity + LANES
    p = x[7 * d_model * stride :]
    dp = p[LANES * stride :]
    given, gradient = 3 * d_model * stride, 4 * d_model * stride
    while first < last:
        end = tile_end(offsets, first, last, capacity)
        row, rows = offsets[first], offsets[end] - offsets[first]
        rows_to_tile(qkv, row, rows, 3 * d_model, x, 0, stride)
        rows_to_tile(d_out, row, rows, d_model, x, given, stride)
        attend_tile_backward(x, 0, given, gradient, stride, d_model, n_head, offsets, first, end, p, dp)
        tile_to_rows(x, gradient, stride, d_qkv, row, rows, 3 * d_model)
        first = end
