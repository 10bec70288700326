"""Matrices inside flat float32 arrays, as NamedTuples that kernels take; and their fields inside intrinsics.

A `Tile` (or a row-major matrix) has lines of neighbouring numbers, a `Strided` matrix any steps between its
numbers (so that a transposed one needs no copy), a `Line` is a single line. They are made where they are used
and cost nothing: the compiler keeps their fields in registers.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from .simd import LANES, data_pointer, inlined, is_flat_float32

Floats = NDArray[np.float32]


class Line(NamedTuple):
    """Neighbouring numbers: number m is data[start + m]."""

    data: Floats
    start: int


class Tile(NamedTuple):
    """A matrix of lines `stride` apart: number (m, t) is data[start + m * stride + t].

    In a feature-major tile line m is feature m, and column t is row (entity) t.
    """

    data: Floats
    start: int
    stride: int


class Strided(NamedTuple):
    """A matrix with any steps: number (m, k) is data[start + m * row + k * column]."""

    data: Floats
    start: int
    row: int
    column: int


@inlined
def up_to_4(number: int) -> int:
    """Return the next multiple of 4: `outer_sums` takes 4 lines at a time."""
    return (number + 3) // 4 * 4


@inlined
def up_to_16(number: int) -> int:
    """Return the next multiple of 16, the lanes of a vector."""
    return (number + LANES - 1) // LANES * LANES


def fields(context: Any, builder: Any, kind: Any, value: Any) -> SimpleNamespace:
    """The fields of a NamedTuple inside an intrinsic; arrays as pointers to their data."""
    parts = SimpleNamespace()
    for i, (name, field_type) in enumerate(zip(kind.fields, kind.types, strict=True)):
        part = builder.extract_value(value, i)
        is_array = isinstance(field_type, types.Array)
        setattr(parts, name, data_pointer(context, builder, field_type, part) if is_array else part)
    return parts


def is_matrix(kind: Any) -> bool:
    """Return True for a `Line`, `Tile` or `Strided` of contiguous float32: other memory would be misread."""
    return isinstance(kind, types.NamedTuple) and is_flat_float32(kind.types[0])
