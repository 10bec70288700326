"""Numba kernels: the embedding of entities of all types, forward and backward, tile by tile.

Raw features v become x = clip((v - shift) scale, ±5), e = max(W x + b, 0), y = the layer norm of e before its
gain and offset, and y gain + offset, which is written to where the row belongs in the flat list of all rows.
Backward computes x, e and y again. A type without features is one vector for all of its entities.

There may be many more features than d, so x stays as features come, row by row: x Wᵀ and xᵀ de have the d
numbers of a row in their lanes, and only e is turned into a feature-major tile.

Types have arrays of their own, so the kernels get a table of `COLUMNS` int64 per type: the address of the
features (N_t, F) in memory, F, where its parameters start in `w`, where its rows start in `destination`, and
the first and last of the rows that are to be done.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .products import ADD, SET, product_16, row_sums
from .simd import LANES, floats_at, kernel, load, maximum, minimum, splat, store, where_positive
from .tiles import copy_floats, layer_norm, layer_norm_backward, rows_to_tile, tile_to_rows

#: Rows of a tile, few enough for their features to stay in the L1 cache.
TILE = 64

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


@kernel
def _scratch_places(features: int, d: int) -> tuple[int, ...]:
    """Where in the scratch memory lie x (TILE, features), tiles e, y and dy, rows (TILE, d), two lines, and
    Wᵀ and its gradient (features, d); and the size of it all. d is rounded up to a multiple of 16."""
    wide, padded = up_to_16(d), features + 4
    e = padded * TILE
    y, dy, line, root = e + wide * TILE, e + 2 * wide * TILE, e + 3 * wide * TILE, e + 4 * wide * TILE
    turned = root + 2 * TILE
    return 0, e, y, dy, line, root, root + TILE, turned, turned + padded * wide, turned + 2 * padded * wide


def embedding_scratch(features: int, d: int) -> int:
    """Numbers of scratch memory for both kernels, for types of up to `features` features."""
    size: int = _scratch_places(features, d)[9]
    return size


@kernel
def up_to_16(number: int) -> int:
    """The next multiple of 16."""
    return (number + LANES - 1) // LANES * LANES


@kernel
def _normalize(values: Any, start: int, rows: int, features: int, w: Any, w0: int, s: Any, x: int) -> None:
    """Rows start to start + rows of `values`, normalised and clipped, to row x of `s`."""
    shift, scale = w0, w0 + features
    for i in range(rows):
        source, target = (start + i) * features, x + i * features
        if features >= LANES:
            for k in range(0, features, LANES):
                f = min(k, features - LANES)  # the last vector does some features again
                v = (load(values, source + f) - load(w, shift + f)) * load(w, scale + f)
                store(s, target + f, minimum(maximum(v, splat(-_CLIP)), splat(_CLIP)))
        else:
            for f in range(features):
                u = (values[source + f] - w[shift + f]) * w[scale + f]
                if u < -_CLIP:
                    u = -_CLIP
                elif u > _CLIP:
                    u = _CLIP
                s[target + f] = u


@kernel
def _activate(
    values: Any, start: int, rows: int, columns: int, features: int, d: int, w: Any, w0: int, s: Any
) -> None:
    """Fill x, the tiles e and y and the line of roots for rows start to start + rows; Wᵀ is there."""
    x, e, y, _, line, root, _, turned, _, _ = _scratch_places(features, d)
    bias, wide = w0 + places(features, d)[3], up_to_16(d)
    _normalize(values, start, rows, features, w, w0, s, x)
    for m in range(0, wide, LANES):
        product_16(
            (rows + 3) // 4 * 4, features, s, x, features, 1, s, turned + m, wide, s, line + m, wide, SET
        )
    rows_to_tile(s[line:], 0, rows, wide, s, e, TILE)
    for m in range(d):
        for t in range(e + m * TILE, e + m * TILE + columns, LANES):
            store(s, t, maximum(load(s, t) + splat(w[bias + m]), splat(_ZERO)))
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
    _, _, y, _, line, _, _, turned, _, _ = _scratch_places(features, d)
    rows_to_tile(w[w0 + at[2] :], 0, d, features, s, turned, up_to_16(d))
    for start in range(first, last, TILE):
        rows = min(TILE, last - start)
        columns = up_to_16(rows)
        _activate(values, start, rows, columns, features, d, w, w0, s)
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
    """One type. Products take up to three features more than there are, and nobody asks what they give."""
    at, wide = places(features, d), up_to_16(d)
    x, e, y, dy, line, root, both, turned, given, _ = _scratch_places(features, d)
    rows_to_tile(w[w0 + at[2] :], 0, d, features, s, turned, wide)
    s[given : given + (features + 4) * wide] = _ZERO
    for start in range(first, last, TILE):
        rows = min(TILE, last - start)
        columns = up_to_16(rows)
        _activate(values, start, rows, columns, features, d, w, w0, s)
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
        row_sums(d, s, dy, TILE, columns, g, w0 + at[3])
        tile_to_rows(s, dy, TILE, s[line:], 0, rows, wide)
        for m in range(0, wide, LANES):
            product_16(
                (features + 3) // 4 * 4, rows, s, x, 1, features, s, line + m, wide, s, given + m, wide, ADD
            )
    for m in range(d):
        for f in range(features):
            g[w0 + at[2] + m * features + f] += s[given + f * wide + m]
