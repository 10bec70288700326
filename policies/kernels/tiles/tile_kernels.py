"""Numba kernels on tiles: what a layer does to the rows in a tile, apart from matrix products.

A tile is feature-major: `x[x0 + feature * stride + row]`, so that neighbouring floats are the same feature of
neighbouring rows (entities). A vector then holds 16 rows, and everything that a network does per row (layer
norm, biases, activations) needs no work across lanes.

All kernels take flat float32 arrays with a start offset each. `columns` is the number of rows of the batch in
the tile rounded up to 16; what lies in the columns beyond is finite or not, and never read across lanes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .exponential import exp2
from .products import ADD
from .simd import LANES, erf, kernel, load, splat, square_root, store, transpose

_ZERO = np.float32(0.0)
_ONE = np.float32(1.0)
_HALF = np.float32(0.5)
_SQRT_HALF = np.float32(0.7071067811865476)
_HALF_LOG2_E = np.float32(-0.7213475204444817)  # exp(-v² / 2) = 2 ** (this · v²)
_NORMAL_PEAK = np.float32(0.3989422804014327)  # 1 / sqrt(2 pi)
#: Added to the variance, as in torch's LayerNorm.
LAYER_NORM_EPSILON = np.float32(1e-5)


@kernel
def layer_norm(
    x: Any, x0: int, y: Any, y0: int, rstd: Any, rstd0: int, features: int, stride: int, columns: int
) -> None:
    """y = (x - mean) / sqrt(variance + 1e-5) over the features of each column; rstd gets 1 / that root."""
    inverse = splat(_ONE / np.float32(features))
    for t in range(0, columns, LANES):
        s = splat(_ZERO)
        for d in range(features):
            s = s + load(x, x0 + d * stride + t)
        mean = s * inverse
        s = splat(_ZERO)
        for d in range(features):
            v = load(x, x0 + d * stride + t) - mean
            s = s + v * v
        r = splat(_ONE) / square_root(s * inverse + splat(LAYER_NORM_EPSILON))
        store(rstd, rstd0 + t, r)
        for d in range(features):
            store(y, y0 + d * stride + t, (load(x, x0 + d * stride + t) - mean) * r)


@kernel
def layer_norm_backward(
    dy: Any, dy0: int, y: Any, y0: int, rstd: Any, rstd0: int, dx: Any, dx0: int,
    features: int, stride: int, columns: int, mode: int,
) -> None:  # fmt: skip
    """dx (+)= rstd * (dy - mean(dy) - y mean(dy y)) per column, means over the features; mode SET or ADD."""
    inverse = splat(_ONE / np.float32(features))
    for t in range(0, columns, LANES):
        s = splat(_ZERO)
        s_y = splat(_ZERO)
        for d in range(features):
            v = load(dy, dy0 + d * stride + t)
            s = s + v
            s_y = s_y + v * load(y, y0 + d * stride + t)
        mean, mean_y, r = s * inverse, s_y * inverse, load(rstd, rstd0 + t)
        for d in range(features):
            row = d * stride + t
            v = (load(dy, dy0 + row) - mean - load(y, y0 + row) * mean_y) * r
            if mode == ADD:
                v = v + load(dx, dx0 + row)
            store(dx, dx0 + row, v)


@kernel
def gelu(
    x: Any, x0: int, y: Any, y0: int, slope: Any, slope0: int, rows: int, stride: int, columns: int
) -> None:
    """y = x Phi(x), the exact GELU, and slope = Phi(x) + x phi(x), its derivative; slope may be x itself."""
    for m in range(rows):
        for t in range(m * stride, m * stride + columns, LANES):
            v = load(x, x0 + t)
            cdf = (erf(v * splat(_SQRT_HALF)) + splat(_ONE)) * splat(_HALF)
            pdf = exp2(v * v * splat(_HALF_LOG2_E)) * splat(_NORMAL_PEAK)
            store(y, y0 + t, v * cdf)
            store(slope, slope0 + t, cdf + v * pdf)


@kernel
def gelu_only(x: Any, x0: int, y: Any, y0: int, rows: int, stride: int, columns: int) -> None:
    """y = x Phi(x)"""
    for m in range(rows):
        for t in range(m * stride, m * stride + columns, LANES):
            v = load(x, x0 + t)
            store(y, y0 + t, v * (erf(v * splat(_SQRT_HALF)) + splat(_ONE)) * splat(_HALF))


@kernel
def multiply(y: Any, y0: int, x: Any, x0: int, rows: int, stride: int, columns: int) -> None:
    """y *= x"""
    for m in range(rows):
        for t in range(m * stride, m * stride + columns, LANES):
            store(y, y0 + t, load(y, y0 + t) * load(x, x0 + t))


@kernel
def copy_floats(source: Any, start: int, target: Any, target_start: int, count: int) -> None:
    """target[target_start : target_start + count] = source[start : start + count]"""
    full = count - count % LANES
    for m in range(0, full, LANES):
        store(target, target_start + m, load(source, start + m))
    for m in range(full, count):
        target[target_start + m] = source[start + m]


@kernel
def rows_to_tile(
    source: Any, first: int, rows: int, features: int, tile: Any, tile0: int, stride: int
) -> None:
    """tile[f, i] = source[first + i, f]; columns from `rows` up to the next multiple of 16 become 0."""
    full_rows, full_features = rows - rows % LANES, features - features % LANES
    for i in range(0, full_rows, LANES):
        for f in range(0, full_features, LANES):
            transpose(source, (first + i) * features + f, features, tile, tile0 + f * stride + i, stride)
        for f in range(full_features, features):
            for r in range(i, i + LANES):
                tile[tile0 + f * stride + r] = source[(first + r) * features + f]
    if full_rows < rows:
        for f in range(features):
            store(tile, tile0 + f * stride + full_rows, splat(_ZERO))
            for r in range(full_rows, rows):
                tile[tile0 + f * stride + r] = source[(first + r) * features + f]


@kernel
def tile_to_rows(
    tile: Any, tile0: int, stride: int, target: Any, first: int, rows: int, features: int
) -> None:
    """target[first + i, f] = tile[f, i] for i < rows."""
    full_rows, full_features = rows - rows % LANES, features - features % LANES
    for i in range(0, full_rows, LANES):
        for f in range(0, full_features, LANES):
            transpose(tile, tile0 + f * stride + i, stride, target, (first + i) * features + f, features)
        for f in range(full_features, features):
            for r in range(i, i + LANES):
                target[(first + r) * features + f] = tile[tile0 + f * stride + r]
    for r in range(full_rows, rows):
        for f in range(features):
            target[(first + r) * features + f] = tile[tile0 + f * stride + r]
