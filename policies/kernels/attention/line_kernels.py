"""Micro-kernels that fetch lines of a table for 16 pairs, a feature per vector, and add vectors to lines.

The pairs of a vector have lines anywhere in the table. A line is a few neighbouring numbers, so it is loaded
as a short vector, and shuffles put the features of 16 lines into a vector each: about half of the time of
gathers, number by number. Lines are 16, 8 or 4 features wide at a time; `up_to_4` numbers apart.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from ..tiles.simd import (
    FLAGS,
    FLOAT,
    INT32,
    INT64,
    LANES,
    constant,
    data_pointer,
    intrinsic,
    kernel,
    load_vector,
    store_vector,
    transpose_vectors,
)

_I64 = types.int64


def _lanes(indices: list[int]) -> Any:
    return ir.Constant(ir.VectorType(INT32, len(indices)), indices)


def _line_pointers(builder: Any, table: Any, lines: Any, at: Any, width: Any, first: Any, size: int) -> Any:
    """Pointers to `size` features of the lines of 16 pairs, from the feature `first` on."""
    pointer = ir.VectorType(FLOAT, size).as_pointer()
    result = []
    for lane in range(LANES):
        number = builder.load(builder.gep(lines, [builder.add(at, constant(lane))]))
        place = builder.add(builder.mul(builder.fptosi(number, INT64), width), first)
        result.append(builder.bitcast(builder.gep(table, [place]), pointer))
    return result


def _joined(builder: Any, parts: list[Any]) -> Any:
    """One vector from several of half, a quarter, … of the size."""
    while len(parts) > 1:
        size = parts[0].type.count
        parts = [
            builder.shuffle_vector(a, b, _lanes(list(range(2 * size))))
            for a, b in zip(parts[::2], parts[1::2], strict=True)
        ]
    return parts[0]


def _fetch(size: int) -> Any:
    """out[at_out + m, lane] = table[line of the lane, first + m], m < size; `out` has lines of 16."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _, _, at, width, first, _, at_out = args
        table, lines, out = (data_pointer(context, builder, signature.args[i], args[i]) for i in (0, 1, 5))
        found = []
        for pointer in _line_pointers(builder, table, lines, at, width, first, size):
            line = builder.load(pointer)
            line.align = 4
            found.append(line)
        vectors = transpose_vectors(builder, [_joined(builder, found[r::size]) for r in range(size)])
        for m, vector in enumerate(vectors):
            place = builder.mul(builder.add(at_out, constant(m)), constant(LANES))
            store_vector(builder, vector, out, place)
        return context.get_dummy_value()

    @intrinsic
    def fetch(
        context: Any, table: Any, lines: Any, at: Any, width: Any, first: Any, out: Any, at_out: Any
    ) -> Any:
        return types.void(table, lines, _I64, _I64, _I64, out, _I64), generate

    return fetch


def _add(size: int) -> Any:
    """table[line of the lane, first + m] += given[at_given + m, lane], m < size."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _, at_given, _, at, width, first, _ = args
        given, lines, table = (data_pointer(context, builder, signature.args[i], args[i]) for i in (0, 2, 6))
        vectors = [
            load_vector(builder, given, builder.mul(builder.add(at_given, constant(m)), constant(LANES)))
            for m in range(size)
        ]
        vectors = transpose_vectors(builder, vectors)
        pointers = _line_pointers(builder, table, lines, at, width, first, size)
        for lane, pointer in enumerate(pointers):
            vector, start = vectors[lane % size], lane // size * size
            part = builder.shuffle_vector(vector, vector, _lanes(list(range(start, start + size))))
            old = builder.load(pointer)
            old.align = 4
            builder.store(builder.fadd(old, part, flags=FLAGS), pointer).align = 4
        return context.get_dummy_value()

    @intrinsic
    def add(
        context: Any, given: Any, at_given: Any, lines: Any, at: Any, width: Any, first: Any, table: Any
    ) -> Any:
        return types.void(given, _I64, lines, _I64, _I64, _I64, table), generate

    return add


_fetch_16, _fetch_8, _fetch_4 = (_fetch(size) for size in (16, 8, 4))
_add_16, _add_8, _add_4 = (_add(size) for size in (16, 8, 4))


@kernel
def fetch_lines(table: Any, lines: Any, n: int, width: int, out: Any) -> None:
    """out[j, m, lane] = table[lines[j, lane], m], j < n, m < width; `width`: a multiple of 4."""
    for j in range(n):
        m, at = 0, j * LANES
        while m + 16 <= width:
            _fetch_16(table, lines, at, width, m, out, j * width + m)
            m += 16
        if m + 8 <= width:
            _fetch_8(table, lines, at, width, m, out, j * width + m)
            m += 8
        if m < width:
            _fetch_4(table, lines, at, width, m, out, j * width + m)


@kernel
def add_to_lines(given: Any, lines: Any, n: int, width: int, table: Any) -> None:
    """table[lines[j, lane], m] += given[j, m, lane], j < n, m < width; `width`: a multiple of 4."""
    for j in range(n):
        m, at = 0, j * LANES
        while m + 16 <= width:
            _add_16(given, j * width + m, lines, at, width, m, table)
            m += 16
        if m + 8 <= width:
            _add_8(given, j * width + m, lines, at, width, m, table)
            m += 8
        if m < width:
            _add_4(given, j * width + m, lines, at, width, m, table)
