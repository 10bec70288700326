"""Numba kernels: the embedding of entities of all types, forward and backward, tile by tile.

Raw features v become x = clip((v - shift) scale, ±5), e = max(W x + b, 0), y = the layer norm of e before its
gain and offset, and y gain + offset, which is written to where the row belongs in the flat list of all rows.
Backward computes x, e and y again. A type without features is one vector for all of its entities.

Types have arrays of their own, so the kernels get a table of `COLUMNS` int64 per type: the address of the
features (N_t, F) in memory, F, where its parameters start in `w`, where its rows start in `destination`, and
the first and last of the rows that are to be done.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .products import SET, SET_BIAS, outer_sums, product, row_sums
from .simd import LANES, floats_at, kernel, load, maximum, minimum, splat, store, where_positive
from .tiles import copy_floats, layer_norm, layer_norm_backward, rows_to_tile, tile_to_rows

#: Rows of a tile.
TILE = 256

#: Numbers per type in the table of types.
COLUMNS = 6

#: Normalised features are clipped to this many standard deviations.
CLIP = 5.0

_CLIP = np.float32(CLIP)
_ZERO = np.float32(0.0)


@kernel
def places(features: int, d: int) -> tuple[int, ...]:
    """Where shift, scale, weight (d, features), bias, gain and offset start in one array, and its size."""
    weight = 2 * features
    bias = weight + d * features
    return 0, features, weight, bias, bias + d, bias + 2 * d, bias + 3 * d


def embedding_scratch(features: int, d: int) -> int:
    """Numbers of scratch memory for both kernels, for types of up to `features` features: x, e, y and dy,
    rows, two lines."""
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
def embed_types(table: Any, d: int, w: Any, destination: Any, out: Any, s: Any) -> None:
    """Embed rows of all types of `table` (T * COLUMNS,) into `out` (N * d,).

    destination: the place of each row of each type; parameters in `w` as in `places`, or d numbers of a type
    without features; `s`: `embedding_scratch`.
    """
    for t in range(0, len(table), COLUMNS):
        features, place, first, last = table[t + 1], table[t + 2], table[t + 4], table[t + 5]
        to = destination[table[t + 3] :]
        if features:
            values = floats_at(table[t], last * features)
            _embed(values, first, last, features, d, w, place, to, out, s)
        else:
            for i in range(first, last):
                row = to[i] * d
                for m in range(d):
                    out[row + m] = w[place + m]


@kernel
def embed_types_backward(table: Any, d: int, w: Any, destination: Any, d_out: Any, g: Any, s: Any) -> None:
    """Add the gradients of the parameters to `g`, where `w` has them; those of the statistics stay.

    Arguments as in `embed_types`; d a multiple of 4; `d_out` (N * d,).
    """
    for t in range(0, len(table), COLUMNS):
        features, place, first, last = table[t + 1], table[t + 2], table[t + 4], table[t + 5]
        to = destination[table[t + 3] :]
        if features:
            values = floats_at(table[t], last * features)
            _embed_backward(values, first, last, features, d, w, place, to, d_out, g, s)
        else:
            for i in range(first, last):
                row = to[i] * d
                for m in range(d):
                    g[place + m] += d_out[row + m]


@kernel
def _embed(
    values: Any, first: int, last: int, features: int, d: int, w: Any, w0: int, destination: Any, out: Any,
    s: Any,
) -> None:  # fmt: skip
    """One type: rows first to last of `values` (N_t * features,)."""
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
            copy_floats(s, line + i * d, out, destination[start + i] * d, d)


@kernel
def _embed_backward(
    values: Any, first: int, last: int, features: int, d: int, w: Any, w0: int, destination: Any, d_out: Any,
    g: Any, s: Any,
) -> None:  # fmt: skip
    """One type. Lines of zeros make its features a multiple of 4, so that nothing but zeros is added to what
    lies behind a row of the weight."""
    at = places(features, d)
    padded = (features + 3) // 4 * 4
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
            copy_floats(d_out, destination[start + i] * d, s, line + i * d, d)
        rows_to_tile(s[line:], 0, rows, d, s, dy, TILE)
        row_sums(d, s, dy, TILE, columns, g, w0 + at[5])
        for m in range(d):
            gain = splat(w[w0 + at[4] + m])
            for t in range(0, columns, LANES):
                v = load(s, dy + m * TILE + t)
                store(s, both + t, v * load(s, y + m * TILE + t))
                store(s, dy + m * TILE + t, v * gain)
            row_sums(1, s, both, TILE, columns, g, w0 + at[4] + m)
        layer_norm_backward(s, dy, s, y, s, root, s, dy, d, TILE, columns, SET)
        for m in range(d):
            for t in range(m * TILE, m * TILE + columns, LANES):
                store(s, dy + t, where_positive(load(s, e + t), load(s, dy + t)))
        outer_sums(d, padded, s, dy, s, x, TILE, columns, g, w0 + at[2], features)
        row_sums(d, s, dy, TILE, columns, g, w0 + at[3])
