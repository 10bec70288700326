"""Numba kernels on tiles: what a layer does to the rows in a tile, apart from matrix products.

A tile is feature-major (see `matrices.Tile`): neighbouring floats are the same feature of neighbouring rows
(entities). A vector then holds 16 rows, and everything that a network does per row (layer norm, biases,
activations) needs no work across lanes.

`columns` is the number of rows of the batch in the tile rounded up to 16; what lies in the columns beyond is
finite or not, and never read across lanes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .exponential import exp2
from .functions import erf
from .matrix_products import ADD
from .simd import LANES, inlined, kernel, load, splat, square_root, store, transpose

_ZERO = np.float32(0.0)
_ONE = np.float32(1.0)
_HALF = np.float32(0.5)
_SQRT_HALF = np.float32(0.7071067811865476)
_HALF_LOG2_E = np.float32(-0.7213475204444817)  # exp(-v² / 2) = 2 ** (this · v²)
_NORMAL_PEAK = np.float32(0.3989422804014327)  # 1 / sqrt(2 pi)
#: Added to the variance, as in torch's LayerNorm.
LAYER_NORM_EPSILON = np.float32(1e-5)


@kernel
def new_floats(size: int) -> Any:
    """Return a new array (size,); NumPy's functions are compiled again for each kernel that calls them."""
    return np.empty(size, np.float32)


@kernel
def layer_norm(x: Any, y: Any, inverse_roots: Any, features: int, columns: int) -> None:
    """y = (x - mean) r over the features of each column, with r = 1 / √(variance + 1e-5).

    `x`, `y`: Tiles; `inverse_roots`: a Line that gets r.
    """
    inverse = splat(_ONE / np.float32(features))
    for t in range(0, columns, LANES):
        s = splat(_ZERO)
        for m in range(features):
            s = s + load(x.data, x.start + m * x.stride + t)
        mean = s * inverse
        s = splat(_ZERO)
        for m in range(features):
            v = load(x.data, x.start + m * x.stride + t) - mean
            s = s + v * v
        r = splat(_ONE) / square_root(s * inverse + splat(LAYER_NORM_EPSILON))
        store(inverse_roots.data, inverse_roots.start + t, r)
        for m in range(features):
            v = load(x.data, x.start + m * x.stride + t) - mean
            store(y.data, y.start + m * y.stride + t, v * r)


@kernel
def layer_norm_backward(
    dy: Any, y: Any, inverse_roots: Any, dx: Any, features: int, columns: int, mode: int
) -> None:
    """dx (+)= r (dy - mean(dy) - y mean(dy y)) per column, means over the features; `mode` is SET or ADD.

    `dy`, `y`, `dx`: Tiles; `inverse_roots`: the Line r that `layer_norm` gave.
    """
    inverse = splat(_ONE / np.float32(features))
    for t in range(0, columns, LANES):
        s = splat(_ZERO)
        s_y = splat(_ZERO)
        for m in range(features):
            v = load(dy.data, dy.start + m * dy.stride + t)
            s = s + v
            s_y = s_y + v * load(y.data, y.start + m * y.stride + t)
        mean, mean_y, r = s * inverse, s_y * inverse, load(inverse_roots.data, inverse_roots.start + t)
        for m in range(features):
            v = load(dy.data, dy.start + m * dy.stride + t)
            v = (v - mean - load(y.data, y.start + m * y.stride + t) * mean_y) * r
            place = dx.start + m * dx.stride + t
            if mode == ADD:
                v = v + load(dx.data, place)
            store(dx.data, place, v)


@kernel
def gelu(x: Any, y: Any, lines: int, columns: int) -> None:
    """y = x Φ(x), the exact GELU, of so many lines of Tiles."""
    for m in range(lines):
        for t in range(0, columns, LANES):
            v = load(x.data, x.start + m * x.stride + t)
            half_cdf = v * (erf(v * splat(_SQRT_HALF)) + splat(_ONE))
            store(y.data, y.start + m * y.stride + t, half_cdf * splat(_HALF))


@kernel
def gelu_with_slope(x: Any, y: Any, slope: Any, lines: int, columns: int) -> None:
    """y = x Φ(x), and its derivative slope = Φ(x) + x φ(x); the Tile `slope` may be `x` itself."""
    for m in range(lines):
        for t in range(0, columns, LANES):
            v = load(x.data, x.start + m * x.stride + t)
            cdf = (erf(v * splat(_SQRT_HALF)) + splat(_ONE)) * splat(_HALF)
            pdf = exp2(v * v * splat(_HALF_LOG2_E)) * splat(_NORMAL_PEAK)
            store(y.data, y.start + m * y.stride + t, v * cdf)
            store(slope.data, slope.start + m * slope.stride + t, cdf + v * pdf)


@kernel
def multiply(y: Any, x: Any, lines: int, columns: int) -> None:
    """y *= x, of so many lines of Tiles."""
    for m in range(lines):
        for t in range(0, columns, LANES):
            place = y.start + m * y.stride + t
            store(y.data, place, load(y.data, place) * load(x.data, x.start + m * x.stride + t))


@kernel
def clear_columns(tile: Any, lines: int, start: int, stop: int) -> None:
    """Zero the columns `start` to `stop`: they belong to no row, and sums over columns must not read them."""
    for m in range(lines):
        for i in range(tile.start + m * tile.stride + start, tile.start + m * tile.stride + stop):
            tile.data[i] = _ZERO


@inlined
def copy_floats(source: Any, start: int, target: Any, target_start: int, count: int) -> None:
    """target[target_start : target_start + count] = source[start : start + count]"""
    full = count - count % LANES
    for m in range(0, full, LANES):
        store(target, target_start + m, load(source, start + m))
    for m in range(full, count):
        target[target_start + m] = source[start + m]


@kernel
def rows_to_tile(source: Any, first: int, rows: int, features: int, tile: Any) -> None:
    """tile[f, i] = source[first + i, f] of a flat array; columns from `rows` to a multiple of 16 become 0."""
    full_rows, full_features = rows - rows % LANES, features - features % LANES
    data, stride = tile.data, tile.stride
    for i in range(0, full_rows, LANES):
        for f in range(0, full_features, LANES):
            line = tile.start + f * stride
            transpose(source, (first + i) * features + f, features, data, line + i, stride)
        for f in range(full_features, features):
            for r in range(i, i + LANES):
                data[tile.start + f * stride + r] = source[(first + r) * features + f]
    if full_rows < rows:
        for f in range(features):
            store(data, tile.start + f * stride + full_rows, splat(_ZERO))
            for r in range(full_rows, rows):
                data[tile.start + f * stride + r] = source[(first + r) * features + f]


@kernel
def tile_to_rows(tile: Any, target: Any, first: int, rows: int, features: int) -> None:
    """target[first + i, f] = tile[f, i] for i < rows, of a flat row-major array."""
    full_rows, full_features = rows - rows % LANES, features - features % LANES
    data, stride = tile.data, tile.stride
    for i in range(0, full_rows, LANES):
        for f in range(0, full_features, LANES):
            line = tile.start + f * stride
            transpose(data, line + i, stride, target, (first + i) * features + f, features)
        for f in range(full_features, features):
            for r in range(i, i + LANES):
                target[(first + r) * features + f] = data[tile.start + f * stride + r]
    for r in range(full_rows, rows):
        for f in range(features):
            target[(first + r) * features + f] = data[tile.start + f * stride + r]
