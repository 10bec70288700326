"""Numba kernels over many tensors at once, which come as memory addresses (K,) and sizes (K,).

A minibatch of a small network takes a few milliseconds, and every torch call on each of its forty parameters
takes some microseconds: norm, clipping and AdamW in torch were a seventh of the update.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...policies.kernels.tiles.simd import floats_at, kernel


def are_plain(tensors: Iterable[Tensor]) -> bool:
    """Return True if kernels can read `tensors` in place: float32, contiguous, on the CPU."""
    return all(t.dtype is torch.float32 and t.is_cpu and t.is_contiguous() for t in tensors)


def addresses(tensors: Sequence[Tensor]) -> NDArray[np.int64]:
    """Return the addresses of the tensors (K,); read them at every use, because tensors may move."""
    return np.array([tensor.data_ptr() for tensor in tensors], np.int64)


def sizes(tensors: Sequence[Tensor]) -> NDArray[np.int64]:
    """Return the sizes of the tensors (K,)."""
    return np.array([tensor.numel() for tensor in tensors], np.int64)


@kernel
def sum_of_squares(places: Any, counts: Any) -> float:
    """Over all numbers; not finite if one of them is not."""
    total = 0.0
    for k in range(len(places)):
        numbers = floats_at(places[k], counts[k])
        part: Any = 0.0
        for i in range(len(numbers)):
            part += np.float64(numbers[i]) * np.float64(numbers[i])
        total += part
    return total


@kernel
def multiply(places: Any, counts: Any, factor: float) -> None:
    """All numbers by `factor`, in place."""
    for k in range(len(places)):
        numbers = floats_at(places[k], counts[k])
        for i in range(len(numbers)):
            numbers[i] *= np.float32(factor)


@kernel
def adamw(
    weights: Any, gradients: Any, means: Any, squares: Any, steps: Any, counts: Any,
    rate: float, beta1: float, beta2: float, eps: float, decay: float,
) -> None:  # fmt: skip
    """One step of AdamW (Loshchilov and Hutter 2019, arXiv:1711.05101) for each of K tensors.

        w ← (1 − rate decay) w;   m ← β₁ m + (1 − β₁) g;   v ← β₂ v + (1 − β₂) g²
        w ← w − rate / (1 − β₁ᵗ) · m / (√v / √(1 − β₂ᵗ) + eps)

    `steps` are the addresses of t, one float32 each, which is raised first.
    """
    keep, blend1, blend2 = np.float32(1 - rate * decay), np.float32(1 - beta1), np.float32(1 - beta2)
    for k in range(len(weights)):
        step = floats_at(steps[k], 1)
        step[0] += np.float32(1)
        size = np.float32(rate / (1 - beta1 ** np.float64(step[0])))
        root = np.float32(1 / math.sqrt(1 - beta2 ** np.float64(step[0])))
        w, g = floats_at(weights[k], counts[k]), floats_at(gradients[k], counts[k])
        m, v = floats_at(means[k], counts[k]), floats_at(squares[k], counts[k])
        for i in range(counts[k]):
            m[i] += blend1 * (g[i] - m[i])
            v[i] = np.float32(beta2) * v[i] + blend2 * g[i] * g[i]
            w[i] = keep * w[i] - size * m[i] / (np.float32(math.sqrt(v[i])) * root + np.float32(eps))
