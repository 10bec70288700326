"""`losses.ppo_losses` by kernels: forward and gradients in one pass over the actors, without torch between.

It stands for the torch version wherever everything is float32 or float64 on the CPU.
Shape alphabet: B steps, A actors of one action.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable

from ...policies.policy import Evaluation
from ...policies.rogue_net import RogueNet
from ..config import PPOConfig
from ..rollout import Samples
from .loss_kernels import (
    CLIPPED,
    ENTROPY,
    KL,
    LOG_RATIO,
    POLICY,
    VALUE,
    actor_units,
    add_actors,
    step_units,
    value_errors,
)
from .losses import Counts, Losses, ppo_losses
from .objective import Objective
from .one_pass import goes_in_one_pass, learn_in_one_pass


@dataclass(frozen=True)
class Gradients:
    """The derivatives of a loss by what it was computed from."""

    log_probs: dict[str, NDArray[Any]]  # per action (A,)
    entropies: dict[str, NDArray[Any]]  # per action (A,)
    values: NDArray[Any]  # (B,)


def fast_losses(
    evaluation: Evaluation, samples: Samples, counts: Counts, config: PPOConfig, ent_coef: float
) -> Losses:
    """As `ppo_losses`, by kernels where they can be used; equal to rounding."""
    names = list(samples.actions)
    tensors = [evaluation.log_probs[name] for name in names]
    tensors += [evaluation.entropies[name] for name in names]
    tensors.append(evaluation.values)
    if not _runs_kernels(tensors):
        return ppo_losses(evaluation, samples, counts, config, ent_coef)
    arrays = [tensor.detach().contiguous().numpy() for tensor in tensors]
    numbers, gradients = losses_and_gradients(
        dict(zip(names, arrays, strict=False)),
        dict(zip(names, arrays[len(names) :], strict=False)),
        arrays[-1],
        *(samples, counts, config, ent_coef),
    )
    known = (*gradients.log_probs.values(), *gradients.entropies.values(), gradients.values)
    total: Tensor = _Known.apply(numbers["loss"], known, *tensors)
    return Losses(total, numbers)


def losses_and_gradients(
    log_probs: Mapping[str, NDArray[Any]],
    entropies: Mapping[str, NDArray[Any]],
    values: NDArray[Any],
    samples: Samples,
    counts: Counts,
    config: PPOConfig,
    ent_coef: float,
) -> tuple[dict[str, float], Gradients]:
    """The numbers of `ppo_losses` and the gradients of its total, from arrays of any float dtype."""
    sums = np.zeros(6)
    scale, share = 1.0 / counts.units, 0.5 / counts.steps
    ratios = _joint if config.joint_log_prob else _apart
    d_log_probs = ratios(log_probs, entropies, samples, config.clip_coef, scale, sums)
    d_entropies = {name: np.full_like(log_probs[name], -ent_coef * scale) for name in samples.actions}
    d_values = np.empty_like(values)
    errors = value_errors(
        *(values, samples.values, samples.returns, config.clip_vloss, config.clip_coef),
        *(config.vf_coef * share, d_values),
    )
    sums[VALUE] = errors
    return _numbers(sums, counts, config, ent_coef), Gradients(d_log_probs, d_entropies, d_values)


def learn(
    policy: object, samples: Samples, counts: Counts, config: PPOConfig, ent_coef: float
) -> dict[str, float] | None:
    """The numbers of `ppo_losses`, with the gradients added to the parameters' `grad`, in one pass of the
    fused engine; None where that is not possible."""
    if config.joint_log_prob or not isinstance(policy, RogueNet) or not policy.keeps_evaluation():
        return None
    engine = policy.fused_engine()
    if engine is None or not goes_in_one_pass(engine.network) or not engine.reads_parameters():
        return None
    batch, actions = samples.observations, samples.actions
    policy.check_actions(batch, actions)
    prepared = policy.inputs.prepare(batch)
    if prepared.visible is not None:
        return None
    objective = Objective(
        samples.log_probs, samples.values, samples.advantages, samples.returns,
        config.clip_coef, config.clip_vloss, ent_coef, config.vf_coef, counts.units, counts.steps,
    )  # fmt: skip
    weights = engine.network.weights(engine.parameters.flat(engine.parameters.tensors()))
    g, sums = learn_in_one_pass(engine.network, prepared, batch.actions, actions, weights, objective)
    engine.add_gradients(g, prepared)
    return _numbers(sums, counts, config, ent_coef)


def _numbers(
    sums: NDArray[np.float64], counts: Counts, config: PPOConfig, ent_coef: float
) -> dict[str, float]:
    """What `ppo_losses` gives, from the sums (6,) of its kernels."""
    means, value_loss = (sums / counts.units).tolist(), 0.5 * float(sums[VALUE]) / counts.steps
    return {
        "loss": means[POLICY] - ent_coef * means[ENTROPY] + config.vf_coef * value_loss,
        "policy_loss": means[POLICY],
        "value_loss": value_loss,
        "entropy": means[ENTROPY],
        "approx_kl": means[KL],
        "old_approx_kl": -means[LOG_RATIO],
        "clipfrac": means[CLIPPED],
    }


def _runs_kernels(tensors: list[Tensor]) -> bool:
    dtype = tensors[0].dtype
    return dtype in (torch.float32, torch.float64) and all(t.is_cpu and t.dtype is dtype for t in tensors)


def _apart(
    log_probs: Mapping[str, NDArray[Any]],
    entropies: Mapping[str, NDArray[Any]],
    samples: Samples,
    clip: float,
    scale: float,
    sums: NDArray[np.float64],
) -> dict[str, NDArray[Any]]:
    """Gradients (A,) of each action where every actor is a unit; adds to `sums`."""
    gradients = {}
    for name, old in samples.log_probs.items():
        gradients[name] = np.empty_like(log_probs[name])
        actor_units(
            *(log_probs[name], old.values, entropies[name], old.offsets, samples.advantages),
            *(clip, scale, gradients[name], sums),
        )
    return gradients


def _joint(
    log_probs: Mapping[str, NDArray[Any]],
    entropies: Mapping[str, NDArray[Any]],
    samples: Samples,
    clip: float,
    scale: float,
    sums: NDArray[np.float64],
) -> dict[str, NDArray[Any]]:
    """As `_apart`, where a step with all its actors is a unit."""
    log_ratios, acts = np.zeros(len(samples)), np.zeros(len(samples), bool)
    for name, old in samples.log_probs.items():
        add_actors(log_probs[name], old.values, entropies[name], old.offsets, log_ratios, acts, sums)
    gradient = np.empty(len(samples))
    step_units(log_ratios, acts, samples.advantages, clip, scale, gradient, sums)
    return {
        name: old.broadcast(gradient).astype(log_probs[name].dtype) for name, old in samples.log_probs.items()
    }


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
