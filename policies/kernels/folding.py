"""Numba kernels: layer norms' scale g and shift h, folded into the linear map W, b that follows.

With the normalized x̂,

    W (g x̂ + h) + b = W' x̂ + b',    W' = W diag(g),    b' = b + W h

so gradients arrive for W', b' and are taken apart at the end (`unfold`):

    dW = dW' diag(g) + db' hᵀ,    db = db',    dg_k = Σ_m dW'_mk W_mk,    dh_k = Σ_m db'_m W_mk
"""

from __future__ import annotations

from typing import Any

from .block_kernels import block_parameters
from .tiles.linear_maps import Linear
from .tiles.simd import kernel


@kernel
def _fold_one(w: Any, folded: Any, scale: int, layer: Any) -> None:
    """Fold the scale and shift at `scale` into the `Linear` map that follows."""
    d = layer.inputs
    for m in range(layer.outputs):
        total = w[layer.bias + m]
        for k in range(d):
            value = w[layer.weight + m * d + k]
            folded[layer.weight + m * d + k] = value * w[scale + k]
            total += value * w[scale + d + k]
        folded[layer.bias + m] = total


@kernel
def fold(w: Any, folded: Any, layers: int, d: int) -> None:
    """Write the folded parameters of all layers over `folded`, a copy of `w`."""
    start = 0
    for _ in range(layers):
        at = block_parameters(start, d)
        _fold_one(w, folded, at.norm1_scale, Linear(w, at.qkv_weight, at.qkv_bias, 3 * d, d))
        _fold_one(w, folded, at.norm2_scale, Linear(w, at.up_weight, at.up_bias, 4 * d, d))
        start = at.end


@kernel
def _unfold_one(w: Any, g: Any, scale: int, layer: Any) -> None:
    """Take apart the gradients of a folded `Linear` map."""
    d = layer.inputs
    for m in range(layer.outputs):
        db = g[layer.bias + m]
        for k in range(d):
            i = layer.weight + m * d + k
            dw = g[i]
            g[scale + k] += dw * w[i]
            g[scale + d + k] += db * w[i]
            g[i] = dw * w[scale + k] + db * w[scale + d + k]


@kernel
def unfold(w: Any, g: Any, layers: int, d: int) -> None:
    """Turn gradients `g` of the folded parameters into those of the parameters `w`, in place."""
    start = 0
    for _ in range(layers):
        at = block_parameters(start, d)
        _unfold_one(w, g, at.norm1_scale, Linear(w, at.qkv_weight, at.qkv_bias, 3 * d, d))
        _unfold_one(w, g, at.norm2_scale, Linear(w, at.up_weight, at.up_bias, 4 * d, d))
        start = at.end
