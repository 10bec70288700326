"""Numba kernels: the value head.

With the mean x̄ of a step's n rows (0 for a step without rows) and given ∂/∂v,

    v = u·x̄ + b,    dxᵢ = ∂v u / n,    du = ∂v x̄,    db = ∂v
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..tiles.matrices import Floats
from ..tiles.simd import LANES, kernel, larger, load, splat, store

_ZERO = np.float32(0.0)


class ValueMap(NamedTuple):
    """The parameters of the value head: u (d,) and b lie one after the other."""

    w: Floats  # all parameters
    start: int  # where u starts in `w`
    d: int


@kernel
def _sum_rows(x: Any, first: int, stop: int, d: int, s: Any) -> None:
    """s[m] = Σ x[i, m] over rows first to stop of x (N * d,), m < d."""
    full = d - d % LANES
    for m in range(0, full, LANES):
        total = splat(_ZERO)
        for at in range(first * d + m, stop * d, d):
            total = total + load(x, at)
        store(s, m, total)
    for m in range(full, d):
        s[m] = _ZERO
        for at in range(first * d + m, stop * d, d):
            s[m] += x[at]


@kernel
def evaluate_values(head: Any, x: Any, offsets: Any, first: int, last: int, values: Any, s: Any) -> None:
    """Write the values (B,) of steps first to last, whose rows x (N * d,) start at `offsets` (B + 1,).

    `s`: scratch of d numbers.
    """
    for b in range(first, last):
        _sum_rows(x, offsets[b], offsets[b + 1], head.d, s)
        total = _ZERO
        for m in range(head.d):
            total += s[m] * head.w[head.start + m]
        bias = head.w[head.start + head.d]
        values[b] = total / np.float32(larger(1, offsets[b + 1] - offsets[b])) + bias


@kernel
def values_backward(
    head: Any, x: Any, offsets: Any, first: int, last: int, d_values: Any, d_x: Any, g: Any, s: Any
) -> None:
    """Write the gradients of the rows to `d_x` (N * d,); add those of u and b to `g` where `w` has them."""
    d, w, start = head.d, head.w, head.start
    full = d - d % LANES
    for b in range(first, last):
        g[start + d] += d_values[b]
        if offsets[b + 1] == offsets[b]:
            continue
        factor = d_values[b] / np.float32(offsets[b + 1] - offsets[b])
        _sum_rows(x, offsets[b], offsets[b + 1], d, s)
        begin, stop = offsets[b] * d, offsets[b + 1] * d
        for m in range(0, full, LANES):
            change = load(w, start + m) * splat(factor)
            for at in range(begin + m, stop, d):
                store(d_x, at, change)
        for m in range(full, d):
            for at in range(begin + m, stop, d):
                d_x[at] = factor * w[start + m]
        for m in range(d):
            g[start + m] += factor * s[m]
