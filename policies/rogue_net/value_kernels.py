"""Numba kernels: the value head, v = w·(mean of the step's rows) + b; b for a step without rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from .simd import kernel

_ZERO = np.float32(0.0)


@kernel
def evaluate_values(
    x: Any, offsets: Any, first: int, last: int, d: int, w: Any, w0: int, values: Any, s: Any
) -> None:
    """The values (B,) of steps first to last; rows x (N * d,), w and b from `w0` in `w`; `s`: d numbers."""
    for b in range(first, last):
        for m in range(d):
            s[m] = _ZERO
        for row in range(offsets[b] * d, offsets[b + 1] * d, d):
            for m in range(d):
                s[m] += x[row + m]
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
    for b in range(first, last):
        g[w0 + d] += d_values[b]
        if offsets[b + 1] == offsets[b]:
            continue
        factor = d_values[b] / np.float32(offsets[b + 1] - offsets[b])
        for m in range(d):
            s[m] = _ZERO
        for row in range(offsets[b] * d, offsets[b + 1] * d, d):
            for m in range(d):
                s[m] += x[row + m]
                d_x[row + m] = factor * w[w0 + m]
        for m in range(d):
            g[w0 + m] += factor * s[m]
