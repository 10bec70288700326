"""Micro-kernels of attention: softmax, forward and backward, in one loop with the products beside it.

See `tile_attention` for the mathematics. What depends on a pair of query and key, beside the products, is
done where the numbers are in registers anyway:

- forward, `_weigh_block`, with 16 queries in the lanes: the weights eⱼ = 2 ** (f sⱼ - c) of given scores,
  their sum, and the first of the rows of Σⱼ eⱼ vⱼ;
- backward, `_slope_block`, with 16 keys in the lanes: the scores once more, p, dp and ds.

Places are those of `HeadPlaces` and `HeadGradientPlaces` in the flat float32 array `x`; matrices of pairs
(`p`, `ds`) have lines of 16.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from llvmlite import ir
from numba import types
from numba.core import cgutils

from ..tiles.exponential import emit_exp2
from ..tiles.matrices import fields
from ..tiles.matrix_products import Sums, lines
from ..tiles.simd import (
    FLAGS,
    LANES,
    VECTOR,
    constant,
    data_pointer,
    intrinsic,
    load_vector,
    splat_scalar,
    store_vector,
    vector,
)

_I64 = types.int64


class HeadPlaces(NamedTuple):
    """The start of each part of one head of a sequence: n rows, lines `stride` apart, a feature per line."""

    q: int
    k: int
    v: int
    o: int
    logs: int  # lᵢ, one line; negative: not wanted
    stride: int
    d_head: int
    n: int


class HeadGradientPlaces(NamedTuple):
    """The start of their gradients."""

    dq: int
    dk: int
    dv: int
    do: int


def _feature(builder: Any, data: Any, place: Any) -> Any:
    """One number in every lane."""
    return splat_scalar(builder, builder.load(builder.gep(data, [place])))


def _times(builder: Any, a: Any, b: Any) -> Any:
    return builder.fmul(a, b, flags=FLAGS)


def _minus(builder: Any, a: Any, b: Any) -> Any:
    return builder.fsub(a, b, flags=FLAGS)


def _weigh_block(rows: int) -> Any:
    """For j < keys p[j] becomes e[j] = 2 ** (factor p[j] - shift), and for m < rows
    o[m] = Σⱼ v[m, j] e[j] / Σⱼ e[j]; returns Σⱼ e[j]."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _, keys, factor, shift, _, v0, o0, stride = args
        p, x = (data_pointer(context, builder, signature.args[i], args[i]) for i in (0, 4))
        sums = Sums(builder, rows + 1, 1)  # the last one is the sum of e
        values = lines(builder, v0, stride, rows)
        with cgutils.for_range(builder, keys) as loop:
            place = builder.mul(loop.index, constant(LANES))
            score = _times(builder, load_vector(builder, p, place), factor)
            e = emit_exp2(builder, _minus(builder, score, shift))
            store_vector(builder, e, p, place)
            sums.add(rows, 0, e)
            for m, line in enumerate(values):
                sums.add_product(m, 0, _feature(builder, x, builder.add(line, loop.index)), e)
        total = sums.get(rows, 0)
        inverse = builder.fdiv(ir.Constant(VECTOR, [1.0] * LANES), total, flags=FLAGS)
        for m, line in enumerate(lines(builder, o0, stride, rows)):
            store_vector(builder, _times(builder, sums.get(m, 0), inverse), x, line)
        return total

    @intrinsic
    def block(
        context: Any, p: Any, keys: Any, factor: Any, shift: Any, x: Any, v0: Any, o0: Any, stride: Any
    ) -> Any:
        return vector(p, _I64, vector, vector, x, _I64, _I64, _I64), generate

    return block


def _slope_block(queries: int) -> Any:
    """For i < queries and 16 keys j in the lanes, with sⱼᵢ = qᵢ·kⱼ and tⱼᵢ = doᵢ·vⱼ:
    p[i] = 2 ** (factor s - lᵢ) and ds[i] = p[i] (scale t - meanᵢ)."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _, head, given, i0, j0, factor, scale, _, _ = args
        x, p, ds = (data_pointer(context, builder, signature.args[i], args[i]) for i in (0, 7, 8))
        at = fields(context, builder, signature.args[1], head)
        q0, k0 = builder.add(at.q, i0), builder.add(at.k, j0)
        do = fields(context, builder, signature.args[2], given).do
        u0, v0 = builder.add(do, i0), builder.add(at.v, j0)
        log0 = builder.add(at.logs, i0)
        # Behind what blocks of 16 write, see `attend_tile_backward`.
        mean0 = builder.add(builder.mul(builder.add(at.n, constant(LANES)), constant(LANES)), i0)
        sums = Sums(builder, queries, 2)
        with cgutils.for_range(builder, at.d_head) as loop:
            row = builder.mul(loop.index, at.stride)
            pairs = [
                (builder.add(scalars, row), load_vector(builder, x, builder.add(lanes, row)))
                for scalars, lanes in ((q0, k0), (u0, v0))
            ]
            for i in range(queries):
                for side, (query, key) in enumerate(pairs):
                    sums.add_product(i, side, _feature(builder, x, builder.add(query, constant(i))), key)
        for i, place in enumerate(lines(builder, builder.mul(i0, constant(LANES)), constant(LANES), queries)):
            log = _feature(builder, x, builder.add(log0, constant(i)))
            mean = _feature(builder, ds, builder.add(mean0, constant(i)))
            power = emit_exp2(builder, _minus(builder, _times(builder, sums.get(i, 0), factor), log))
            store_vector(builder, power, p, place)
            slope = _minus(builder, _times(builder, sums.get(i, 1), scale), mean)
            store_vector(builder, _times(builder, power, slope), ds, place)
        return context.get_dummy_value()

    @intrinsic
    def block(
        context: Any, x: Any, head: Any, given: Any, i: Any, j: Any, factor: Any, scale: Any, p: Any, ds: Any
    ) -> Any:
        return types.void(x, head, given, _I64, _I64, vector, vector, p, ds), generate

    return block


weigh_block_8, weigh_block_4, weigh_block_1 = (_weigh_block(rows) for rows in (8, 4, 1))
slope_block_8, slope_block_4 = (_slope_block(queries) for queries in (8, 4))
