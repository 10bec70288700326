"""The loss of PPO (Schulman et al. 2017, arXiv:1707.06347) for many actors and several actions per step.

A *unit* is what has one probability ratio of its own: an actor of an action, or with `joint_log_prob` a step
with all its actors. `docs/ppo.md` says how they combine and why. `ppo_losses` is the definition in torch; the
kernels at the end are the same with gradients by hand. With a unit's log-ratio ℓ = log π(a) − log π_old(a),
its ratio ρ = exp ℓ and the advantage Â of its step,

    −min(ρ Â, clip(ρ) Â)   has the derivative   −ρ Â by ℓ where ρ Â ≤ clip(ρ) Â, else 0,

and the error of a value, max((V − R)², (V_old + clip(V − V_old) − R)²), has 2 (V − R) by V where the first
of the two is greater or the change is not clipped, 0 where the second is greater, and half of it where they
are equal though the change is clipped: that is what automatic differentiation makes of max.

Shape alphabet: B steps, U units, A actors of one action, offsets (B + 1,).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...policies import Evaluation
from ...ragged.compiled import compiled
from ..config import PPOConfig
from ..ranks import ALONE, Ranks
from ..rollout import Samples


@dataclass(frozen=True)
class Counts:
    """Denominators of the means: sizes of the whole minibatch, for each of its parts."""

    units: int
    steps: int


@dataclass(frozen=True)
class Losses:
    """One part's share of the minibatch's loss; the shares of all parts add up to the minibatch's means."""

    total: Tensor  # scalar, with gradients
    numbers: dict[str, float]  # what to log, by name


def count(samples: Samples, joint_log_prob: bool, ranks: Ranks = ALONE) -> Counts:
    """The sizes of a minibatch on all `ranks`; never 0, so that a mean over no units is 0."""
    units = samples.num_acting_steps if joint_log_prob else samples.num_actors
    units, steps = ranks.total(units, len(samples))
    return Counts(max(units, 1), max(steps, 1))


def normalize_advantages(samples: Samples, ranks: Ranks = ALONE) -> Samples:
    """The same steps with advantages of mean 0 and standard deviation 1 (by n − 1, as CleanRL has it).

    To be done for a whole minibatch on all `ranks`, before it is split. A single step has no spread: its
    advantage is 0.
    """
    normalized = np.zeros_like(samples.advantages)
    if ranks.size > 1:
        size, mean, squares = ranks.moments(samples.advantages)
        if size > 1:
            normalized[:] = (samples.advantages - mean) / (math.sqrt(squares / (size - 1)) + 1e-8)
    elif len(normalized) > 1:
        normalize(samples.advantages, normalized)
    return replace(samples, advantages=normalized)


#: What is logged, in the order of the numbers that `loss_terms` returns.
NUMBERS = ("loss", "policy_loss", "value_loss", "entropy", "approx_kl", "old_approx_kl", "clipfrac")


def ppo_losses(
    evaluation: Evaluation, samples: Samples, counts: Counts, config: PPOConfig, ent_coef: float
) -> Losses:
    """Return `loss_terms` of `samples` as a share of the minibatch that `counts` measures.

    Args:
        evaluation: of the samples' actions under the current parameters.
        samples: the minibatch or a part of it, with advantages already normalized where that is configured.
        ent_coef: the entropy coefficient at this time, which may be annealed.

    Raises:
        ValueError: the policy returned numbers of another shape.
    """
    _check_shapes(evaluation, samples)
    like = evaluation.values
    log_ratio, entropy, unit_steps = _units(evaluation, samples, config.joint_log_prob)
    advantages, returns, old_values = (
        _tensor(array, like) for array in (samples.advantages, samples.returns, samples.values)
    )
    total, numbers = loss_terms(
        log_ratio,
        entropy,
        advantages[unit_steps],
        evaluation.values,
        returns,
        old_values,
        1 / counts.units,
        1 / counts.steps,
        ent_coef,
        config,
    )
    return Losses(total, dict(zip(NUMBERS, numbers.tolist(), strict=True)))


def loss_terms(
    log_ratio: Tensor,
    entropy: Tensor,
    advantage: Tensor,
    values: Tensor,
    returns: Tensor,
    old_values: Tensor,
    per_unit: float | Tensor,
    per_step: float | Tensor,
    ent_coef: float | Tensor,
    config: PPOConfig,
) -> tuple[Tensor, Tensor]:
    """Return the loss with gradients, and `NUMBERS` (7,) without.

        ratio ρ = exp(log π(a) − log π_old(a))                                per unit
        policy loss = −mean over units of min(ρ Â, clip(ρ, 1 ± clip_coef) Â)  with its step's advantage Â
        value loss  = ½ mean over steps of max((V − R)², (V_old + clip(V − V_old, ± clip_coef) − R)²)
        total = policy loss − ent_coef · mean entropy over units + vf_coef · value loss

    Units whose log-ratio, entropy and advantage are 0, and steps whose values and return are 0, add nothing.

    Args:
        log_ratio, entropy, advantage: (U,).
        values, returns, old_values: (B,).
        per_unit, per_step: 1 / the number of units and of steps in the whole minibatch.
    """
    ratio = log_ratio.exp()
    clipped_ratio = _clip(ratio, 1 - config.clip_coef, 1 + config.clip_coef)
    policy_loss = -torch.minimum(ratio * advantage, clipped_ratio * advantage).sum() * per_unit
    entropy_mean = entropy.sum() * per_unit
    errors = (values - returns) ** 2
    if config.clip_vloss:
        clipped = old_values + _clip(values - old_values, -config.clip_coef, config.clip_coef)
        errors = torch.maximum(errors, (clipped - returns) ** 2)
    value_loss = errors.sum() * per_step / 2
    total = policy_loss - ent_coef * entropy_mean + config.vf_coef * value_loss
    log_ratio, ratio = log_ratio.detach(), ratio.detach()
    numbers = (
        total,
        policy_loss,
        value_loss,
        entropy_mean,
        (ratio - 1 - log_ratio).sum() * per_unit,
        -log_ratio.sum() * per_unit,
        ((ratio - 1).abs() > config.clip_coef).to(values.dtype).sum() * per_unit,
    )
    return total, torch.stack([number.detach() for number in numbers])


def _clip(values: Tensor, low: float, high: float) -> Tensor:
    """Return `clamp` with the gradient 1 at the bounds, where torch has 1 before version 2.14 and 0 since."""
    return torch.where((values < low) | (values > high), values.detach().clamp(low, high), values)


def _check_shapes(evaluation: Evaluation, samples: Samples) -> None:
    """Check what the policy of a user returned: other shapes would be broadcast without a word."""
    for what, tensor, expected in (
        ("values", evaluation.values, len(samples)),
        *(
            (f"{part}[{name!r}]", tensors[name], chosen.num_items)
            for part, tensors in (("log_probs", evaluation.log_probs), ("entropies", evaluation.entropies))
            for name, chosen in samples.actions.items()
        ),
    ):
        if tensor.shape != (expected,):
            raise ValueError(f"Evaluation.{what}: expected shape ({expected},), got {tuple(tensor.shape)}")


def _units(evaluation: Evaluation, samples: Samples, joint: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Log-ratio (U,), entropy (U,) and step (U,) int64 of each unit."""
    names = list(samples.actions)
    like = evaluation.values
    steps = torch.as_tensor(
        np.concatenate([samples.actions[name].sequence_indices() for name in names]), device=like.device
    )
    old = _tensor(np.concatenate([samples.log_probs[name].values for name in names]), like)
    log_ratio = torch.cat([evaluation.log_probs[name] for name in names]) - old
    entropy = torch.cat([evaluation.entropies[name] for name in names])
    if not joint:
        return log_ratio, entropy, steps
    acting, unit_of_actor = torch.unique(steps, return_inverse=True)
    empty = log_ratio.new_zeros(len(acting))
    return empty.index_add(0, unit_of_actor, log_ratio), empty.index_add(0, unit_of_actor, entropy), acting


def _tensor(array: NDArray[Any], like: Tensor) -> Tensor:
    """`array` on the device and in the dtype of `like`, over its own memory where that is possible."""
    return torch.as_tensor(array, dtype=like.dtype, device=like.device)


#: What `sums` (6,) holds: sums over units of the first five, over steps of the errors of values.
POLICY, ENTROPY, KL, LOG_RATIO, CLIPPED, VALUE = range(6)


@compiled(nogil=True)
def normalize(advantages: Any, out: Any) -> None:
    """Shift and scale numbers (B,), two or more, to mean 0 and standard deviation 1 (by B - 1)."""
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
    """Steps as units, those with an actor: writes `scale` times the gradients (B,), 0 elsewhere."""
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
