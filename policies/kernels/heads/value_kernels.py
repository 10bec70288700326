"""Numba kernels: the value head, v = w·(mean of the step's rows) + b; b for a step without rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..tiles.simd import LANES, kernel, load, splat, store

_ZERO = np.float32(0.0)


@kernel
def _sum_rows(x: Any, first: int, stop: int, d: int, s: Any) -> None:
    """s[m] = the sum over rows first to stop of x (N * d,), m < d."""
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
def evaluate_values(
    x: Any, offsets: Any, first: int, last: int, d: int, w: Any, w0: int, values: Any, s: Any
) -> None:
    """The values (B,) of steps first to last; rows x (N * d,), w and b from `w0` in `w`; `s`: d numbers."""
    for b in range(first, last):
        _sum_rows(x, offsets[b], offsets[b + 1], d, s)
        total = _ZERO
        for m in range(d):
            total += s[m] * w[w0 + m]
        values[b] = total / np.float32(max(1, offsets[b + 1] - offsets[b])) + w[w0 + d]


@kernel
def values_backward(
    x: Any, offsets: Any, first: int, last: int, d: int, w: Any, w0: int, d_values: Any, d_x: Any, g: Any,
    s: Any,
) -> None:  # fmt: skip
    """Write the gradients of the rows to `d_x` (N * d,); add those of w and b to `g` where `w` has them."""
    full = d - d % LANES
    for b in range(first, last):
        g[w0 + d] += d_values[b]
        if offsets[b + 1] == offsets[b]:
            continue
        factor = d_values[b] / np.float32(offsets[b + 1] - offsets[b])
        _sum_rows(x, offsets[b], offsets[b + 1], d, s)
        start, stop = offsets[b] * d, offsets[b + 1] * d
        for m in range(0, full, LANES):
            change = load(w, w0 + m) * splat(factor)
            for at in range(start + m, stop, d):
                store(d_x, at, change)
        for m in range(full, d):
            for at in range(start + m, stop, d):
                d_x[at] = factor * w[w0 + m]
        for m in range(d):
            g[w0 + m] += factor * s[m]
