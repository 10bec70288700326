"""`losses.ppo_losses` by kernels: forward and gradients in one pass over the actors, without torch between.

It stands for the torch version wherever everything is float32 or float64 on the CPU.
Shape alphabet: B steps, A actors of one action.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..policies.policy import Evaluation
from .config import PPOConfig
from .loss_kernels import (
    CLIPPED,
    ENTROPY,
    KL,
    LOG_RATIO,
    POLICY,
    actor_units,
    add_actors,
    step_units,
    value_errors,
)
from .losses import Counts, Losses, ppo_losses
from .rollout import Samples


def fast_losses(
    evaluation: Evaluation, samples: Samples, counts: Counts, config: PPOConfig, ent_coef: float
) -> Losses:
    """As `ppo_losses`, by kernels where they can be used; equal to rounding."""
    if not _runs_kernels([*evaluation.log_probs.values(), *evaluation.entropies.values(), evaluation.values]):
        return ppo_losses(evaluation, samples, counts, config, ent_coef)
    names = list(samples.actions)
    log_probs = [_array(evaluation.log_probs[name]) for name in names]
    entropies = [_array(evaluation.entropies[name]) for name in names]
    values = _array(evaluation.values)
    sums = np.zeros(5)
    d_log_probs = (_joint if config.joint_log_prob else _apart)(
        log_probs, entropies, samples, config.clip_coef, 1.0 / counts.units, sums
    )
    d_entropies = [np.full_like(entropy, -ent_coef / counts.units) for entropy in entropies]
    d_values = np.empty_like(values)
    share = 0.5 / counts.steps
    errors = value_errors(
        values, samples.values, samples.returns, config.clip_vloss, config.clip_coef,
        config.vf_coef * share, d_values,
    )  # fmt: skip
    means = sums / counts.units
    policy_loss, entropy_mean, value_loss = means[POLICY], means[ENTROPY], errors * share
    numbers = {
        "loss": policy_loss - ent_coef * entropy_mean + config.vf_coef * value_loss,
        "policy_loss": policy_loss,
        "value_loss": value_loss,
        "entropy": entropy_mean,
        "approx_kl": means[KL],
        "old_approx_kl": -means[LOG_RATIO],
        "clipfrac": means[CLIPPED],
    }
    total: Tensor = _Known.apply(
        numbers["loss"],
        (*d_log_probs, *d_entropies, d_values),
        *(evaluation.log_probs[name] for name in names),
        *(evaluation.entropies[name] for name in names),
        evaluation.values,
    )
    return Losses(total, {name: float(number) for name, number in numbers.items()})


def _runs_kernels(tensors: list[Tensor]) -> bool:
    dtype = tensors[0].dtype
    return dtype in (torch.float32, torch.float64) and all(t.is_cpu and t.dtype is dtype for t in tensors)


def _array(tensor: Tensor) -> NDArray[Any]:
    return tensor.detach().contiguous().numpy()


def _apart(
    log_probs: list[NDArray[Any]],
    entropies: list[NDArray[Any]],
    samples: Samples,
    clip: float,
    scale: float,
    sums: NDArray[np.float64],
) -> list[NDArray[Any]]:
    """Gradients (A,) of each action where every actor is a unit; adds to `sums`."""
    gradients = []
    for name, log_prob, entropy in zip(samples.actions, log_probs, entropies, strict=True):
        gradient = np.empty_like(log_prob)
        old = samples.log_probs[name]
        actor_units(
            log_prob, old.values, entropy, old.offsets, samples.advantages, clip, scale, gradient, sums
        )
        gradients.append(gradient)
    return gradients


def _joint(
    log_probs: list[NDArray[Any]],
    entropies: list[NDArray[Any]],
    samples: Samples,
    clip: float,
    scale: float,
    sums: NDArray[np.float64],
) -> list[NDArray[Any]]:
    """As `_apart`, where a step with all its actors is a unit."""
    log_ratios, acts = np.zeros(len(samples)), np.zeros(len(samples), bool)
    for name, log_prob, entropy in zip(samples.actions, log_probs, entropies, strict=True):
        old = samples.log_probs[name]
        add_actors(log_prob, old.values, entropy, old.offsets, log_ratios, acts, sums)
    gradient = np.empty(len(samples), samples.advantages.dtype)
    step_units(log_ratios, acts, samples.advantages, clip, scale, gradient, sums)
    return [
        samples.log_probs[name].broadcast(gradient).astype(log_prob.dtype, copy=False)
        for name, log_prob in zip(samples.actions, log_probs, strict=True)
    ]


class _Known(torch.autograd.Function):
    """A scalar whose gradients by `tensors` are known already."""

    @staticmethod
    def forward(ctx: Any, value: float, gradients: tuple[NDArray[Any], ...], *tensors: Tensor) -> Tensor:
        ctx.gradients = gradients
        return tensors[-1].new_tensor(value)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, given: Tensor) -> tuple[Tensor | None, ...]:
        scale = float(given)
        gradients = ctx.gradients if scale == 1 else [g * g.dtype.type(scale) for g in ctx.gradients]
        return None, None, *map(torch.from_numpy, gradients)
