"""Numba kernels on tiles: small matrices that stay in the cache.

A tile is feature-major: `x[x0 + feature * stride + row]`, so that neighbouring floats are the same feature of
neighbouring rows (entities). A vector then holds 16 rows, and everything that a network does per row (layer
norm, softmax, biases, activations) needs no work across lanes. A matrix product is an outer-product
micro-kernel: 4 features × 64 rows stay in registers while it runs over the inner dimension.

All kernels take flat float32 arrays with a start offset each. `columns` is the number of rows of the batch in
the tile rounded up to 16; what lies in the columns beyond is finite or not, and never read across lanes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from .simd import (
    FLAGS,
    INT32,
    LANES,
    VECTOR,
    constant,
    data_pointer,
    erf,
    exp,
    intrinsic,
    load,
    load_vector,
    maximum,
    njit,
    splat,
    splat_scalar,
    square_root,
    store,
    store_vector,
    total,
    transpose,
)


def kernel(function: Callable[..., Any]) -> Any:
    """Numba's njit for kernels: cached on disk, without the GIL, compiled once for constants and variables.

    Left alone, Numba compiles a function again for each combination of constants that a kernel calls it with.
    """
    dispatcher: Any = njit(cache=True, nogil=True, error_model="numpy")(function)
    template_for = dispatcher.get_call_template

    def template_of_plain_types(args: Any, keywords: Any) -> Any:
        return template_for(tuple(types.unliteral(a) for a in args), keywords)

    dispatcher.get_call_template = template_of_plain_types
    return dispatcher


#: How a product is written: over what was there, added to it, over the bias, added to both.
SET, ADD, SET_BIAS, ADD_BIAS = 0, 1, 2, 3

_ZERO = np.float32(0.0)
_ONE = np.float32(1.0)
_HALF = np.float32(0.5)
_SQRT_HALF = np.float32(0.7071067811865476)
_NORMAL_PEAK = np.float32(0.3989422804014327)  # 1 / sqrt(2 pi)
#: Added to the variance, as in torch's LayerNorm.
LAYER_NORM_EPSILON = np.float32(1e-5)


def _product_block(rows: int, vectors: int) -> Any:
    """The micro-kernel for y[m, :16 * vectors] (+)= (bias[m]) + sum over k of a[m, k] x[k, :], m < rows."""

    @intrinsic
    def block(
        context: Any, a: Any, a0: Any, a_row: Any, a_column: Any, x: Any, x0: Any, x_stride: Any,
        y: Any, y0: Any, y_stride: Any, inner: Any, mode: Any, bias: Any, bias0: Any,
    ) -> Any:  # fmt: skip
        i64 = types.int64
        signature = types.void(a, i64, i64, i64, x, i64, i64, y, i64, i64, i64, i64, bias, i64)

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            _, a0, a_row, a_column, _, x0, x_stride, _, y0, y_stride, inner, mode, _, bias0 = args
            a_data, x_data, y_data, bias_data = (
                data_pointer(context, builder, signature.args[i], args[i]) for i in (0, 4, 7, 12)
            )
            y_rows = [builder.add(y0, builder.mul(y_stride, constant(m))) for m in range(rows)]
            a_rows = [builder.add(a0, builder.mul(a_row, constant(m))) for m in range(rows)]
            sums = [[cgutils.alloca_once(builder, VECTOR) for _ in range(vectors)] for _ in range(rows)]

            def offset(first: Any, v: int) -> Any:
                return builder.add(first, constant(LANES * v))

            def has(flag: int) -> Any:
                flags = builder.and_(mode, constant(flag))
                return builder.icmp_signed("!=", flags, constant(0))

            def accumulate(m: int, v: int, value: Any) -> None:
                builder.store(builder.fadd(builder.load(sums[m][v]), value, flags=FLAGS), sums[m][v])

            for m in range(rows):
                for v in range(vectors):
                    builder.store(ir.Constant(VECTOR, [0.0] * LANES), sums[m][v])
            with builder.if_then(has(SET_BIAS)):
                for m in range(rows):
                    value = builder.load(builder.gep(bias_data, [builder.add(bias0, constant(m))]))
                    for v in range(vectors):
                        builder.store(splat_scalar(builder, value), sums[m][v])
            with builder.if_then(has(ADD)):
                for m in range(rows):
                    for v in range(vectors):
                        accumulate(m, v, load_vector(builder, y_data, offset(y_rows[m], v)))
            with cgutils.for_range(builder, inner) as loop:
                x_row = builder.add(x0, builder.mul(loop.index, x_stride))
                step = builder.mul(loop.index, a_column)
                row = [load_vector(builder, x_data, offset(x_row, v)) for v in range(vectors)]
                for m in range(rows):
                    factor = builder.load(builder.gep(a_data, [builder.add(a_rows[m], step)]))
                    factors = splat_scalar(builder, factor)
                    for v in range(vectors):
                        accumulate(m, v, builder.fmul(factors, row[v], flags=FLAGS))
            for m in range(rows):
                for v in range(vectors):
                    store_vector(builder, builder.load(sums[m][v]), y_data, offset(y_rows[m], v))
            return context.get_dummy_value()

        return signature, generate

    return block


def _sums_of_lanes(builder: Any, vectors: list[Any]) -> Any:
    """The totals of 16 vectors, total i in lane i, by four rounds of adding halves."""
    for distance in (8, 4, 2, 1):
        stay = [i if not i & distance else LANES + i for i in range(LANES)]
        move = [i ^ distance if not i & distance else LANES + (i ^ distance) for i in range(LANES)]
        mask = ir.VectorType(INT32, LANES)
        vectors = [
            builder.fadd(
                builder.shuffle_vector(a, b, ir.Constant(mask, stay)),
                builder.shuffle_vector(a, b, ir.Constant(mask, move)),
                flags=FLAGS,
            )
            for a, b in zip(vectors[:distance], vectors[distance:], strict=True)
        ]
    return vectors[0]


@intrinsic
def _outer_block(
    context: Any, y: Any, y0: Any, x: Any, x0: Any, stride: Any, columns: Any, g: Any, g0: Any, g_stride: Any
) -> Any:
    """g[m, k] += sum over t < columns of y[m, t] x[k, t], m < 4, k < 4"""
    i64 = types.int64
    signature = types.void(y, i64, x, i64, i64, i64, g, i64, i64)
    four = ir.VectorType(VECTOR.element, 4)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _, y0, _, x0, stride, columns, _, g0, g_stride = args
        y_data, x_data, g_data = (
            data_pointer(context, builder, signature.args[i], args[i]) for i in (0, 2, 6)
        )

        def row(first: Any, step: Any, m: int) -> Any:
            return builder.add(first, builder.mul(step, constant(m)))

        sums = [cgutils.alloca_once(builder, VECTOR) for _ in range(16)]
        for s in sums:
            builder.store(ir.Constant(VECTOR, [0.0] * LANES), s)
        with cgutils.for_range(builder, builder.udiv(columns, constant(LANES))) as loop:
            t = builder.mul(loop.index, constant(LANES))
            ys = [load_vector(builder, y_data, builder.add(row(y0, stride, m), t)) for m in range(4)]
            xs = [load_vector(builder, x_data, builder.add(row(x0, stride, k), t)) for k in range(4)]
            for m in range(4):
                for k in range(4):
                    product = builder.fmul(ys[m], xs[k], flags=FLAGS)
                    s = sums[4 * m + k]
                    builder.store(builder.fadd(builder.load(s), product, flags=FLAGS), s)
        totals = _sums_of_lanes(builder, [builder.load(s) for s in sums])
        for m in range(4):
            lanes = ir.Constant(ir.VectorType(INT32, 4), [4 * m + k for k in range(4)])
            part = builder.shuffle_vector(totals, totals, lanes)
            place = builder.bitcast(builder.gep(g_data, [row(g0, g_stride, m)]), four.as_pointer())
            old = builder.load(place)
            old.align = 4
            builder.store(builder.fadd(old, part, flags=FLAGS), place).align = 4
        return context.get_dummy_value()

    return signature, generate


_block_4_4, _block_4_2, _block_4_1 = (_product_block(4, v) for v in (4, 2, 1))
_block_1_4, _block_1_1, _block_8_1 = _product_block(1, 4), _product_block(1, 1), _product_block(8, 1)


@kernel
def product(
    rows: int, inner: int, a: Any, a0: int, a_row: int, a_column: int, x: Any, x0: int, x_stride: int,
    y: Any, y0: int, y_stride: int, columns: int, mode: int, bias: Any, bias0: int,
) -> None:  # fmt: skip
    """y[m, :columns] (+)= (bias[m]) + sum over k < inner of a[m, k] x[k, :columns], m < rows."""
    t = 0
    while t < columns:
        width = 64 if t + 64 <= columns else (32 if t + 32 <= columns else 16)
        xt = x0 + t
        m = 0
        while m + 4 <= rows:
            am, ym, bm = a0 + m * a_row, y0 + m * y_stride + t, bias0 + m
            if width == 64:
                _block_4_4(a, am, a_row, a_column, x, xt, x_stride, y, ym, y_stride, inner, mode, bias, bm)
            elif width == 32:
                _block_4_2(a, am, a_row, a_column, x, xt, x_stride, y, ym, y_stride, inner, mode, bias, bm)
            else:
                _block_4_1(a, am, a_row, a_column, x, xt, x_stride, y, ym, y_stride, inner, mode, bias, bm)
            m += 4
        while m < rows:
            am, ym, bm = a0 + m * a_row, y0 + m * y_stride + t, bias0 + m
            if width == 64:
                _block_1_4(a, am, a_row, a_column, x, xt, x_stride, y, ym, y_stride, inner, mode, bias, bm)
            else:
                for v in range(0, width, 16):
                    xv, yv = xt + v, ym + v
                    _block_1_1(
                        a, am, a_row, a_column, x, xv, x_stride, y, yv, y_stride, inner, mode, bias, bm
                    )
            m += 1
        t += width


@kernel
def product_16(
    rows: int, inner: int, a: Any, a0: int, a_row: int, a_column: int, x: Any, x0: int, x_stride: int,
    y: Any, y0: int, y_stride: int, mode: int,
) -> None:  # fmt: skip
    """As `product` with 16 columns and no bias: 8 rows at a time, for the long thin products of attention."""
    m = 0
    while m + 8 <= rows:
        _block_8_1(
            a,
            a0 + m * a_row,
            a_row,
            a_column,
            x,
            x0,
            x_stride,
            y,
            y0 + m * y_stride,
            y_stride,
            inner,
            mode,
            a,
            0,
        )
        m += 8
    if m + 4 <= rows:
        _block_4_1(
            a,
            a0 + m * a_row,
            a_row,
            a_column,
            x,
            x0,
            x_stride,
            y,
            y0 + m * y_stride,
            y_stride,
            inner,
            mode,
            a,
            0,
        )
        m += 4
    while m < rows:
        _block_1_1(
            a,
            a0 + m * a_row,
            a_row,
            a_column,
            x,
            x0,
            x_stride,
            y,
            y0 + m * y_stride,
            y_stride,
            inner,
            mode,
            a,
            0,
        )
        m += 1


@kernel
def outer_sums(
    rows: int,
    inner: int,
    y: Any,
    y0: int,
    x: Any,
    x0: int,
    stride: int,
    columns: int,
    g: Any,
    g0: int,
    g_stride: int,
) -> None:
    """g[m, k] += sum over t < columns of y[m, t] x[k, t], a weight's gradient; multiples of 4 of m and k."""
    for m in range(0, rows, 4):
        for k in range(0, inner, 4):
            _outer_block(
                y, y0 + m * stride, x, x0 + k * stride, stride, columns, g, g0 + m * g_stride + k, g_stride
            )


@kernel
def row_sums(rows: int, y: Any, y0: int, stride: int, columns: int, g: Any, g0: int) -> None:
    """g[m] += sum over t < columns of y[m, t]: a bias's gradient."""
    for m in range(rows):
        s = splat(_ZERO)
        for t in range(0, columns, LANES):
            s = s + load(y, y0 + m * stride + t)
        g[g0 + m] += total(s)


@kernel
def softmax(p: Any, keys: int, scale: float) -> None:
    """Softmax over j < keys of scale * p[j * 16 + lane], in each lane."""
    factor = splat(scale)
    top = load(p, 0)
    for j in range(1, keys):
        top = maximum(top, load(p, LANES * j))
    s = splat(_ZERO)
    for j in range(keys):
        e = exp((load(p, LANES * j) - top) * factor)
        store(p, LANES * j, e)
        s = s + e
    inverse = splat(_ONE) / s
    for j in range(keys):
        store(p, LANES * j, load(p, LANES * j) * inverse)


@kernel
def softmax_backward(p: Any, dp: Any, keys: int, scale: float) -> None:
    """dp[j] = scale * p[j] * (dp[j] - sum over i of p[i] dp[i]), in each lane: gradient of the raw scores."""
    s = splat(_ZERO)
    for j in range(keys):
        s = s + load(p, LANES * j) * load(dp, LANES * j)
    factor = splat(scale)
    for j in range(keys):
        store(dp, LANES * j, load(p, LANES * j) * factor * (load(dp, LANES * j) - s))


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
            pdf = exp(v * v * splat(-_HALF)) * splat(_NORMAL_PEAK)
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
