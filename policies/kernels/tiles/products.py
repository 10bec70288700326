"""Numba kernels: matrix products on feature-major tiles (see `tiles`).

A product is an outer-product micro-kernel: a block of 4 features × 64 rows (16 vectors; 4 vectors without
AVX-512) stays in registers while it runs over the inner dimension.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba import types
from numba.core import cgutils

from .simd import (
    FLAGS,
    INT32,
    LANES,
    VECTOR,
    constant,
    data_pointer,
    intrinsic,
    kernel,
    load,
    load_vector,
    splat,
    splat_scalar,
    store_vector,
    total,
)

#: How a product is written: over what was there, added to it, over the bias, added to both.
SET, ADD, SET_BIAS, ADD_BIAS = 0, 1, 2, 3


def _has_wide_registers() -> bool:
    """Whether a vector fits one register (AVX-512), on the processor that Numba compiles for."""
    if numba.config.CPU_NAME:  # set by NUMBA_CPU_NAME, with the features beside it
        return "+avx512f" in (numba.config.CPU_FEATURES or "")
    try:
        return bool(get_host_cpu_features().get("avx512f"))
    except RuntimeError:  # llvmlite can't tell on this system
        return False


#: Where a vector takes several registers, 64 columns at a time would not fit in them.
WIDE_REGISTERS = _has_wide_registers()

_I64 = types.int64
_ZERO = np.float32(0.0)


class Sums:
    """The accumulators of a block: vectors on the stack that LLVM keeps in registers."""

    def __init__(self, builder: Any, rows: int, columns: int) -> None:
        self.builder = builder
        self.places = [[cgutils.alloca_once(builder, VECTOR) for _ in range(columns)] for _ in range(rows)]
        for m in range(rows):
            for v in range(columns):
                self.set(m, v, ir.Constant(VECTOR, [0.0] * LANES))

    def get(self, m: int, v: int) -> Any:
        return self.builder.load(self.places[m][v])

    def set(self, m: int, v: int, value: Any) -> None:
        self.builder.store(value, self.places[m][v])

    def add(self, m: int, v: int, value: Any) -> None:
        self.set(m, v, self.builder.fadd(self.get(m, v), value, flags=FLAGS))

    def add_product(self, m: int, v: int, a: Any, b: Any) -> None:
        self.add(m, v, self.builder.fmul(a, b, flags=FLAGS))


def lines(builder: Any, first: Any, stride: Any, count: int) -> list[Any]:
    """Offsets of `count` lines that start `stride` apart."""
    return [builder.add(first, builder.mul(stride, constant(m))) for m in range(count)]


def _has(builder: Any, mode: Any, flag: int) -> Any:
    return builder.icmp_signed("!=", builder.and_(mode, constant(flag)), constant(0))


def _product_block(rows: int, vectors: int) -> Any:
    """The micro-kernel for y[m, :16 * vectors] (+)= (bias[m]) + sum over k of a[m, k] x[k, :], m < rows."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _, a0, a_row, a_column, _, x0, x_stride, _, y0, y_stride, inner, mode, _, bias0 = args
        a, x, y, bias = (data_pointer(context, builder, signature.args[i], args[i]) for i in (0, 4, 7, 12))
        y_lines = lines(builder, y0, y_stride, rows)
        a_lines = lines(builder, a0, a_row, rows)
        across = [constant(LANES * v) for v in range(vectors)]
        sums = Sums(builder, rows, vectors)
        block = [(m, v) for m in range(rows) for v in range(vectors)]
        with builder.if_then(_has(builder, mode, SET_BIAS)):
            for m, v in block:
                place = builder.gep(bias, [builder.add(bias0, constant(m))])
                sums.add(m, v, splat_scalar(builder, builder.load(place)))
        with builder.if_then(_has(builder, mode, ADD)):
            for m, v in block:
                sums.add(m, v, load_vector(builder, y, builder.add(y_lines[m], across[v])))
        with cgutils.for_range(builder, inner) as loop:
            x_line = builder.add(x0, builder.mul(loop.index, x_stride))
            row = [load_vector(builder, x, builder.add(x_line, offset)) for offset in across]
            step = builder.mul(loop.index, a_column)
            for m in range(rows):
                factor = builder.load(builder.gep(a, [builder.add(a_lines[m], step)]))
                factors = splat_scalar(builder, factor)
                for v in range(vectors):
                    sums.add_product(m, v, factors, row[v])
        for m, v in block:
            store_vector(builder, sums.get(m, v), y, builder.add(y_lines[m], across[v]))
        return context.get_dummy_value()

    @intrinsic
    def block(
        context: Any, a: Any, a0: Any, a_row: Any, a_column: Any, x: Any, x0: Any, x_stride: Any,
        y: Any, y0: Any, y_stride: Any, inner: Any, mode: Any, bias: Any, bias0: Any,
    ) -> Any:  # fmt: skip
        i = _I64
        return types.void(a, i, i, i, x, i, i, y, i, i, i, i, bias, i), generate

    return block


def _totals(builder: Any, vectors: list[Any]) -> Any:
    """The sums of the lanes of 16 vectors, sum i in lane i, by four rounds of adding halves."""
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
    four = ir.VectorType(VECTOR.element, 4)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _, y0, _, x0, stride, columns, _, g0, g_stride = args
        y, x, g = (data_pointer(context, builder, signature.args[i], args[i]) for i in (0, 2, 6))
        y_lines, x_lines = lines(builder, y0, stride, 4), lines(builder, x0, stride, 4)
        sums = Sums(builder, 4, 4)
        with cgutils.for_range(builder, builder.udiv(columns, constant(LANES))) as loop:
            t = builder.mul(loop.index, constant(LANES))
            ys = [load_vector(builder, y, builder.add(line, t)) for line in y_lines]
            xs = [load_vector(builder, x, builder.add(line, t)) for line in x_lines]
            for m in range(4):
                for k in range(4):
                    sums.add_product(m, k, ys[m], xs[k])
        totals = _totals(builder, [sums.get(m, k) for m in range(4) for k in range(4)])
        for m, line in enumerate(lines(builder, g0, g_stride, 4)):
            lanes = ir.Constant(ir.VectorType(INT32, 4), [4 * m + k for k in range(4)])
            part = builder.shuffle_vector(totals, totals, lanes)
            place = builder.bitcast(builder.gep(g, [line]), four.as_pointer())
            old = builder.load(place)
            old.align = 4
            builder.store(builder.fadd(old, part, flags=FLAGS), place).align = 4
        return context.get_dummy_value()

    i = _I64
    return types.void(y, i, x, i, i, i, g, i, i), generate


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
        width = 16
        if WIDE_REGISTERS:
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
                for v in range(0, width, LANES):
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
        am, ym = a0 + m * a_row, y0 + m * y_stride
        _block_8_1(a, am, a_row, a_column, x, x0, x_stride, y, ym, y_stride, inner, mode, a, 0)
        m += 8
    if m + 4 <= rows:
        am, ym = a0 + m * a_row, y0 + m * y_stride
        _block_4_1(a, am, a_row, a_column, x, x0, x_stride, y, ym, y_stride, inner, mode, a, 0)
        m += 4
    while m < rows:
        am, ym = a0 + m * a_row, y0 + m * y_stride
        _block_1_1(a, am, a_row, a_column, x, x0, x_stride, y, ym, y_stride, inner, mode, a, 0)
        m += 1


@kernel
def outer_sums(
    rows: int, inner: int, y: Any, y0: int, x: Any, x0: int, stride: int, columns: int,
    g: Any, g0: int, g_stride: int,
) -> None:  # fmt: skip
    """g[m, k] += sum over t < columns of y[m, t] x[k, t], a weight's gradient; multiples of 4 of m and k."""
    for m in range(0, rows, 4):
        for k in range(0, inner, 4):
            _outer_block(
                y, y0 + m * stride, x, x0 + k * stride, stride, columns, g, g0 + m * g_stride + k, g_stride
            )


@kernel
def row_sums(rows: int, y: Any, y0: int, stride: int, columns: int, g: Any, g0: int) -> None:
    """g[m] += sum over t < columns of y[m, t], a bias's gradient."""
    for m in range(rows):
        s = splat(_ZERO)
        for t in range(0, columns, LANES):
            s = s + load(y, y0 + m * stride + t)
        g[g0 + m] += total(s)
