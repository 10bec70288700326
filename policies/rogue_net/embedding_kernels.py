"""Numba kernels: the embedding of one entity type, forward and backward, tile by tile.

Raw features v become x = clip((v - shift) scale, ±5), e = max(W x + b, 0), y = the layer norm of e before its
gain and offset, and y gain + offset, which is written to where the row belongs in the flat list of all rows.
Backward computes x, e and y again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .normalization import CLIP
from .simd import LANES, load, maximum, minimum, splat, store, where_positive
from .tiles import (
    SET,
    SET_BIAS,
    kernel,
    layer_norm,
    layer_norm_backward,
    outer_sums,
    product,
    row_sums,
    rows_to_tile,
    tile_to_rows,
)

#: Rows of a tile.
TILE = 256

_CLIP = np.float32(CLIP)
_ZERO = np.float32(0.0)


@kernel
def places(features: int, d: int) -> tuple[int, ...]:
    """Where shift, scale, weight (d, features), bias, gain and offset start in one array, and its size."""
    weight = 2 * features
    bias = weight + d * features
    return 0, features, weight, bias, bias + d, bias + 2 * d, bias + 3 * d


def scratch_size(features: int, d: int) -> int:
    """Numbers of scratch memory for both kernels: x, e, y and dy, rows, two lines."""
    return (features + 3 + 4 * d + 2) * TILE


@kernel
def _activate(
    values: Any, start: int, rows: int, columns: int, features: int, d: int, w: Any, w0: int,
    s: Any, x: int, e: int, y: int, root: int,
) -> None:  # fmt: skip
    """Fill the tiles x, e and y and the line `root` of `s` for rows start to start + rows."""
    at = places(features, d)
    rows_to_tile(values, start, rows, features, s, x, TILE)
    for f in range(features):
        shift, scale = splat(w[w0 + at[0] + f]), splat(w[w0 + at[1] + f])
        for t in range(x + f * TILE, x + f * TILE + columns, LANES):
            v = (load(s, t) - shift) * scale
            store(s, t, minimum(maximum(v, splat(-_CLIP)), splat(_CLIP)))
    product(d, features, w, w0 + at[2], features, 1, s, x, TILE, s, e, TILE, columns, SET_BIAS, w, w0 + at[3])
    for m in range(d):
        for t in range(e + m * TILE, e + m * TILE + columns, LANES):
            store(s, t, maximum(load(s, t), splat(_ZERO)))
    layer_norm(s, e, s, y, s, root, d, TILE, columns)


@kernel
def embed(
    values: Any,
    first: int,
    last: int,
    features: int,
    d: int,
    w: Any,
    w0: int,
    destination: Any,
    out: Any,
    s: Any,
) -> None:
    """Embed rows first to last of `values` (N_t * features,) into `out` (N * d,).

    Parameters: from `w0` in `w`, see `places`. destination (N_t,): each row's place. `s`: `scratch_size`.
    """
    at = places(features, d)
    x, e = 0, features * TILE
    y = e + d * TILE
    line = y + d * TILE
    root = line + d * TILE
    for start in range(first, last, TILE):
        rows = min(TILE, last - start)
        columns = (rows + LANES - 1) // LANES * LANES
        _activate(values, start, rows, columns, features, d, w, w0, s, x, e, y, root)
        for m in range(d):
            gain, offset = splat(w[w0 + at[4] + m]), splat(w[w0 + at[5] + m])
            for t in range(y + m * TILE, y + m * TILE + columns, LANES):
                store(s, t, load(s, t) * gain + offset)
        tile_to_rows(s, y, TILE, s[line:], 0, rows, d)
        for i in range(rows):
            place = destination[start + i] * d
            for m in range(d):
                out[place + m] = s[line + i * d + m]


@kernel
def embed_backward(
    values: Any, first: int, last: int, features: int, d: int, w: Any, w0: int, destination: Any, d_out: Any,
    g: Any, s: Any,
) -> None:  # fmt: skip
    """Add the gradients of weight (d, features rounded up to 4), bias, gain and offset to `g`, in this order.

    Arguments as in `embed`; d a multiple of 4; `d_out` (N * d,).
    """
    at = places(features, d)
    padded = (features + 3) // 4 * 4
    g_bias = d * padded
    x, e = 0, padded * TILE
    y = e + d * TILE
    dy = y + d * TILE
    line = dy + d * TILE
    root = line + d * TILE
    both = root + TILE
    s[features * TILE : padded * TILE] = _ZERO
    for start in range(first, last, TILE):
        rows = min(TILE, last - start)
        columns = (rows + LANES - 1) // LANES * LANES
        _activate(values, start, rows, columns, features, d, w, w0, s, x, e, y, root)
        for i in range(rows):
            place = destination[start + i] * d
            for m in range(d):
                s[line + i * d + m] = d_out[place + m]
        rows_to_tile(s[line:], 0, rows, d, s, dy, TILE)
        row_sums(d, s, dy, TILE, columns, g, g_bias + 2 * d)
        for m in range(d):
            gain = splat(w[w0 + at[4] + m])
            for t in range(0, columns, LANES):
                v = load(s, dy + m * TILE + t)
                store(s, both + t, v * load(s, y + m * TILE + t))
                store(s, dy + m * TILE + t, v * gain)
            row_sums(1, s, both, TILE, columns, g, g_bias + d + m)
        layer_norm_backward(s, dy, s, y, s, root, s, dy, d, TILE, columns, SET)
        for m in range(d):
            for t in range(m * TILE, m * TILE + columns, LANES):
                store(s, dy + t, where_positive(load(s, e + t), load(s, dy + t)))
        outer_sums(d, padded, s, dy, s, x, TILE, columns, g, 0, padded)
        row_sums(d, s, dy, TILE, columns, g, g_bias)
