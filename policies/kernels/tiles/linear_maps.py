"""Numba kernels: linear maps of the columns of a tile, forward and backward.

For y = W x + b with a gradient dy of every column t:

    dx = Wᵀ dy,    dW = dy xᵀ,    db = Σₜ dyₜ
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .matrices import Floats, Line, Strided, Tile, up_to_4
from .matrix_products import SET, outer_sums, product, row_sums
from .simd import kernel


class Linear(NamedTuple):
    """A linear map y = W x + b of columns, whose parameters lie in the flat array `w`."""

    w: Floats
    weight: int  # where W (outputs, inputs) starts, row by row
    bias: int  # where b (outputs,) starts
    outputs: int
    inputs: int


@kernel
def linear(layer: Any, x: Any, y: Any, columns: int, mode: int) -> None:
    """y = W x + b (mode SET_BIAS) or y += W x + b (ADD_BIAS)."""
    weight = Strided(layer.w, layer.weight, layer.inputs, 1)
    product(layer.outputs, layer.inputs, weight, x, y, columns, mode, Line(layer.w, layer.bias))


@kernel
def linear_backward(layer: Any, dy: Any, dx: Any, columns: int) -> None:
    """dx = Wᵀ dy"""
    transposed = Strided(layer.w, layer.weight, 1, layer.inputs)
    product(layer.inputs, layer.outputs, transposed, dy, dx, columns, SET, Line(layer.w, 0))


@kernel
def linear_gradients(layer: Any, dy: Any, x: Any, columns: int, g: Any) -> None:
    """Add dW = dy xᵀ and db = Σₜ dyₜ to the flat array `g`, at the places that W and b have in `w`.

    `inputs` must be a multiple of 4. Where `outputs` is none, `dy` has lines of zeros up to the next one, and
    `g` has 3 inputs numbers or more behind W.
    """
    outer_sums(up_to_4(layer.outputs), layer.inputs, dy, x, columns, Tile(g, layer.weight, layer.inputs))
    row_sums(layer.outputs, dy, columns, Line(g, layer.bias))
