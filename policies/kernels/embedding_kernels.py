"""Numba kernels: the embedding of entities of all types, forward and backward, tile by tile.

With the statistics shift and scale of a type's features, its W, b, gain and offset, the raw features v of an
entity become

    x = clip((v - shift) scale, ±5),    e = max(W x + b, 0),    y = layer norm of e,    out = y gain + offset

and `out` is written to where the row belongs in the flat list of all rows. Backward from ∂out, with dy and de
the gradients of y and of W x + b:

    d offset = Σ ∂out,  d gain = Σ ∂out y,  dy = ∂out gain,  de = [e > 0] layer norm backward of dy,
    dW = Σ de xᵀ,  db = Σ de

Backward computes x, e and y again. A type without features is one vector for all of its entities; its
gradient is Σ ∂out.

There may be many more features than d, so x stays as features come, row by row: x Wᵀ and xᵀ de have the d
numbers of a row in their lanes, and only e is turned into a feature-major tile.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .tiles.matrices import Floats, Line, Strided, Tile, up_to_4, up_to_16
from .tiles.matrix_products import ADD, SET, product_16, row_sums
from .tiles.simd import (
    LANES,
    floats_at,
    inlined,
    kernel,
    load,
    maximum,
    minimum,
    smaller,
    splat,
    store,
    where_positive,
)
from .tiles.tile_kernels import copy_floats, layer_norm, layer_norm_backward, rows_to_tile, tile_to_rows

#: Rows of a tile, few enough for their features to stay in the L1 cache.
EMBEDDING_TILE = 64

#: Normalized features are clipped to this many standard deviations.
CLIP = 5.0

_CLIP = np.float32(CLIP)
_ZERO = np.float32(0.0)


class TypeTable(NamedTuple):
    """The entity types of a batch, a number per type in each array (T,)."""

    addresses: NDArray[np.int64]  # of the features (N_t, F) in memory
    features: NDArray[np.int64]  # F
    parameters: NDArray[np.int64]  # where the type's parameters start in `w`
    destinations: NDArray[np.int64]  # where its rows start in `destination`
    first: NDArray[np.int64]  # the first and
    last: NDArray[np.int64]  # the last of its rows that are to be embedded


class EmbeddedType(NamedTuple):
    """One entity type with features, as the kernels for a tile read it."""

    values: Floats  # (N_t * F,)
    destination: NDArray[np.int64]  # (N_t,): the row of each entity
    features: int  # F
    d: int
    w: Floats  # all parameters
    parameters: int  # where its parameters start in `w`
    turned: int  # where in the scratch memory Wᵀ starts, and
    turned_gradient: int  # its gradient


class EmbeddingPlaces(NamedTuple):
    """The start of each parameter of a type, counted from the first; and their size."""

    shift: int  # (F,)
    scale: int  # (F,)
    weight: int  # (d, F)
    bias: int  # (d,)
    gain: int  # (d,)
    offset: int  # (d,)
    size: int


class _CommonPlaces(NamedTuple):
    """The parts of the scratch memory that tiles share."""

    tile: int  # (d, EMBEDDING_TILE): forward's result, and gradients
    rows: int  # (EMBEDDING_TILE, d), d rounded up to 16
    line: int  # (EMBEDDING_TILE,)
    weights: int  # Wᵀ and its gradient, type after type; tiles come behind them


class _TilePlaces(NamedTuple):
    """The parts of one tile of a type in the scratch memory."""

    x: int  # (EMBEDDING_TILE, F)
    e: int  # (d, EMBEDDING_TILE)
    y: int  # (d, EMBEDDING_TILE)
    inverse_roots: int  # (EMBEDDING_TILE,)
    end: int


@inlined
def type_table(types: Any) -> TypeTable:
    """Return the rows (6, T) of a table as a `TypeTable`; one array enters a kernel faster than six."""
    return TypeTable(types[0], types[1], types[2], types[3], types[4], types[5])


@inlined
def embedding_places(features: int, d: int) -> EmbeddingPlaces:
    weight = 2 * features
    bias = weight + d * features
    return EmbeddingPlaces(0, features, weight, bias, bias + d, bias + 2 * d, bias + 3 * d)


@inlined
def _common_places(d: int) -> _CommonPlaces:
    wide = up_to_16(d) * EMBEDDING_TILE
    return _CommonPlaces(0, wide, 2 * wide, 2 * wide + EMBEDDING_TILE)


@inlined
def _tile_places(start: int, features: int, d: int) -> _TilePlaces:
    wide = up_to_16(d) * EMBEDDING_TILE
    e = start + (features + 4) * EMBEDDING_TILE
    return _TilePlaces(start, e, e + wide, e + 2 * wide, e + 2 * wide + EMBEDDING_TILE)


@inlined
def _weight_size(features: int, d: int) -> int:
    """Return the numbers of Wᵀ (F, d) of a type, d rounded up to 16; products write 3 lines more."""
    return (features + 4) * up_to_16(d)


@inlined
def _tiles_start(table: Any, d: int) -> int:
    """Return where tiles start in the scratch memory: behind the weights of all types."""
    start = _common_places(d).weights
    for t in range(len(table.features)):
        start += 2 * _weight_size(table.features[t], d)
    return start


def embedding_scratch(features: Sequence[int], d: int) -> int:
    """Return the numbers of scratch memory `s` for types of so many `features`."""
    weights = sum(2 * _weight_size(number, d) for number in features)
    tile: int = _tile_places(0, max(features, default=0), d).end
    return int(_common_places(d).weights + weights + tile)


@inlined
def _entity_type(table: Any, t: int, d: int, w: Any, destination: Any, turned: int) -> EmbeddedType:
    features = table.features[t]
    return EmbeddedType(
        floats_at(table.addresses[t], table.last[t] * features), destination[table.destinations[t] :],
        features, d, w, table.parameters[t], turned, turned + _weight_size(features, d),
    )  # fmt: skip


@kernel
def _normalize(kind: Any, start: int, rows: int, s: Any, x: int) -> None:
    """Write x of `rows` entities from `start`, normalized and clipped, to `s` from place `x` on."""
    values, w, features = kind.values, kind.w, kind.features
    shift, scale = kind.parameters, kind.parameters + features
    for i in range(rows):
        source, target = (start + i) * features, x + i * features
        if features >= LANES:
            for k in range(0, features, LANES):
                f = smaller(k, features - LANES)  # the last vector does some features again
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
def _activate(kind: Any, start: int, rows: int, s: Any, at: Any) -> None:
    """Fill the tile `at` with x, e and y of `rows` entities from `start`."""
    features, d, columns, wide = kind.features, kind.d, up_to_16(rows), up_to_16(kind.d)
    common, e = _common_places(d), Tile(s, at.e, EMBEDDING_TILE)
    bias = kind.parameters + embedding_places(features, d).bias
    _normalize(kind, start, rows, s, at.x)
    for m in range(0, wide, LANES):
        weight, result = Tile(s, kind.turned + m, wide), Tile(s, common.rows + m, wide)
        product_16(up_to_4(rows), features, Strided(s, at.x, features, 1), weight, result, SET)
    rows_to_tile(s[common.rows :], 0, rows, wide, e)
    for m in range(d):
        for t in range(at.e + m * EMBEDDING_TILE, at.e + m * EMBEDDING_TILE + columns, LANES):
            store(s, t, maximum(load(s, t) + splat(kind.w[bias + m]), splat(_ZERO)))
    layer_norm(e, Tile(s, at.y, EMBEDDING_TILE), Line(s, at.inverse_roots), d, columns)


@kernel
def _prepare_weights(table: Any, d: int, w: Any, s: Any) -> None:
    """Write Wᵀ of all types of `table` to the scratch memory `s`, and 0 for its gradient."""
    start, wide = _common_places(d).weights, up_to_16(d)
    for t in range(len(table.features)):
        features = table.features[t]
        size = _weight_size(features, d)
        if features:
            weight = table.parameters[t] + embedding_places(features, d).weight
            rows_to_tile(w[weight:], 0, d, features, Tile(s, start, wide))
        for m in range(start + size, start + 2 * size):
            s[m] = _ZERO
        start += 2 * size


@kernel
def _add_weight_gradients(table: Any, d: int, g: Any, s: Any) -> None:
    """Add the gradients of all types' W, which lie in the scratch memory `s`, to `g`."""
    start, wide = _common_places(d).weights, up_to_16(d)
    for t in range(len(table.features)):
        features = table.features[t]
        size = _weight_size(features, d)
        if features:
            weight = table.parameters[t] + embedding_places(features, d).weight
            for m in range(d):
                for f in range(features):
                    g[weight + m * features + f] += s[start + size + f * wide + m]
        start += 2 * size


@kernel
def embed_types(types: Any, d: int, w: Any, destination: Any, out: Any, s: Any) -> None:
    """Embed rows of all `types` (6, T), the rows of a `TypeTable`, into `out` (N * d,).

    destination: the row of each entity, type after type; `w`: all parameters, those of a type as in
    `EmbeddingPlaces`, or d numbers of a type without features; `s`: `embedding_scratch`.
    """
    table = type_table(types)
    _prepare_weights(table, d, w, s)
    turned, start = _common_places(d).weights, _tiles_start(table, d)
    for t in range(len(table.features)):
        if table.features[t]:
            kind = _entity_type(table, t, d, w, destination, turned)
            at = _tile_places(start, kind.features, d)
            for i in range(table.first[t], table.last[t], EMBEDDING_TILE):
                _embed_tile(kind, i, smaller(EMBEDDING_TILE, table.last[t] - i), out, s, at)
        else:
            rows, vector = destination[table.destinations[t] :], table.parameters[t]
            for i in range(table.first[t], table.last[t]):
                for m in range(d):
                    out[rows[i] * d + m] = w[vector + m]
        turned += 2 * _weight_size(table.features[t], d)


@kernel
def embed_types_backward(types: Any, d: int, w: Any, destination: Any, d_out: Any, g: Any, s: Any) -> None:
    """Add the gradients of the parameters to `g`, where `w` has them; those of the statistics stay.

    Arguments as in `embed_types`; d a multiple of 4; `d_out` (N * d,).
    """
    table = type_table(types)
    _prepare_weights(table, d, w, s)
    turned, start = _common_places(d).weights, _tiles_start(table, d)
    for t in range(len(table.features)):
        if table.features[t]:
            kind = _entity_type(table, t, d, w, destination, turned)
            at = _tile_places(start, kind.features, d)
            for i in range(table.first[t], table.last[t], EMBEDDING_TILE):
                rows = smaller(EMBEDDING_TILE, table.last[t] - i)
                _activate(kind, i, rows, s, at)
                _embed_tile_backward(kind, i, rows, d_out, g, s, at)
        else:
            rows_of, vector = destination[table.destinations[t] :], table.parameters[t]
            for i in range(table.first[t], table.last[t]):
                for m in range(d):
                    g[vector + m] += d_out[rows_of[i] * d + m]
        turned += 2 * _weight_size(table.features[t], d)
    _add_weight_gradients(table, d, g, s)


@kernel
def _embed_tile(kind: Any, start: int, rows: int, out: Any, s: Any, at: Any) -> None:
    """Embed `rows` entities of one type from `start`, with the tile `at`."""
    d, common, places = kind.d, _common_places(kind.d), embedding_places(kind.features, kind.d)
    _activate(kind, start, rows, s, at)
    for m in range(d):
        gain = splat(kind.w[kind.parameters + places.gain + m])
        offset = splat(kind.w[kind.parameters + places.offset + m])
        for t in range(m * EMBEDDING_TILE, m * EMBEDDING_TILE + up_to_16(rows), LANES):
            store(s, common.tile + t, load(s, at.y + t) * gain + offset)
    tile_to_rows(Tile(s, common.tile, EMBEDDING_TILE), s[common.rows :], 0, rows, d)
    for i in range(rows):
        copy_floats(s, common.rows + i * d, out, kind.destination[start + i] * d, d)


@kernel
def _embed_tile_backward(kind: Any, start: int, rows: int, d_out: Any, g: Any, s: Any, at: Any) -> None:
    """Add the gradients of `rows` entities of one type from `start`, whose tile `at` is filled.

    Products take up to three features more than there are, and nothing reads the results.
    """
    d, features, columns, wide = kind.d, kind.features, up_to_16(rows), up_to_16(kind.d)
    common, places = _common_places(d), embedding_places(features, d)
    gain_place, offset_place = kind.parameters + places.gain, kind.parameters + places.offset
    dy, line = Tile(s, common.tile, EMBEDDING_TILE), Tile(s, common.line, EMBEDDING_TILE)
    for i in range(rows):
        copy_floats(d_out, kind.destination[start + i] * d, s, common.rows + i * d, d)
    rows_to_tile(s[common.rows :], 0, rows, d, dy)
    row_sums(d, dy, columns, Line(g, offset_place))
    for m in range(d):
        gain = splat(kind.w[gain_place + m])
        for t in range(0, columns, LANES):
            v = load(s, common.tile + m * EMBEDDING_TILE + t)
            store(s, common.line + t, v * load(s, at.y + m * EMBEDDING_TILE + t))
            store(s, common.tile + m * EMBEDDING_TILE + t, v * gain)
        row_sums(1, line, columns, Line(g, gain_place + m))
    y = Tile(s, at.y, EMBEDDING_TILE)
    layer_norm_backward(dy, y, Line(s, at.inverse_roots), dy, d, columns, SET)
    for m in range(d):
        for t in range(m * EMBEDDING_TILE, m * EMBEDDING_TILE + columns, LANES):
            store(s, common.tile + t, where_positive(load(s, at.e + t), load(s, common.tile + t)))
    row_sums(d, dy, columns, Line(g, kind.parameters + places.bias))
    tile_to_rows(dy, s[common.rows :], 0, rows, wide)
    for m in range(0, wide, LANES):
        de, gradient = Tile(s, common.rows + m, wide), Tile(s, kind.turned_gradient + m, wide)
        product_16(up_to_4(features), rows, Strided(s, at.x, 1, features), de, gradient, ADD)
