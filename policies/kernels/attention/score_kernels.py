"""Micro-kernels of attention: softmax, forward and backward, in one loop with the products beside it.

See `tile_attention` for the mathematics. What depends on a pair of query and key, beside the products, is
done where the numbers are in registers anyway:

- forward, `weigh_block`, with 16 queries in the lanes: the weights eⱼ = 2 ** (f sⱼ - c) of given scores,
  their sum, and the first of the rows of Σⱼ eⱼ vⱼ;
- backward, `slope_block`, with 16 keys in the lanes: the scores once more, p, dp and ds.

All take flat float32 arrays with a start each. Matrices with a feature per row have rows `stride` apart;
those of pairs (`p`, `ds`) have lines of 16.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from ..tiles.exponential import emit_exp2
from ..tiles.products import Sums, lines
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
    """For i < queries, with s[i] = Σ over m < features of q[m, i] k[m] and t[i] = Σ over m of u[m, i] v[m]:
    p[i] = 2 ** (factor s[i] - log[i]) and ds[i] = p[i] (scale t[i] - mean[i])."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _, q0, k0, u0, v0, stride, features, log0, factor, scale, _, _, p0, mean0 = args
        x, p, ds = (data_pointer(context, builder, signature.args[i], args[i]) for i in (0, 10, 11))
        sums = Sums(builder, queries, 2)
        with cgutils.for_range(builder, features) as loop:
            row = builder.mul(loop.index, stride)
            pairs = [
                (builder.add(scalars, row), load_vector(builder, x, builder.add(lanes, row)))
                for scalars, lanes in ((q0, k0), (u0, v0))
            ]
            for i in range(queries):
                for side, (query, key) in enumerate(pairs):
                    sums.add_product(i, side, _feature(builder, x, builder.add(query, constant(i))), key)
        for i, place in enumerate(lines(builder, p0, constant(LANES), queries)):
            log = _feature(builder, x, builder.add(log0, constant(i)))
            mean = _feature(builder, ds, builder.add(mean0, constant(i)))
            power = emit_exp2(builder, _minus(builder, _times(builder, sums.get(i, 0), factor), log))
            store_vector(builder, power, p, place)
            slope = _minus(builder, _times(builder, sums.get(i, 1), scale), mean)
            store_vector(builder, _times(builder, power, slope), ds, place)
        return context.get_dummy_value()

    @intrinsic
    def block(
        context: Any, x: Any, q0: Any, k0: Any, u0: Any, v0: Any, stride: Any, features: Any, log0: Any,
        factor: Any, scale: Any, p: Any, ds: Any, p0: Any, mean0: Any,
    ) -> Any:  # fmt: skip
        i, v = _I64, vector
        return types.void(x, i, i, i, i, i, i, i, v, v, p, ds, i, i), generate

    return block


weigh_block_8, weigh_block_4, weigh_block_1 = (_weigh_block(rows) for rows in (8, 4, 1))
slope_block_8, slope_block_4 = (_slope_block(queries) for queries in (8, 4))
