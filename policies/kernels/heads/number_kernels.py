"""Numba kernels: the head of real numbers, normal distributions clipped to bounds or squashed between them.

An actor with row x has means μ = W x + b of K numbers u, with standard deviations σ = exp(λ) that depend on
nothing. In units of the bounds (see `GaussianHead`), with z = (u - μ) / σ,

    log π = Σ_k -z²/2 - λ - ½ log 2π (- log tanh′(u), squashed),    H = Σ_k λ + ½ + ½ log 2π (+ E log tanh′)

where log tanh′(u) = 2 (log 2 - u - softplus(-2u)), whose derivative is -2 tanh u, and E is the mean over
μ + σ ε with normal ε, by quadrature: Σ_q weights[q] log tanh′(μ + σ points[q]).

Backward, from a = ∂/∂ log π and h = ∂/∂ H of an actor:

    ∂/∂ μ = a z/σ (+ h E[-2 tanh]),    ∂/∂ λ = a (z² - 1) + h (+ h E[-2 tanh · σ ε])
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..tiles.actor_tiles import TILE, gather_rows, scatter_add_rows
from ..tiles.functions import exp, log
from ..tiles.linear_maps import Linear, linear, linear_backward, linear_gradients
from ..tiles.matrices import Floats, Line, Tile, up_to_4, up_to_16
from ..tiles.matrix_products import SET_BIAS, row_sums
from ..tiles.simd import LANES, inlined, kernel, load, maximum, smaller, splat, store
from ..tiles.tile_kernels import rows_to_tile

_ZERO, _HALF, _ONE, _TWO = (np.float32(number) for number in (0.0, 0.5, 1.0, 2.0))
_LOG_2 = np.float32(math.log(2))
_HALF_LOG_2_PI = np.float32(0.5 * math.log(2 * math.pi))


class NumberHead(NamedTuple):
    """A head of K real numbers: W (K, d), b (K,) and λ (K,) lie one after the other."""

    w: Floats  # all parameters
    start: int  # where W starts in `w`
    d: int
    size: int  # K
    squash: bool  # tanh instead of clipping
    points: Floats  # (Q,): ε of the quadrature
    weights: Floats  # (Q,)


class NumberBatch(NamedTuple):
    """The actors of one action, and their raw actions u."""

    rows: NDArray[np.int64]  # (A,): the row of each actor
    raw: Floats  # (A * K,)


class NumberPlaces(NamedTuple):
    """The start of each part of the scratch memory; tiles have lines of `TILE` actors."""

    gathered: int  # actors' rows, one after the other
    tile: int  # (d, TILE): the same rows, feature-major
    means: int  # (K, TILE), as are the next two
    raw: int
    gradients: int  # of the means
    log_probs: int  # (TILE,), as is the next; in backward their gradients a and h
    entropies: int
    d_scales: int  # (TILE,): gradients of one λ, by actor


def number_scratch(d: int, size: int) -> int:
    """Return the numbers of scratch memory `s` that the kernels below need."""
    return (2 * d + 3 * up_to_4(size) + 3) * TILE


@inlined
def log_slope(u: Any) -> Any:
    """Return log tanh′ per lane: 2 (log 2 - u - softplus(-2u)), without cancellation or overflow."""
    z = splat(-_TWO) * u
    size = maximum(z, splat(_ZERO) - z)
    softplus = maximum(z, splat(_ZERO)) + log(splat(_ONE) + exp(splat(_ZERO) - size))
    return splat(_TWO) * (splat(_LOG_2) - u - softplus)


@inlined
def tanh(u: Any) -> Any:
    """Return the hyperbolic tangent per lane."""
    return splat(_ONE) - splat(_TWO) / (splat(_ONE) + exp(splat(_TWO) * u))


@inlined
def number_places(head: Any) -> NumberPlaces:
    padded = up_to_4(head.size) * TILE
    tile = head.d * TILE
    means = tile + head.d * TILE
    raw = means + padded
    gradients = raw + padded
    lines = gradients + padded
    return NumberPlaces(0, tile, means, raw, gradients, lines, lines + TILE, lines + 2 * TILE)


@inlined
def _number_map(head: Any) -> Linear:
    return Linear(head.w, head.start, head.start + head.size * head.d, head.size, head.d)


@inlined
def _log_deviations(head: Any) -> int:
    """Return where λ starts in `w`."""
    return head.start + head.size * (head.d + 1)


@kernel
def _means(head: Any, rows: Any, x: Any, start: int, count: int, s: Any) -> None:
    """Write the means of `count` actors from `start` to their place in `s`."""
    at = number_places(head)
    tile = Tile(s, at.tile, TILE)
    gather_rows(x, rows, start, count, head.d, Line(s, at.gathered), tile)
    linear(_number_map(head), tile, Tile(s, at.means, TILE), up_to_16(count), SET_BIAS)


@kernel
def mean_numbers(head: Any, rows: Any, x: Any, first: int, last: int, means: Any, s: Any) -> None:
    """Write the means (A * K,) of actors first to last, whose rows (A,) are in x (N * d,).

    `s`: `number_scratch`.
    """
    at = number_places(head)
    for start in range(first, last, TILE):
        count = smaller(TILE, last - start)
        _means(head, rows, x, start, count, s)
        for i in range(count):
            for k in range(head.size):
                means[(start + i) * head.size + k] = s[at.means + k * TILE + i]


@kernel
def evaluate_numbers(
    head: Any, batch: Any, x: Any, first: int, last: int, log_probs: Any, entropies: Any, s: Any
) -> int:
    """Write log π and H (A,) of actors first to last, whose rows are in x (N * d,).

    `s`: `number_scratch`. Returns -1: every finite number is allowed.
    """
    at, size, scales = number_places(head), head.size, _log_deviations(head)
    for start in range(first, last, TILE):
        count = smaller(TILE, last - start)
        _means(head, batch.rows, x, start, count, s)
        rows_to_tile(batch.raw, start, count, size, Tile(s, at.raw, TILE))
        for t in range(0, up_to_16(count), LANES):
            log_prob, entropy = splat(_ZERO), splat(_ZERO)
            for k in range(size):
                scale = head.w[scales + k]
                mean, value = load(s, at.means + k * TILE + t), load(s, at.raw + k * TILE + t)
                z = (value - mean) * exp(splat(-scale))
                log_prob = log_prob - splat(_HALF) * z * z - splat(scale + _HALF_LOG_2_PI)
                entropy = entropy + splat(scale + _HALF + _HALF_LOG_2_PI)
                if head.squash:
                    log_prob = log_prob - log_slope(value)
                    sigma = exp(splat(scale))
                    for q in range(len(head.points)):
                        slope = log_slope(mean + sigma * splat(head.points[q]))
                        entropy = entropy + splat(head.weights[q]) * slope
            store(s, at.log_probs + t, log_prob)
            store(s, at.entropies + t, entropy)
        for i in range(count):
            log_probs[start + i], entropies[start + i] = s[at.log_probs + i], s[at.entropies + i]
    return -1


@inlined
def _number_gradients(head: Any, k: int, columns: int, s: Any) -> None:
    """Write the gradients of number k by mean and by λ, from the lines of a and h in `s`."""
    at, scale = number_places(head), head.w[_log_deviations(head) + k]
    for t in range(0, columns, LANES):
        mean, given, bonus = (
            load(s, at.means + k * TILE + t),
            load(s, at.log_probs + t),
            load(s, at.entropies + t),
        )
        inverse = exp(splat(-scale))
        z = (load(s, at.raw + k * TILE + t) - mean) * inverse
        of_mean = given * z * inverse
        of_scale = given * (z * z - splat(_ONE)) + bonus
        if head.squash:
            sigma = exp(splat(scale))
            slope, turned = splat(_ZERO), splat(_ZERO)
            for q in range(len(head.points)):
                step = sigma * splat(head.points[q])
                change = splat(-_TWO * head.weights[q]) * tanh(mean + step)
                slope = slope + change
                turned = turned + change * step
            of_mean = of_mean + bonus * slope
            of_scale = of_scale + bonus * turned
        store(s, at.gradients + k * TILE + t, of_mean)
        store(s, at.d_scales + t, of_scale)


@kernel
def numbers_backward(
    head: Any, batch: Any, x: Any, first: int, last: int, d_log_probs: Any, d_entropies: Any, d_x: Any,
    g: Any, s: Any,
) -> None:  # fmt: skip
    """Add the gradients of the rows to `d_x` (N * d,), and of W, b and λ to `g` where `w` has them.

    Arguments as in `evaluate_numbers`; d a multiple of 4. `g` has 4 d numbers or more behind the head's.
    """
    at, size, layer, scales = number_places(head), head.size, _number_map(head), _log_deviations(head)
    for start in range(first, last, TILE):
        count = smaller(TILE, last - start)
        columns = up_to_16(count)
        _means(head, batch.rows, x, start, count, s)
        rows_to_tile(batch.raw, start, count, size, Tile(s, at.raw, TILE))
        for i in range(count):
            s[at.log_probs + i], s[at.entropies + i] = d_log_probs[start + i], d_entropies[start + i]
        for i in range(count, columns):
            s[at.log_probs + i], s[at.entropies + i] = _ZERO, _ZERO
        for k in range(size):
            _number_gradients(head, k, columns, s)
            row_sums(1, Tile(s, at.d_scales, TILE), columns, Line(g, scales + k))
        for k in range(size, up_to_4(size)):
            for t in range(0, columns, LANES):
                store(s, at.gradients + k * TILE + t, splat(_ZERO))
        gradients, tile = Tile(s, at.gradients, TILE), Tile(s, at.tile, TILE)
        linear_gradients(layer, gradients, tile, columns, g)
        linear_backward(layer, gradients, tile, columns)
        scatter_add_rows(tile, d_x, batch.rows, start, count, head.d, Line(s, at.gathered))
