"""Numba kernels: the factors of relative values, from the rows that are looked at, forward and backward.

With the normalized rows x̂ of a block, its first layer norm's scale γ and shift β, and a projection that all
blocks share,

    g = f(W y + b),    y = γ x̂ + β

where f is one of `GATES`. Folding γ and β into W, as `block_kernels` does with a map of the block's own,
would need a copy of W for each block.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .tiles.functions import exp
from .tiles.linear_maps import Linear, linear, linear_backward, linear_gradients
from .tiles.matrices import Tile, up_to_4
from .tiles.matrix_products import SET_BIAS
from .tiles.simd import LANES, inlined, kernel, load, maximum, splat, store, total, where_positive
from .tiles.tile_kernels import clear_columns, gelu_with_slope, multiply

#: The activations of `RelativePosition.value_gate`; without one the factors are 1.
GATES = (None, "linear", "relu", "gelu", "sigmoid")
_NO_GATE, _LINEAR, _RELU, _GELU = range(4)

_ZERO = np.float32(0.0)
_ONE = np.float32(1.0)


class GateTiles(NamedTuple):
    """The start of the gate's parts in a tile's workspace."""

    y: int  # d lines
    gate: int  # d_head lines, and up to 3 lines of zeros, as the next two
    slope: int
    d_gate: int
    d_y: int  # d lines


@inlined
def gate_lines(d: int, d_head: int) -> int:
    """Return the lines of `GateTiles`."""
    return 2 * d + 3 * up_to_4(d_head)


@inlined
def gate_tiles(start: int, d: int, d_head: int, stride: int) -> GateTiles:
    """Return the places of `GateTiles` from `start` on."""
    gate, room = start + d * stride, up_to_4(d_head) * stride
    return GateTiles(start, gate, gate + room, gate + 2 * room, gate + 3 * room)


@kernel
def gate_forward(
    w: Any, scale: int, relative: Any, shape: Any, s: Any, normal: int, tiles: Any, steps: Any
) -> None:
    """Write y, the factors g and their slopes.

    `scale`: where the layer norm's scale and shift (d,) lie in `w`; `normal`: where x̂ lies in `s`;
    `relative`: `RelativeTables`.
    """
    d, d_head, stride, columns = shape.d, shape.d // shape.n_head, steps.stride, steps.columns
    gate = Tile(s, tiles.gate, stride)
    if relative.gate == _NO_GATE:
        _fill(gate, d_head, columns)
        return
    for m in range(d):
        factor, shift = splat(w[scale + m]), splat(w[scale + d + m])
        for t in range(m * stride, m * stride + columns, LANES):
            store(s, tiles.y + t, load(s, normal + t) * factor + shift)
    projection = Linear(w, relative.gate_weight, relative.gate_bias, d_head, d)
    linear(projection, Tile(s, tiles.y, stride), gate, columns, SET_BIAS)
    _activate(relative.gate, gate, Tile(s, tiles.slope, stride), d_head, columns)


@kernel
def gate_backward(
    w: Any,
    scale: int,
    g: Any,
    relative: Any,
    shape: Any,
    s: Any,
    normal: int,
    tiles: Any,
    steps: Any,
    dx: int,
) -> None:
    """Add the gradients of the projection, and of the layer norm's scale and shift, to `g`; add that of x̂ at
    `dx`. `tiles.d_gate` has the gradients of the factors."""
    if relative.gate == _NO_GATE:
        return
    d, d_head, stride, columns = shape.d, shape.d // shape.n_head, steps.stride, steps.columns
    d_gate = Tile(s, tiles.d_gate, stride)
    multiply(d_gate, Tile(s, tiles.slope, stride), d_head, columns)
    projection = Linear(w, relative.gate_weight, relative.gate_bias, d_head, d)
    linear_gradients(projection, d_gate, Tile(s, tiles.y, stride), columns, g)
    linear_backward(projection, d_gate, Tile(s, tiles.d_y, stride), columns)
    for m in range(d):
        factor, d_scale, d_shift = splat(w[scale + m]), splat(_ZERO), splat(_ZERO)
        for t in range(m * stride, m * stride + columns, LANES):
            given = load(s, tiles.d_y + t)
            d_scale = d_scale + given * load(s, normal + t)
            d_shift = d_shift + given
            store(s, dx + t, load(s, dx + t) + given * factor)
        g[scale + m] += total(d_scale)
        g[scale + d + m] += total(d_shift)


@inlined
def clear_gate_gradients(s: Any, tiles: Any, d_head: int, steps: Any) -> None:
    """Zero the gradients of the factors, and the lines behind them."""
    clear_columns(Tile(s, tiles.d_gate, steps.stride), up_to_4(d_head), 0, steps.columns)


@kernel
def _fill(gate: Any, lines: int, columns: int) -> None:
    for m in range(lines):
        for t in range(0, columns, LANES):
            store(gate.data, gate.start + m * gate.stride + t, splat(_ONE))


@kernel
def _activate(kind: int, gate: Any, slope: Any, lines: int, columns: int) -> None:
    """gate = f(gate), and the derivative."""
    if kind == _GELU:
        gelu_with_slope(gate, gate, slope, lines, columns)
        return
    for m in range(lines):
        for t in range(0, columns, LANES):
            v = load(gate.data, gate.start + m * gate.stride + t)
            y, dy = v, splat(_ONE)
            if kind == _RELU:
                y, dy = maximum(v, splat(_ZERO)), where_positive(v, splat(_ONE))
            elif kind != _LINEAR:
                y = splat(_ONE) / (splat(_ONE) + exp(splat(_ZERO) - v))
                dy = y * (splat(_ONE) - y)
            store(gate.data, gate.start + m * gate.stride + t, y)
            store(slope.data, slope.start + m * slope.stride + t, dy)
