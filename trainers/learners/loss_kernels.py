"""Numba kernels of PPO's loss and its gradients; `trainers.learners.losses.ppo_losses` is the same in torch.

A unit's log-ratio is ℓ = log π(a) − log π_old(a), its ratio ρ = exp ℓ. With the advantage Â of its step,

    −min(ρ Â, clip(ρ) Â)   has the derivative   −ρ Â by ℓ where ρ Â ≤ clip(ρ) Â, else 0,

and the error of a value, max((V − R)², (V_old + clip(V − V_old) − R)²), has 2 (V − R) by V where the first
of the two is greater or the change is not clipped, 0 where the second is greater, and half of it where they
are equal though the change is clipped: that is what automatic differentiation makes of max.

All sums are kept in float64. Shape alphabet: B steps, A actors of one action, offsets (B + 1,).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...ragged.compiled import compiled

#: What `sums` (6,) holds: sums over units of the first five, over steps of the errors of values.
POLICY, ENTROPY, KL, LOG_RATIO, CLIPPED, VALUE = range(6)


@compiled(nogil=True)
def normalize(advantages: Any, out: Any) -> None:
    """Give numbers (B,), two or more, the mean 0 and the deviation 1 (by B - 1)."""
    count = len(advantages)
    mean = 0.0
    for b in range(count):
        mean += advantages[b]
    mean /= count
    squares = 0.0
    for b in range(count):
        squares += (advantages[b] - mean) ** 2
    scale = 1.0 / (math.sqrt(squares / (count - 1)) + 1e-8)
    for b in range(count):
        out[b] = (advantages[b] - mean) * scale


@compiled(nogil=True)
def _unit(log_ratio: float, advantage: float, clip: float, sums: Any) -> float:
    """Add one unit's share of the sums; returns the derivative of its policy loss by the log-ratio."""
    ratio = math.exp(log_ratio)
    free = ratio * advantage
    held = min(max(ratio, 1.0 - clip), 1.0 + clip) * advantage
    sums[KL] += ratio - 1.0 - log_ratio
    sums[LOG_RATIO] += log_ratio
    sums[CLIPPED] += abs(ratio - 1.0) > clip
    if free <= held:
        sums[POLICY] -= free
        return -free
    sums[POLICY] -= held
    return 0.0


@compiled(nogil=True)
def actor_units(
    log_probs: Any, old: Any, entropies: Any, offsets: Any, advantages: Any, clip: float, scale: float,
    d_log_probs: Any, sums: Any,
) -> None:  # fmt: skip
    """One action whose actors are units: writes `scale` times the gradients (A,), adds to `sums`."""
    for b in range(len(offsets) - 1):
        advantage = np.float64(advantages[b])
        for i in range(offsets[b], offsets[b + 1]):
            log_ratio = np.float64(log_probs[i]) - np.float64(old[i])
            d_log_probs[i] = scale * _unit(log_ratio, advantage, clip, sums)
            sums[ENTROPY] += entropies[i]


@compiled(nogil=True)
def add_actors(
    log_probs: Any, old: Any, entropies: Any, offsets: Any, log_ratios: Any, acts: Any, sums: Any
) -> None:
    """Add one action's actors to the log-ratios (B,) of their steps, and say which steps have any (B,)."""
    for b in range(len(offsets) - 1):
        for i in range(offsets[b], offsets[b + 1]):
            log_ratios[b] += np.float64(log_probs[i]) - np.float64(old[i])
            acts[b] = True
            sums[ENTROPY] += entropies[i]


@compiled(nogil=True)
def step_units(
    log_ratios: Any, acts: Any, advantages: Any, clip: float, scale: float, d_log_ratios: Any, sums: Any
) -> None:
    """Steps as units, those at which anybody acts: writes `scale` times the gradients (B,), 0 elsewhere."""
    for b in range(len(log_ratios)):
        d_log_ratios[b] = 0.0
        if acts[b]:
            d_log_ratios[b] = scale * _unit(log_ratios[b], np.float64(advantages[b]), clip, sums)


@compiled(nogil=True)
def value_errors(
    values: Any, old: Any, returns: Any, clips: bool, clip: float, scale: float, d_values: Any
) -> float:
    """The sum of the steps' errors; writes `scale` times their gradients (B,)."""
    total: Any = 0.0
    for b in range(len(values)):
        value, before, target = np.float64(values[b]), np.float64(old[b]), np.float64(returns[b])
        error: Any = (value - target) ** 2
        slope: Any = 2.0 * (value - target)
        if clips and abs(value - before) > clip:
            held = (before + math.copysign(clip, value - before) - target) ** 2
            if held > error:
                error, slope = held, 0.0
            elif held == error:
                slope *= 0.5
        total += error
        d_values[b] = scale * slope
    return total
