"""The loss of PPO (Schulman et al. 2017, arXiv:1707.06347) for many actors and several actions per step.

A *unit* is what has one probability ratio of its own: an actor of an action, or with `joint_log_prob` a step
with all its actors. `docs/ppo.md` says how they combine and why.
Shape alphabet: B steps, U units.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...policies.policy import Evaluation
from ..config import PPOConfig
from ..rollout import Samples
from .loss_kernels import normalize


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


def count(samples: Samples, joint_log_prob: bool) -> Counts:
    """The sizes of a minibatch; never 0, so that a mean over no units is 0."""
    units = samples.num_acting_steps if joint_log_prob else samples.num_actors
    return Counts(max(units, 1), max(len(samples), 1))


def normalize_advantages(samples: Samples) -> Samples:
    """The same steps with advantages of mean 0 and standard deviation 1 (by n − 1, as CleanRL has it).

    To be done for a whole minibatch, before it is split. A single step has no spread: its advantage is 0.
    """
    advantages = np.zeros_like(samples.advantages)
    if len(advantages) > 1:
        normalize(samples.advantages, advantages)
    return replace(samples, advantages=advantages)


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
    """
    like = evaluation.values
    log_ratio, entropy, unit_steps = _units(evaluation, samples, config.joint_log_prob)
    advantages, returns, old_values = (
        _tensor(array, like) for array in (samples.advantages, samples.returns, samples.values)
    )
    total, numbers = loss_terms(
        *(log_ratio, entropy, advantages[unit_steps], evaluation.values, returns, old_values),
        *(1 / counts.units, 1 / counts.steps, ent_coef, config),
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
    clipped_ratio = ratio.clamp(1 - config.clip_coef, 1 + config.clip_coef)
    policy_loss = -torch.minimum(ratio * advantage, clipped_ratio * advantage).sum() * per_unit
    entropy_mean = entropy.sum() * per_unit
    errors = (values - returns) ** 2
    if config.clip_vloss:
        clipped = old_values + (values - old_values).clamp(-config.clip_coef, config.clip_coef)
        errors = torch.maximum(errors, (clipped - returns) ** 2)
    value_loss = errors.sum() * per_step / 2
    total = policy_loss - ent_coef * entropy_mean + config.vf_coef * value_loss
    log_ratio, ratio = log_ratio.detach(), ratio.detach()
    numbers = (
        *(total, policy_loss, value_loss, entropy_mean),
        (ratio - 1 - log_ratio).sum() * per_unit,
        -log_ratio.sum() * per_unit,
        ((ratio - 1).abs() > config.clip_coef).to(values.dtype).sum() * per_unit,
    )
    return total, torch.stack([number.detach() for number in numbers])


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
