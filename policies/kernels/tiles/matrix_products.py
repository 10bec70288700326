"""Numba kernels: matrix products on feature-major tiles.

A product is an outer-product micro-kernel: a block of 4 features × 64 rows (16 vectors; 4 vectors without
AVX-512) stays in registers while it runs over the inner dimension.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from .matrices import Line, fields, is_matrix
from .processor import WIDE_REGISTERS
from .simd import (
    FLAGS,
    INT32,
    LANES,
    VECTOR,
    constant,
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
    """The micro-kernel for y[m + i, t : t + 16 * vectors] (see `product`), i < rows."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        a, x, y, bias = (fields(context, builder, signature.args[i], args[i]) for i in range(4))
        m0, t, inner, mode = args[4:]
        y_lines = lines(builder, _at(builder, y.start, m0, y.stride, t), y.stride, rows)
        a_lines = lines(builder, _at(builder, a.start, m0, a.row), a.row, rows)
        x0, bias0 = builder.add(x.start, t), builder.add(bias.start, m0)
        across = [constant(LANES * v) for v in range(vectors)]
        sums = Sums(builder, rows, vectors)
        block = [(m, v) for m in range(rows) for v in range(vectors)]
        with builder.if_then(_has(builder, mode, SET_BIAS)):
            for m, v in block:
                place = builder.gep(bias.data, [builder.add(bias0, constant(m))])
                sums.add(m, v, splat_scalar(builder, builder.load(place)))
        with builder.if_then(_has(builder, mode, ADD)):
            for m, v in block:
                sums.add(m, v, load_vector(builder, y.data, builder.add(y_lines[m], across[v])))
        with cgutils.for_range(builder, inner) as loop:
            x_line = builder.add(x0, builder.mul(loop.index, x.stride))
            row = [load_vector(builder, x.data, builder.add(x_line, offset)) for offset in across]
            step = builder.mul(loop.index, a.column)
            for m in range(rows):
                factor = builder.load(builder.gep(a.data, [builder.add(a_lines[m], step)]))
                factors = splat_scalar(builder, factor)
                for v in range(vectors):
                    sums.add_product(m, v, factors, row[v])
        for m, v in block:
            store_vector(builder, sums.get(m, v), y.data, builder.add(y_lines[m], across[v]))
        return context.get_dummy_value()

    @intrinsic
    def block(context: Any, a: Any, x: Any, y: Any, bias: Any, m: Any, t: Any, inner: Any, mode: Any) -> Any:
        if not all(is_matrix(kind) for kind in (a, x, y, bias)):
            return None
        return types.void(a, x, y, bias, _I64, _I64, _I64, _I64), generate

    return block


def _at(builder: Any, start: Any, line: Any, stride: Any, column: Any = None) -> Any:
    """start + line * stride + column"""
    place = builder.add(start, builder.mul(line, stride))
    return place if column is None else builder.add(place, column)


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
def _outer_block(context: Any, y: Any, x: Any, g: Any, m: Any, k: Any, columns: Any) -> Any:
    """g[m + i, k + j] += sum over t < columns of y[m + i, t] x[k + j, t], i < 4, j < 4"""
    four = ir.VectorType(VECTOR.element, 4)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        y, x, g = (fields(context, builder, signature.args[i], args[i]) for i in range(3))
        m0, k0, columns = args[3:]
        y_lines = lines(builder, _at(builder, y.start, m0, y.stride), y.stride, 4)
        x_lines = lines(builder, _at(builder, x.start, k0, x.stride), x.stride, 4)
        sums = Sums(builder, 4, 4)
        with cgutils.for_range(builder, builder.udiv(columns, constant(LANES))) as loop:
            t = builder.mul(loop.index, constant(LANES))
            ys = [load_vector(builder, y.data, builder.add(line, t)) for line in y_lines]
            xs = [load_vector(builder, x.data, builder.add(line, t)) for line in x_lines]
            for i in range(4):
                for j in range(4):
                    sums.add_product(i, j, ys[i], xs[j])
        totals = _totals(builder, [sums.get(i, j) for i in range(4) for j in range(4)])
        for i, line in enumerate(lines(builder, _at(builder, g.start, m0, g.stride, k0), g.stride, 4)):
            lanes = ir.Constant(ir.VectorType(INT32, 4), [4 * i + j for j in range(4)])
            part = builder.shuffle_vector(totals, totals, lanes)
            place = builder.bitcast(builder.gep(g.data, [line]), four.as_pointer())
            old = builder.load(place)
            old.align = 4
            builder.store(builder.fadd(old, part, flags=FLAGS), place).align = 4
        return context.get_dummy_value()

    if not all(is_matrix(kind) for kind in (y, x, g)):
        return None
    return types.void(y, x, g, _I64, _I64, _I64), generate


_block_4_4, _block_4_2, _block_4_1 = (_product_block(4, v) for v in (4, 2, 1))
_block_1_4, _block_1_1, _block_8_1 = _product_block(1, 4), _product_block(1, 1), _product_block(8, 1)


@kernel
def product(rows: int, inner: int, a: Any, x: Any, y: Any, columns: int, mode: int, bias: Any) -> None:
    """y[m, t] (+)= (bias[m]) + Σₖ a[m, k] x[k, t], m < rows, k < inner, t < columns.

    `a` is `Strided`, `x` and `y` are `Tile`s, `bias` is a `Line`; `columns`: a multiple of 16. `mode` says
    whether y is added to (ADD, ADD_BIAS) and bias is added (SET_BIAS, ADD_BIAS).
    """
    t = 0
    while t < columns:
        width = 16
        if WIDE_REGISTERS:
            width = 64 if t + 64 <= columns else (32 if t + 32 <= columns else 16)
        m = 0
        while m + 4 <= rows:
            if width == 64:
                _block_4_4(a, x, y, bias, m, t, inner, mode)
            elif width == 32:
                _block_4_2(a, x, y, bias, m, t, inner, mode)
            else:
                _block_4_1(a, x, y, bias, m, t, inner, mode)
            m += 4
        while m < rows:
            if width == 64:
                _block_1_4(a, x, y, bias, m, t, inner, mode)
            else:
                for v in range(t, t + width, LANES):
                    _block_1_1(a, x, y, bias, m, v, inner, mode)
            m += 1
        t += width


@kernel
def product_16(rows: int, inner: int, a: Any, x: Any, y: Any, mode: int) -> None:
    """Compute `product` for 16 columns without a bias: 8 rows at a time, for attention's long thin products.

    `mode`: SET or ADD.
    """
    no_bias = Line(x.data, 0)
    m = 0
    while m + 8 <= rows:
        _block_8_1(a, x, y, no_bias, m, 0, inner, mode)
        m += 8
    if m + 4 <= rows:
        _block_4_1(a, x, y, no_bias, m, 0, inner, mode)
        m += 4
    while m < rows:
        _block_1_1(a, x, y, no_bias, m, 0, inner, mode)
        m += 1


@kernel
def outer_sums(rows: int, inner: int, y: Any, x: Any, columns: int, g: Any) -> None:
    """g[m, k] += Σₜ y[m, t] x[k, t], t < columns: the gradient of a weight; `rows`, `inner`: multiples of 4.

    All three are `Tile`s; `columns`: a multiple of 16.
    """
    for m in range(0, rows, 4):
        for k in range(0, inner, 4):
            _outer_block(y, x, g, m, k, columns)


@kernel
def row_sums(rows: int, y: Any, columns: int, g: Any) -> None:
    """g[m] += Σₜ y[m, t], t < columns: the gradient of a bias; `y` is a `Tile`, `g` a `Line`."""
    for m in range(rows):
        s = splat(_ZERO)
        for t in range(y.start + m * y.stride, y.start + m * y.stride + columns, LANES):
            s = s + load(y.data, t)
        g.data[g.start + m] += total(s)
