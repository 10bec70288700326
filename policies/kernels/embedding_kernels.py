"""Numba kernels: the embedding of entities of all types, forward and backward, tile by tile.

Raw features v become x = clip((v - shift) scale, ±5), e = max(W x + b, 0), y = the layer norm of e before its
gain and offset, and y gain + offset, which is written to where the row belongs in the flat list of all rows.
Backward computes x, e and y again, or finds them where forward has left them (`keeps`). A type without
features is one vector for all of its entities.

There may be many more features than d, so x stays as features come, row by row: x Wᵀ and xᵀ de have the d
numbers of a row in their lanes, and only e is turned into a feature-major tile.

Types have arrays of their own, so the kernels get a table of `COLUMNS` int64 per type: the address of the
features (N_t, F) in memory, F, where its parameters start in `w`, where its rows start in `destination`, and
the first and last of the rows that are to be done.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .tiles.products import ADD, SET, product_16, row_sums
from .tiles.simd import LANES, floats_at, kernel, load, maximum, minimum, splat, store, where_positive
from .tiles.tile_kernels import copy_floats, layer_norm, layer_norm_backward, rows_to_tile, tile_to_rows

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
def _tile_places(at: int, features: int, d: int) -> tuple[int, ...]:
    """Where in the scratch memory lie, from `at`, x (TILE, features), tiles e and y and a line of roots of a
    tile; and what comes behind them. d is rounded up to a multiple of 16."""
    wide = up_to_16(d) * TILE
    e = at + (features + 4) * TILE
    return at, e, e + wide, e + 2 * wide, e + 2 * wide + TILE


@kernel
def _weight_places(at: int, features: int, d: int) -> tuple[int, ...]:
    """Where lie, from `at`, a type's Wᵀ and its gradient (features, d); and what comes behind them."""
    size = (features + 4) * up_to_16(d)
    return at, at + size, at + 2 * size


@kernel
def _common_places(d: int) -> tuple[int, ...]:
    """Where lie a tile dy, rows (TILE, d) and a line; and what comes behind them: the weights of all types,
    and then the tiles."""
    wide = up_to_16(d) * TILE
    return 0, wide, 2 * wide, 2 * wide + TILE


@kernel
def _all_weights(table: Any, d: int) -> int:
    """What comes behind the weights of all types."""
    at = _common_places(d)[3]
    for t in range(0, len(table), COLUMNS):
        at = _weight_places(at, table[t + 1], d)[2]
    return at


def embedding_scratch(table: NDArray[np.int64], d: int, rows: int = 0) -> int:
    """Numbers of scratch memory for the types of a table (T, COLUMNS), where forward keeps the tiles of up to
    `rows` rows for backward."""
    widest: int = table[:, 1].max(initial=0)
    tiles = 1 + (len(table) + rows // TILE if rows else 0)
    size: int = _all_weights(table.reshape(-1), d) + tiles * _tile_places(0, widest, d)[4]
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
    values: Any, start: int, rows: int, columns: int, features: int, d: int, w: Any, w0: int, s: Any,
    turned: int, at: int,
) -> None:  # fmt: skip
    """Fill the tile at `at` for rows start to start + rows; Wᵀ is at `turned`."""
    x, e, y, root, _ = _tile_places(at, features, d)
    line = _common_places(d)[1]
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
def turn_weights(table: Any, d: int, w: Any, s: Any) -> None:
    """Wᵀ of all types of `table` (T * COLUMNS,) into the scratch memory, and 0 for its gradient."""
    at = _common_places(d)[3]
    for t in range(0, len(table), COLUMNS):
        features = table[t + 1]
        turned, given, end = _weight_places(at, features, d)
        if features:
            rows_to_tile(w[table[t + 2] + places(features, d)[2] :], 0, d, features, s, turned, up_to_16(d))
        for m in range(given, end):
            s[m] = _ZERO
        at = end


@kernel
def give_weights(table: Any, d: int, g: Any, s: Any) -> None:
    """Add the gradients of all types' W, which lie in the scratch memory, to `g`."""
    at, wide = _common_places(d)[3], up_to_16(d)
    for t in range(0, len(table), COLUMNS):
        features = table[t + 1]
        _, given, at = _weight_places(at, features, d)
        weight = table[t + 2] + places(features, d)[2]
        if features:
            for m in range(d):
                for f in range(features):
                    g[weight + m * features + f] += s[given + f * wide + m]


@kernel
def embed_tiles(table: Any, d: int, w: Any, destination: Any, out: Any, s: Any, keeps: bool) -> None:
    """As `embed_types`, after `turn_weights`; `keeps`: each tile stays in the scratch memory."""
    weights, at = _common_places(d)[3], _all_weights(table, d)
    for t in range(0, len(table), COLUMNS):
        features, place, first, last = table[t + 1], table[t + 2], table[t + 4], table[t + 5]
        to = destination[table[t + 3] :]
        turned, _, weights = _weight_places(weights, features, d)
        if features:
            values = floats_at(table[t], last * features)
            for start in range(first, last, TILE):
                rows = min(TILE, last - start)
                _embed(values, start, rows, features, d, w, place, to, out, s, turned, at)
                if keeps:
                    at = _tile_places(at, features, d)[4]
        else:
            for i in range(first, last):
                row = to[i] * d
                for m in range(d):
                    out[row + m] = w[place + m]


@kernel
def embed_tiles_backward(
    table: Any, d: int, w: Any, destination: Any, d_out: Any, g: Any, s: Any, kept: bool
) -> None:
    """As `embed_types_backward`, between `turn_weights` and `give_weights`; `kept`: `embed_tiles` has just
    kept the tiles of the same rows."""
    weights, at = _common_places(d)[3], _all_weights(table, d)
    for t in range(0, len(table), COLUMNS):
        features, place, first, last = table[t + 1], table[t + 2], table[t + 4], table[t + 5]
        to = destination[table[t + 3] :]
        turned, given, weights = _weight_places(weights, features, d)
        if features:
            values = floats_at(table[t], last * features)
            for start in range(first, last, TILE):
                rows = min(TILE, last - start)
                if not kept:
                    _activate(values, start, rows, up_to_16(rows), features, d, w, place, s, turned, at)
                _embed_backward(start, rows, features, d, w, place, to, d_out, g, s, given, at)
                if kept:
                    at = _tile_places(at, features, d)[4]
        else:
            for i in range(first, last):
                row = to[i] * d
                for m in range(d):
                    g[place + m] += d_out[row + m]


@kernel
def embed_types(table: Any, d: int, w: Any, destination: Any, out: Any, s: Any) -> None:
    """Embed rows of all types of `table` (T * COLUMNS,) into `out` (N * d,).

    destination: the place of each row of each type; parameters in `w` as in `places`, or d numbers of a type
    without features; `s`: `embedding_scratch`.
    """
    turn_weights(table, d, w, s)
    embed_tiles(table, d, w, destination, out, s, False)


@kernel
def embed_types_backward(table: Any, d: int, w: Any, destination: Any, d_out: Any, g: Any, s: Any) -> None:
    """Add the gradients of the parameters to `g`, where `w` has them; those of the statistics stay.

    Arguments as in `embed_types`; d a multiple of 4; `d_out` (N * d,).
    """
    turn_weights(table, d, w, s)
    embed_tiles_backward(table, d, w, destination, d_out, g, s, False)
    give_weights(table, d, g, s)


@kernel
def _embed(
    values: Any, start: int, rows: int, features: int, d: int, w: Any, w0: int, destination: Any, out: Any,
    s: Any, turned: int, at: int,
) -> None:  # fmt: skip
    """A tile of one type: `rows` rows from `start` of `values` (N_t * features,)."""
    _, _, _, _, gain_place, offset_place, _ = places(features, d)
    _, _, y, _, _ = _tile_places(at, features, d)
    dressed, line, _, _ = _common_places(d)
    columns = up_to_16(rows)
    _activate(values, start, rows, columns, features, d, w, w0, s, turned, at)
    for m in range(d):
        gain, offset = splat(w[w0 + gain_place + m]), splat(w[w0 + offset_place + m])
        for t in range(m * TILE, m * TILE + columns, LANES):
            store(s, dressed + t, load(s, y + t) * gain + offset)
    tile_to_rows(s, dressed, TILE, s[line:], 0, rows, d)
    for i in range(rows):
        copy_floats(s, line + i * d, out, destination[start + i] * d, d)


@kernel
def _embed_backward(
    start: int, rows: int, features: int, d: int, w: Any, w0: int, destination: Any, d_out: Any, g: Any,
    s: Any, given: int, at: int,
) -> None:  # fmt: skip
    """A tile of one type. Products take up to three features more than there are, and nobody asks what they
    give."""
    _, _, _, bias, gain_place, offset_place, _ = places(features, d)
    wide, columns = up_to_16(d), up_to_16(rows)
    x, e, y, root, _ = _tile_places(at, features, d)
    dy, line, both, _ = _common_places(d)
    for i in range(rows):
        copy_floats(d_out, destination[start + i] * d, s, line + i * d, d)
    rows_to_tile(s[line:], 0, rows, d, s, dy, TILE)
    row_sums(d, s, dy, TILE, columns, g, w0 + offset_place)
    for m in range(d):
        gain = splat(w[w0 + gain_place + m])
        for t in range(0, columns, LANES):
            v = load(s, dy + m * TILE + t)
            store(s, both + t, v * load(s, y + m * TILE + t))
            store(s, dy + m * TILE + t, v * gain)
        row_sums(1, s, both, TILE, columns, g, w0 + gain_place + m)
    layer_norm_backward(s, dy, s, y, s, root, s, dy, d, TILE, columns, SET)
    for m in range(d):
        for t in range(m * TILE, m * TILE + columns, LANES):
            store(s, dy + t, where_positive(load(s, e + t), load(s, dy + t)))
    row_sums(d, s, dy, TILE, columns, g, w0 + bias)
    tile_to_rows(s, dy, TILE, s[line:], 0, rows, wide)
    for m in range(0, wide, LANES):
        product_16(
            (features + 3) // 4 * 4, rows, s, x, 1, features, s, line + m, wide, s, given + m, wide, ADD
        )
