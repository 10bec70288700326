"""Numba kernels: all blocks of the transformer, forward and backward, tile by tile of whole steps.

A tile goes through every layer while it is in the L2 cache. For backward, forward keeps of the whole batch
only what is dear to compute for its size: the input of every block but the first, which is at hand, the
attended values, and a number per row and head of which attention can compute its weights again. Backward
takes up a tile block by block and computes the rest of it again.

The layer norms' scale g and shift h are folded into the linear map W, b that follows (`fold`): with the
normalised x̂,

    W (g x̂ + h) + b = W' x̂ + b',    W' = W diag(g),    b' = b + W h

so gradients arrive for W', b' and are taken apart at the end (`unfold`):

    dW = dW' diag(g) + db' hᵀ,    db = db',    dg_k = Σ_m dW'_mk W_mk,    dh_k = Σ_m db'_m W_mk
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .attention.tile_attention import attend_tile, attend_tile_backward, tile_end
from .tiles.products import ADD, ADD_BIAS, SET, SET_BIAS, outer_sums, product, row_sums
from .tiles.simd import LANES, kernel
from .tiles.tile_kernels import (
    copy_floats,
    gelu,
    gelu_only,
    layer_norm,
    layer_norm_backward,
    multiply,
    rows_to_tile,
    tile_to_rows,
)

#: Rows of the workspace per unit of width for a layer's activations; see `layer_rows` for what comes on top.
LAYER_ROWS = 14

#: What a block leaves in the workspace for its backward, beside what it computes anyway: nothing; attention's
#: logs; the GELU's slopes as well, so that nothing need be computed again.
NOTHING, LOGS, SLOPES = 0, 1, 2


@kernel
def layer_rows(d: int, n_head: int) -> int:
    """Rows of the workspace of a layer: activations, both layer norms' roots, and attention's logs."""
    return LAYER_ROWS * d + 2 + n_head


@kernel
def places(d: int) -> tuple[int, ...]:
    """Where a block's parameters start in its part of the flat array, for width d, in the order of
    `fused.BlockParameters`; the last number is the size of the part."""
    norm1_scale = 0
    norm1_shift = norm1_scale + d
    qkv_weight = norm1_shift + d
    qkv_bias = qkv_weight + 3 * d * d
    out_weight = qkv_bias + 3 * d
    out_bias = out_weight + d * d
    norm2_scale = out_bias + d
    norm2_shift = norm2_scale + d
    up_weight = norm2_shift + d
    up_bias = up_weight + 4 * d * d
    down_weight = up_bias + 4 * d
    down_bias = down_weight + 4 * d * d
    return (
        norm1_scale, norm1_shift, qkv_weight, qkv_bias, out_weight, out_bias,
        norm2_scale, norm2_shift, up_weight, up_bias, down_weight, down_bias, down_bias + d,
    )  # fmt: skip


@kernel
def _fold_one(w: Any, folded: Any, scale: int, weight: int, bias: int, rows: int, d: int) -> None:
    for m in range(rows):
        total = w[bias + m]
        for k in range(d):
            value = w[weight + m * d + k]
            folded[weight + m * d + k] = value * w[scale + k]
            total += value * w[scale + d + k]
        folded[bias + m] = total


@kernel
def fold(w: Any, folded: Any, layers: int, d: int) -> None:
    """Write the folded parameters of all layers over `folded`, a copy of `w`."""
    at = places(d)
    for layer in range(layers):
        base = layer * at[12]
        _fold_one(w, folded, base + at[0], base + at[2], base + at[3], 3 * d, d)
        _fold_one(w, folded, base + at[6], base + at[8], base + at[9], 4 * d, d)


@kernel
def _unfold_one(w: Any, g: Any, scale: int, weight: int, bias: int, rows: int, d: int) -> None:
    for m in range(rows):
        db = g[bias + m]
        for k in range(d):
            i = weight + m * d + k
            dw = g[i]
            g[scale + k] += dw * w[i]
            g[scale + d + k] += db * w[i]
            g[i] = dw * w[scale + k] + db * w[scale + d + k]


@kernel
def unfold(w: Any, g: Any, layers: int, d: int) -> None:
    """Turn gradients `g` of the folded parameters into those of the parameters `w`, in place."""
    at = places(d)
    for layer in range(layers):
        base = layer * at[12]
        _unfold_one(w, g, base + at[0], base + at[2], base + at[3], 3 * d, d)
        _unfold_one(w, g, base + at[6], base + at[8], base + at[9], 4 * d, d)


@kernel
def clear_columns(s: Any, x: int, rows: int, stride: int, start: int, stop: int) -> None:
    """Zero columns that belong to no row: attention leaves anything there, and sums must not see it."""
    for m in range(rows):
        for i in range(x + m * stride + start, x + m * stride + stop):
            s[i] = np.float32(0.0)


@kernel
def _block_places(layer: int, stride: int, d: int) -> tuple[int, ...]:
    """Where in a layer's part of the workspace lie: both normalised inputs, queries, keys and values, the
    attended values, the MLP's slopes and activations, the roots of both layer norms, and attention's logs."""
    qkv, attended = layer + d * stride, layer + 4 * d * stride
    normal2, slope, active = attended + d * stride, attended + 2 * d * stride, attended + 6 * d * stride
    root1 = active + 4 * d * stride
    return layer, normal2, qkv, attended, slope, active, root1, root1 + stride, root1 + 2 * stride


@kernel
def _attention_input(
    w: Any, w0: int, s: Any, x: int, layer: int, stride: int, columns: int, d: int
) -> None:  # fmt: skip
    """The first layer norm of the tile at row `x` of `s`, and queries, keys and values."""
    at = places(d)
    normal, _, qkv, _, _, _, root, _, _ = _block_places(layer, stride, d)
    layer_norm(s, x, s, normal, s, root, d, stride, columns)
    product(
        3 * d, d, w, w0 + at[2], d, 1, s, normal, stride, s, qkv, stride, columns, SET_BIAS, w, w0 + at[3]
    )


@kernel
def _mlp_input(w: Any, w0: int, s: Any, x: int, layer: int, stride: int, columns: int, d: int) -> None:
    """Attention's result added to the tile at row `x`, the second layer norm, and the MLP before its GELU."""
    at = places(d)
    _, normal, _, attended, slope, _, _, root, _ = _block_places(layer, stride, d)
    product(d, d, w, w0 + at[4], d, 1, s, attended, stride, s, x, stride, columns, ADD_BIAS, w, w0 + at[5])
    layer_norm(s, x, s, normal, s, root, d, stride, columns)
    product(
        4 * d, d, w, w0 + at[8], d, 1, s, normal, stride, s, slope, stride, columns, SET_BIAS, w, w0 + at[9]
    )


@kernel
def block_forward(
    w: Any, w0: int, s: Any, x: int, layer: int, stride: int, rows: int, columns: int, d: int, n_head: int,
    offsets: Any, first: int, end: int, p: Any, leaves: int,
) -> None:  # fmt: skip
    """One block on the tile at row `x` of the workspace `s`, in place; `layer`: `layer_rows` rows, where it
    `leaves` NOTHING, LOGS or SLOPES."""
    at = places(d)
    _, _, qkv, attended, slope, active, _, _, logs = _block_places(layer, stride, d)
    _attention_input(w, w0, s, x, layer, stride, columns, d)
    attend_tile(s, qkv, attended, logs if leaves else -1, stride, d, n_head, offsets, first, end, p)
    clear_columns(s, attended, d, stride, rows, columns)
    _mlp_input(w, w0, s, x, layer, stride, columns, d)
    if leaves == SLOPES:
        gelu(s, slope, s, active, s, slope, 4 * d, stride, columns)
    else:
        gelu_only(s, slope, s, active, 4 * d, stride, columns)
    product(
        d, 4 * d, w, w0 + at[10], 4 * d, 1, s, active, stride, s, x, stride, columns, ADD_BIAS, w, w0 + at[11]
    )


@kernel
def block_backward(
    w: Any, w0: int, g: Any, s: Any, dx: int, layer: int, scratch: int, stride: int, rows: int, columns: int,
    d: int, n_head: int, offsets: Any, first: int, end: int, p: Any, ds: Any,
) -> None:  # fmt: skip
    """The gradient at row `dx` of `s` goes back through one block, in place; parameters' add to `g`.

    `scratch`: 5 d rows of `s`.
    """
    at = places(d)
    normal1, normal2, qkv, attended, slope, active, root1, root2, logs = _block_places(layer, stride, d)
    wide, narrow = scratch, scratch + 4 * d * stride
    # x + down(gelu(up(norm2(x))))
    outer_sums(d, 4 * d, s, dx, s, active, stride, columns, g, w0 + at[10], 4 * d)
    row_sums(d, s, dx, stride, columns, g, w0 + at[11])
    product(4 * d, d, w, w0 + at[10], 1, 4 * d, s, dx, stride, s, wide, stride, columns, SET, w, 0)
    multiply(s, wide, s, slope, 4 * d, stride, columns)
    outer_sums(4 * d, d, s, wide, s, normal2, stride, columns, g, w0 + at[8], d)
    row_sums(4 * d, s, wide, stride, columns, g, w0 + at[9])
    product(d, 4 * d, w, w0 + at[8], 1, d, s, wide, stride, s, narrow, stride, columns, SET, w, 0)
    layer_norm_backward(s, narrow, s, normal2, s, root2, s, dx, d, stride, columns, ADD)
    # x + out(attention(qkv(norm1(x))))
    outer_sums(d, d, s, dx, s, attended, stride, columns, g, w0 + at[4], d)
    row_sums(d, s, dx, stride, columns, g, w0 + at[5])
    product(d, d, w, w0 + at[4], 1, d, s, dx, stride, s, narrow, stride, columns, SET, w, 0)
    attend_tile_backward(s, qkv, attended, logs, narrow, wide, stride, d, n_head, offsets, first, end, p, ds)
    clear_columns(s, wide, 3 * d, stride, rows, columns)
    outer_sums(3 * d, d, s, wide, s, normal1, stride, columns, g, w0 + at[2], d)
    row_sums(3 * d, s, wide, stride, columns, g, w0 + at[3])
    product(d, 3 * d, w, w0 + at[2], 1, d, s, wide, stride, s, narrow, stride, columns, SET, w, 0)
    layer_norm_backward(s, narrow, s, normal1, s, root1, s, dx, d, stride, columns, ADD)


@kernel
def blocks_forward(
    source: Any, target: Any, kept: Any, w: Any, offsets: Any, first: int, last: int, capacity: int,
    layers: int, d: int, n_head: int, s: Any,
) -> None:  # fmt: skip
    """All blocks over steps first to last: rows `source` (N * d,) to `target` (N * d,), with folded weights.

    A step of more than `capacity` rows has a tile of its own, which does not make the others' wider. What
    backward needs goes to `kept`, see `kept_size`, unless it is empty. `s`: scratch of `forward_scratch`
    numbers, for the longest step.
    """
    size, batch, learns = places(d)[12], len(source), len(kept) > 0
    while first < last:
        end = tile_end(offsets, first, last, capacity)
        row, rows = offsets[first], offsets[end] - offsets[first]
        columns = (rows + LANES - 1) // LANES * LANES
        stride = max(capacity, columns) + LANES
        layer_place = d * stride
        _, _, _, attended, _, _, _, _, logs = _block_places(layer_place, stride, d)
        p = s[(d + layer_rows(d, n_head)) * stride :]
        rows_to_tile(source, row, rows, d, s, 0, stride)
        for layer in range(layers):
            block_forward(
                w, layer * size, s, 0, layer_place, stride, rows, columns, d, n_head, offsets, first, end, p,
                LOGS if learns else NOTHING,
            )  # fmt: skip
            if learns:
                lines = _kept_logs(batch, layer, layers, d, n_head) + row
                for head in range(n_head):
                    copy_floats(s, logs + head * stride, kept, lines + head * (batch // d), rows)
                tile_to_rows(s, attended, stride, kept[2 * layer * batch :], row, rows, d)
                if layer + 1 < layers:
                    tile_to_rows(s, 0, stride, kept[(2 * layer + 1) * batch :], row, rows, d)
        tile_to_rows(s, 0, stride, target, row, rows, d)
        first = end


@kernel
def _kept_logs(numbers: int, layer: int, layers: int, d: int, n_head: int) -> int:
    """Where a layer's logs (n_head, N) start in what forward keeps, for N * d `numbers`."""
    return numbers * max(0, 2 * layers - 1) + layer * n_head * (numbers // d)


def kept_size(numbers: int, layers: int, d: int, n_head: int) -> int:
    """Numbers that forward keeps for backward, for N * d `numbers`: one after the other, the attended values
    of every layer and its result, but that of the last; then attention's logs of every layer."""
    return numbers * max(0, 2 * layers - 1) + layers * n_head * (numbers // d)


def forward_scratch(capacity: int, d: int, n_head: int) -> int:
    """Numbers of scratch memory for `blocks_forward`: x, one layer and the scores."""
    return (d + layer_rows(d, n_head) + LANES) * (capacity + LANES)


@kernel
def blocks_backward(
    source: Any, kept: Any, d_target: Any, d_source: Any, w: Any, g: Any, offsets: Any, first: int, last: int,
    capacity: int, layers: int, d: int, n_head: int, s: Any,
) -> None:  # fmt: skip
    """Gradients: of rows to `d_source` (N * d,), of folded weights added to `g`, from `d_target` (N * d,),
    which `d_source` may be.

    `capacity` as in `blocks_forward`; `s`: scratch of `backward_scratch` numbers, for the longest step.
    """
    size, batch = places(d)[12], len(source)
    while first < last:
        end = tile_end(offsets, first, last, capacity)
        row, rows = offsets[first], offsets[end] - offsets[first]
        columns = (rows + LANES - 1) // LANES * LANES
        stride = max(capacity, columns) + LANES
        x, dx, scratch, saved = 0, d * stride, 2 * d * stride, 7 * d * stride
        p = s[saved + layer_rows(d, n_head) * stride :]
        ds = p[stride * LANES :]
        _, _, _, attended, slope, active, _, _, logs = _block_places(saved, stride, d)
        rows_to_tile(d_target, row, rows, d, s, dx, stride)
        for layer in range(layers - 1, -1, -1):
            w0 = layer * size
            given = source
            if layer:
                given = kept[(2 * layer - 1) * batch :]
            rows_to_tile(given, row, rows, d, s, x, stride)
            rows_to_tile(kept[2 * layer * batch :], row, rows, d, s, attended, stride)
            lines = _kept_logs(batch, layer, layers, d, n_head) + row
            for head in range(n_head):
                copy_floats(kept, lines + head * (batch // d), s, logs + head * stride, rows)
            _attention_input(w, w0, s, x, saved, stride, columns, d)
            _mlp_input(w, w0, s, x, saved, stride, columns, d)
            gelu(s, slope, s, active, s, slope, 4 * d, stride, columns)
            block_backward(
                w, w0, g, s, dx, saved, scratch, stride, rows, columns, d, n_head, offsets, first, end, p, ds
            )
        tile_to_rows(s, dx, stride, d_source, row, rows, d)
        first = end


def backward_scratch(capacity: int, d: int, n_head: int) -> int:
    """Numbers of scratch memory for `blocks_backward`: x, dx, 5 d rows, a layer, p, and ds with the means."""
    return (7 * d + layer_rows(d, n_head) + 2 * LANES) * (capacity + LANES) + capacity + LANES
