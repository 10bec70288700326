"""Numba kernels: attention with learned keys and values per offset between two rows, forward and backward.

With a table of keys K and one of values V, of which the pair of query i and key j has line b = b(i, j), and
factors gⱼ of the row that is looked at:

    sⱼᵢ = qᵢ·(kⱼ + K_b),   pⱼᵢ = softmax over j of sⱼᵢ / √d,   oᵢ = Σⱼ pⱼᵢ (vⱼ + gⱼ V_b)

and backward, beside what `tile_attention` says, with dpⱼᵢ = doᵢ·(vⱼ + gⱼ V_b) and dqᵢ = Σⱼ dsⱼᵢ (kⱼ + K_b),

    dK_b = Σ dsⱼᵢ qᵢ,   dV_b = Σ pⱼᵢ gⱼ doᵢ,   dgⱼ = Σᵢ pⱼᵢ doᵢ V_b

with sums over all pairs of the line, and over the heads, which share the tables.

16 queries are in the lanes of a vector, in both directions. For each block of them the lines of all pairs are
fetched once for all heads, a feature per vector, so that the rest is products of vectors; likewise their
gradients are added to the tables once. Pairs of which one row has no place have the first line, of zeros.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..tiles.exponential import exp2
from ..tiles.functions import log
from ..tiles.matrices import Floats, Strided, Tile, up_to_4
from ..tiles.matrix_products import ADD, SET, product_16
from ..tiles.simd import (
    LANES,
    inlined,
    kernel,
    larger,
    load,
    maximum,
    minimum,
    quotient,
    rounded,
    smaller,
    splat,
    store,
    total,
    transpose,
    where_positive,
)
from ..tiles.tile_kernels import new_floats
from .line_kernels import add_to_lines, fetch_lines
from .tile_attention import head_places, weighted_values

_ZERO = np.float32(0.0)
_ONE = np.float32(1.0)
_LOG2_E = np.float32(1.4426950408889634)


class RelativeTables(NamedTuple):
    """Tables, and where the rows of a batch are. `RelativeTables(*relative)` makes one from plain tuples."""

    keys: Floats  # ((buckets + 1) * width,), where d_head has become a multiple of 4: the first line is 0
    values: Floats  # ((value buckets + 1) * width,): likewise
    position: Floats  # (P * (N + 16),): axis by axis, with any numbers behind the rows
    kind: Floats  # (N + 16,): index of the row's type; negative: it has no place
    extent: NDArray[np.int64]  # (P,): buckets are a grid of 2 extent + 1 per axis
    scale: float  # positions are divided by this (float32)
    by_kind: int  # 1: values of their own for each type that is looked at; 0: the same for all
    gate: int  # how the factors come from their projection: an index into `relative_gate.GATES`
    gate_weight: int  # where the projection's weight (d_head, d) starts in the blocks' parameters
    gate_bias: int  # (d_head,)


class PairMemory(NamedTuple):
    """Scratch memory for a block of 16 queries and all keys: (n, width, 16) each."""

    keys: Floats
    values: Floats
    gated: Floats  # values times factors
    d_keys: Floats
    d_values: Floats  # first of the gated values
    key_lines: Floats  # (n, 16): whole numbers
    value_lines: Floats  # (n, 16): likewise, and perhaps the same array


class RelativeGradients(NamedTuple):
    """The start of gradients in a tile's workspace."""

    d_out: int  # d lines, given
    d_qkv: int  # 3 d lines, to be written
    d_gate: int  # d_head lines, to be added to


def pair_scratch(d_head: int, longest: int) -> int:
    """Return the numbers of scratch memory for pairs of a step of `longest` rows."""
    return (5 * int(up_to_4(d_head)) + 2) * longest * LANES


@kernel
def _pair_memory(s: Any, d_head: int, steps: Any, relative: Any) -> PairMemory:
    """Lay out the scratch memory `s` of `pair_scratch` numbers for the longest step of a `StepTile`."""
    longest = 0
    for b in range(steps.first, steps.end):
        longest = larger(longest, steps.offsets[b + 1] - steps.offsets[b])
    size = longest * up_to_4(d_head) * LANES
    lines = s[5 * size :]
    of_values = lines[longest * LANES * relative.by_kind :]
    return PairMemory(s, s[size:], s[2 * size :], s[3 * size :], s[4 * size :], lines, of_values)


@kernel
def _find_lines(relative: Any, row: int, n: int, i: int, real: Any, lines: Any) -> None:
    """Write the lines of 16 queries from `i`, of which some are `real`, and all keys of a step whose rows
    start at `row`."""
    axes, rows = len(relative.extent), len(relative.kind)
    scale = splat(np.float32(relative.scale))
    known = where_positive(real, load(relative.kind, row + i) + splat(_ONE))  # above 0 with a place
    for j in range(row, row + n):
        line, width = splat(_ZERO), 1
        if relative.kind[j] >= _ZERO:
            line = splat(_ONE)
            for axis in range(axes):
                extent = splat(np.float32(relative.extent[axis]))
                at = axis * rows
                offset = load(relative.position, at + row + i) - splat(relative.position[at + j])
                # In this order a NaN becomes a number of a line too.
                scaled = maximum(splat(_ZERO) - extent, quotient(offset, scale))
                cell = rounded(minimum(scaled, extent))
                line = line + (cell + extent) * splat(np.float32(width))
                width *= 2 * relative.extent[axis] + 1
            line = where_positive(known, line)
        store(lines, (j - row) * LANES, line)


@kernel
def _find_value_lines(relative: Any, row: int, n: int, d_head: int, pairs: Any) -> None:
    """Write the lines of values, where each type has its own: behind those of the types before."""
    buckets = splat(np.float32(len(relative.keys) // up_to_4(d_head) - 1))
    for j in range(n):
        line = load(pairs.key_lines, j * LANES)
        line = line + where_positive(line, splat(relative.kind[row + j]) * buckets)
        store(pairs.value_lines, j * LANES, line)


@inlined
def _multiply_by_gate(x: Any, gate: int, stride: int, n: int, d_head: int, values: Any, out: Any) -> None:
    """out[j, m] = values[j, m] * gate[m, j], of vectors."""
    for j in range(n):
        for m in range(d_head):
            at = (j * up_to_4(d_head) + m) * LANES
            store(out, at, load(values, at) * splat(x[gate + m * stride + j]))


@kernel
def _fetch_pairs(
    x: Any, gate: int, stride: int, relative: Any, row: int, n: int, i: int, d_head: int, pairs: Any,
    real: Any,
) -> None:  # fmt: skip
    """Fetch keys, values and gated values of 16 queries from `i`; `gate`: of the step's first row.

    Lanes that are not `real`, as of pairs without an offset, get zeros.
    """
    _find_lines(relative, row, n, i, real, pairs.key_lines)
    if relative.by_kind > 0:
        _find_value_lines(relative, row, n, d_head, pairs)
    fetch_lines(relative.keys, pairs.key_lines, n, up_to_4(d_head), pairs.keys)
    fetch_lines(relative.values, pairs.value_lines, n, up_to_4(d_head), pairs.values)
    _multiply_by_gate(x, gate, stride, n, d_head, pairs.values, pairs.gated)


@inlined
def _add_products(x: Any, vectors: int, stride: int, table: Any, n: int, d_head: int, y: Any) -> None:
    """y[j] += Σₘ vectors[m] table[j, m]"""
    for j in range(n):
        s = load(y, j * LANES)
        for m in range(d_head):
            s = s + load(x, vectors + m * stride) * load(table, (j * up_to_4(d_head) + m) * LANES)
        store(y, j * LANES, s)


@inlined
def _add_weighted(
    x: Any, out: int, stride: int, table: Any, n: int, d_head: int, y: Any, factor: Any
) -> None:
    """out[m] += factor Σⱼ y[j] table[j, m]"""
    for m in range(d_head):
        s = splat(_ZERO)
        for j in range(n):
            s = s + load(y, j * LANES) * load(table, (j * up_to_4(d_head) + m) * LANES)
        store(x, out + m * stride, load(x, out + m * stride) + s * factor)


@kernel
def attend_tile_relative(
    x: Any, at: Any, gate: int, shape: Any, steps: Any, relative: Any, p: Any, scratch: Any
) -> None:
    """Attend within each step of a `StepTile`, inside the array `x`.

    `gate`: the start of the factors, d_head lines; `shape`: has the width `d` and the heads `n_head`;
    `p`: scratch of (longest + 16) * 16; `scratch`: of `pair_scratch` numbers.
    """
    d_head, stride, offsets = shape.d // shape.n_head, steps.stride, steps.offsets
    pairs, lanes = _pair_memory(scratch, d_head, steps, relative), new_floats(LANES)
    factor = splat(np.float32(_LOG2_E / np.sqrt(d_head)))
    for b in range(steps.first, steps.end):
        start, n = offsets[b] - steps.row, offsets[b + 1] - offsets[b]
        for i in range(0, n, LANES):
            real = _real_lanes(lanes, n - i)
            _fetch_pairs(x, gate + start, stride, relative, offsets[b], n, i, d_head, pairs, real)
            for h in range(shape.n_head):
                head = head_places(at, shape.d, shape.n_head, h, start, n, stride)
                keys, queries = Strided(x, head.k, 1, stride), Tile(x, head.q + i, stride)
                product_16(up_to_4(n), d_head, keys, queries, Tile(p, 0, LANES), SET)
                _add_products(x, head.q + i, stride, pairs.keys, n, d_head, p)
                top = load(p, 0)
                for j in range(1, n):
                    top = maximum(top, load(p, j * LANES))
                shift = top * factor
                weights = weighted_values(x, head, i, p, factor, shift)
                _add_weighted(x, head.o + i, stride, pairs.gated, n, d_head, p, splat(_ONE) / weights)
                if head.logs >= 0:
                    store(x, head.logs + i, shift + log(weights) * splat(_LOG2_E))


@kernel
def attend_tile_relative_backward(
    x: Any, at: Any, gate: int, given: Any, shape: Any, steps: Any, relative: Any, d_tables: Any, p: Any,
    ds: Any, scratch: Any,
) -> None:  # fmt: skip
    """Write the gradients of queries, keys, values and factors; add those of the tables to `d_tables`.

    `at` has what `attend_tile_relative` has written; `given`: `RelativeGradients`; `d_tables`: two arrays as
    the tables; `p`, `ds`: scratch of (longest + 16) * 16 each; `scratch`: of `pair_scratch` numbers.
    """
    d, d_head, stride, offsets = shape.d, shape.d // shape.n_head, steps.stride, steps.offsets
    pairs = _pair_memory(scratch, d_head, steps, relative)
    turned, lanes = new_floats(LANES * LANES), new_floats(LANES)
    for b in range(steps.first, steps.end):
        row, start, n = offsets[b], offsets[b] - steps.row, offsets[b + 1] - offsets[b]
        for i in range(0, n, LANES):
            real = _real_lanes(lanes, n - i)
            _fetch_pairs(x, gate + start, stride, relative, row, n, i, d_head, pairs, real)
            for h in range(shape.n_head):
                own = h * d_head * stride + start
                head = head_places(at, d, shape.n_head, h, start, n, stride)
                do, dq = given.d_out + own, given.d_qkv + own
                _slopes(x, head, do, i, pairs, real, p, ds)
                keys, slopes = Strided(x, head.k, stride, 1), Tile(ds, 0, LANES)
                product_16(d_head, n, keys, slopes, Tile(x, dq + i, stride), SET)
                _add_weighted(x, dq + i, stride, pairs.keys, n, d_head, ds, splat(_ONE))
                _keys_and_values(x, head, do, dq + d * stride, i, p, ds, turned)
                _add_outer(x, head.q + i, stride, ds, n, d_head, h, real, pairs.d_keys)
                _add_outer(x, do + i, stride, p, n, d_head, h, real, pairs.d_values)
            _gate_gradients(x, gate + start, given.d_gate + start, stride, n, d_head, pairs)
            add_to_lines(pairs.d_keys, pairs.key_lines, n, up_to_4(d_head), d_tables[0])
            add_to_lines(pairs.d_values, pairs.value_lines, n, up_to_4(d_head), d_tables[1])


@inlined
def _real_lanes(lanes: Any, queries: int) -> Any:
    """Return a vector that is above 0 in the first lanes; `lanes`: scratch of 16."""
    for lane in range(LANES):
        lanes[lane] = np.float32(queries - lane)
    return load(lanes, 0)


@inlined
def _slopes(x: Any, head: Any, do: int, i: int, pairs: Any, real: Any, p: Any, ds: Any) -> None:
    """Write p and ds of 16 queries from `i` and all keys; those of lanes beyond the last query are 0."""
    n, d_head, stride = head.n, head.d_head, head.stride
    scale = np.float32(1.0 / np.sqrt(d_head))
    scales, factors = splat(scale), splat(scale * _LOG2_E)
    queries, outer = Tile(x, head.q + i, stride), Tile(x, do + i, stride)
    product_16(up_to_4(n), d_head, Strided(x, head.k, 1, stride), queries, Tile(p, 0, LANES), SET)
    product_16(up_to_4(n), d_head, Strided(x, head.v, 1, stride), outer, Tile(ds, 0, LANES), SET)
    _add_products(x, head.q + i, stride, pairs.keys, n, d_head, p)
    _add_products(x, do + i, stride, pairs.gated, n, d_head, ds)
    mean = splat(_ZERO)
    for m in range(i, i + d_head * stride, stride):
        mean = mean + load(x, head.o + m) * load(x, do + m)
    logs = load(x, head.logs + i)
    for j in range(n):
        power = where_positive(real, exp2(load(p, j * LANES) * factors - logs))
        store(p, j * LANES, power)
        store(ds, j * LANES, where_positive(real, power * (load(ds, j * LANES) - mean) * scales))


@inlined
def _keys_and_values(x: Any, head: Any, do: int, dk: int, i: int, p: Any, ds: Any, turned: Any) -> None:
    """Add to the gradients of all keys at `dk`, and of values behind them, what 16 queries from `i` give."""
    n, d_head, stride = head.n, head.d_head, head.stride
    dv = dk + head.v - head.k
    queries, outer = Strided(x, head.q + i, stride, 1), Strided(x, do + i, stride, 1)
    mode, rest = SET if i == 0 else ADD, smaller(LANES, n - i)
    for j in range(0, n, LANES):
        transpose(p, j * LANES, LANES, turned, 0, LANES)
        product_16(d_head, rest, outer, Tile(turned, 0, LANES), Tile(x, dv + j, stride), mode)
        transpose(ds, j * LANES, LANES, turned, 0, LANES)
        product_16(d_head, rest, queries, Tile(turned, 0, LANES), Tile(x, dk + j, stride), mode)


@inlined
def _add_outer(
    x: Any, vectors: int, stride: int, y: Any, n: int, d_head: int, head: int, real: Any, out: Any
) -> None:
    """out[j, m] += y[j] vectors[m], of `real` lanes; the first head sets."""
    for m in range(d_head):
        v = where_positive(real, load(x, vectors + m * stride))
        for j in range(n):
            at = (j * up_to_4(d_head) + m) * LANES
            s = load(y, j * LANES) * v
            if head > 0:
                s = s + load(out, at)
            store(out, at, s)


@inlined
def _gate_gradients(x: Any, gate: int, d_gate: int, stride: int, n: int, d_head: int, pairs: Any) -> None:
    """Add the gradients of factors, and turn those of gated values into those of the values."""
    for j in range(n):
        for m in range(d_head):
            at = (j * up_to_4(d_head) + m) * LANES
            given = load(pairs.d_values, at)
            x[d_gate + m * stride + j] += total(given * load(pairs.values, at))
            store(pairs.d_values, at, given * splat(x[gate + m * stride + j]))
