"""Numba kernels: the head of real numbers, normal distributions clipped to bounds or squashed between them.

An actor with row x has means μ = W x + b of K numbers u, with standard deviations σ = exp(λ) that depend on
nothing. In units of the bounds (`GaussianHead` tells which), with z = (u - μ) / σ,

    log π = Σ_k -z²/2 - λ - ½ log 2π (- log tanh′(u), squashed),    H = Σ_k λ + ½ + ½ log 2π (+ E log tanh′)

where log tanh′(u) = 2 (log 2 - u - softplus(-2u)), whose derivative is -2 tanh u, and E is the mean over
μ + σ ε with normal ε, by quadrature: Σ_q weights[q] log tanh′(μ + σ points[q]).

Backward, from a = ∂/∂ log π and h = ∂/∂ H of an actor:

    ∂/∂ μ = a z/σ (+ h E[-2 tanh]),    ∂/∂ λ = a (z² - 1) + h (+ h E[-2 tanh · σ ε])
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....ragged.compiled import compiled
from ..tiles.actor_tiles import TILE, give_rows, take_rows, up_to_4
from ..tiles.products import SET, SET_BIAS, outer_sums, product, row_sums
from ..tiles.simd import LANES, exp, kernel, load, log, maximum, splat, store
from ..tiles.tile_kernels import rows_to_tile

_ZERO, _HALF, _ONE, _TWO = (np.float32(number) for number in (0.0, 0.5, 1.0, 2.0))
_LOG_2 = np.float32(math.log(2))
_HALF_LOG_2_PI = np.float32(0.5 * math.log(2 * math.pi))


def number_scratch(d: int, numbers: int) -> int:
    """Numbers of scratch memory for the kernels below."""
    return (2 * d + 3 * up_to_4(numbers) + 3) * TILE


@compiled(cache=False, forceinline=True)
def log_slope(u: Any) -> Any:
    """log tanh′ per lane: 2 (log 2 - u - softplus(-2u)), in the form that neither cancels nor overflows."""
    z = splat(-_TWO) * u
    size = maximum(z, splat(_ZERO) - z)
    softplus = maximum(z, splat(_ZERO)) + log(splat(_ONE) + exp(splat(_ZERO) - size))
    return splat(_TWO) * (splat(_LOG_2) - u - softplus)


@compiled(cache=False, forceinline=True)
def tanh(u: Any) -> Any:
    """The hyperbolic tangent per lane."""
    return splat(_ONE) - splat(_TWO) / (splat(_ONE) + exp(splat(_TWO) * u))


@kernel
def _places(d: int, numbers: int) -> tuple[int, ...]:
    """Where in the scratch memory lie: actors' rows, their tile, means, u, gradients, and three lines."""
    padded = (numbers + 3) // 4 * 4
    tile = d * TILE
    means = tile + d * TILE
    drawn = means + padded * TILE
    gradients = drawn + padded * TILE
    return 0, tile, means, drawn, gradients, gradients + padded * TILE


@kernel
def _means(
    x: Any, rows: Any, start: int, count: int, columns: int, d: int, w: Any, w0: int, numbers: int, s: Any
) -> None:
    """The means of a tile of actors, at their place in `s`."""
    line, tile, means, _, _, _ = _places(d, numbers)
    take_rows(x, rows, start, count, d, s, line, tile, TILE)
    product(numbers, d, w, w0, d, 1, s, tile, TILE, s, means, TILE, columns, SET_BIAS, w, w0 + numbers * d)


@kernel
def mean_numbers(
    x: Any, rows: Any, first: int, last: int, d: int, w: Any, w0: int, numbers: int, means: Any, s: Any
) -> None:
    """The means (A * K,) of actors first to last.

    x (N * d,) holds the rows, rows (A,) says which are the actors'; W (K, d), b and λ lie from `w0` in `w`;
    `s`: `number_scratch`.
    """
    at = _places(d, numbers)[2]
    for start in range(first, last, TILE):
        count = min(TILE, last - start)
        columns = (count + LANES - 1) // LANES * LANES
        _means(x, rows, start, count, columns, d, w, w0, numbers, s)
        for i in range(count):
            for k in range(numbers):
                means[(start + i) * numbers + k] = s[at + k * TILE + i]


@kernel
def evaluate_numbers(
    x: Any, rows: Any, first: int, last: int, d: int, w: Any, w0: int, numbers: int, squash: bool,
    points: Any, weights: Any, drawn: Any, log_probs: Any, entropies: Any, s: Any,
) -> None:  # fmt: skip
    """log π and H (A,) of actors first to last, who drew `drawn` (A * K,); points and weights (Q,).

    Other arguments as in `mean_numbers`.
    """
    _, _, means, u, _, lines = _places(d, numbers)
    deviation = w0 + numbers * (d + 1)
    for start in range(first, last, TILE):
        count = min(TILE, last - start)
        columns = (count + LANES - 1) // LANES * LANES
        _means(x, rows, start, count, columns, d, w, w0, numbers, s)
        rows_to_tile(drawn, start, count, numbers, s, u, TILE)
        for t in range(0, columns, LANES):
            log_prob, entropy = splat(_ZERO), splat(_ZERO)
            for k in range(numbers):
                scale = w[deviation + k]
                mean, value = load(s, means + k * TILE + t), load(s, u + k * TILE + t)
                z = (value - mean) * exp(splat(-scale))
                log_prob = log_prob - splat(_HALF) * z * z - splat(scale + _HALF_LOG_2_PI)
                entropy = entropy + splat(scale + _HALF + _HALF_LOG_2_PI)
                if squash:
                    log_prob = log_prob - log_slope(value)
                    sigma = exp(splat(scale))
                    for q in range(len(points)):
                        slope = log_slope(mean + sigma * splat(points[q]))
                        entropy = entropy + splat(weights[q]) * slope
            store(s, lines + t, log_prob)
            store(s, lines + TILE + t, entropy)
        for i in range(count):
            log_probs[start + i], entropies[start + i] = s[lines + i], s[lines + TILE + i]


@kernel
def numbers_backward(
    x: Any, rows: Any, first: int, last: int, d: int, w: Any, w0: int, numbers: int, squash: bool,
    points: Any, weights: Any, drawn: Any, d_log_probs: Any, d_entropies: Any, d_x: Any, g: Any, s: Any,
) -> None:  # fmt: skip
    """Add the gradients of the rows to `d_x` (N * d,), and of W, b and λ to `g` where `w` has them.

    Arguments as in `evaluate_numbers`; d a multiple of 4. `g` has 4 d numbers or more behind the head's.
    """
    line, tile, means, u, gradients, a = _places(d, numbers)
    h, ones = a + TILE, a + 2 * TILE
    deviation = w0 + numbers * (d + 1)
    padded = (numbers + 3) // 4 * 4
    for start in range(first, last, TILE):
        count = min(TILE, last - start)
        columns = (count + LANES - 1) // LANES * LANES
        _means(x, rows, start, count, columns, d, w, w0, numbers, s)
        rows_to_tile(drawn, start, count, numbers, s, u, TILE)
        for i in range(count):
            s[a + i], s[h + i] = d_log_probs[start + i], d_entropies[start + i]
        for i in range(count, columns):
            s[a + i], s[h + i] = _ZERO, _ZERO
        for k in range(numbers):
            scale = w[deviation + k]
            for t in range(0, columns, LANES):
                mean, given, bonus = load(s, means + k * TILE + t), load(s, a + t), load(s, h + t)
                inverse = exp(splat(-scale))
                z = (load(s, u + k * TILE + t) - mean) * inverse
                of_mean = given * z * inverse
                of_scale = given * (z * z - splat(_ONE)) + bonus
                if squash:
                    sigma = exp(splat(scale))
                    slope, turned = splat(_ZERO), splat(_ZERO)
                    for q in range(len(points)):
                        step = sigma * splat(points[q])
                        change = splat(-_TWO * weights[q]) * tanh(mean + step)
                        slope = slope + change
                        turned = turned + change * step
                    of_mean = of_mean + bonus * slope
                    of_scale = of_scale + bonus * turned
                store(s, gradients + k * TILE + t, of_mean)
                store(s, ones + t, of_scale)
            row_sums(1, s, ones, TILE, columns, g, deviation + k)
        for k in range(numbers, padded):
            for t in range(0, columns, LANES):
                store(s, gradients + k * TILE + t, splat(_ZERO))
        outer_sums(padded, d, s, gradients, s, tile, TILE, columns, g, w0, d)
        row_sums(numbers, s, gradients, TILE, columns, g, w0 + numbers * d)
        product(d, numbers, w, w0, 1, d, s, gradients, TILE, s, tile, TILE, columns, SET, w, 0)
        give_rows(d_x, rows, start, count, d, s, line, tile, TILE)
