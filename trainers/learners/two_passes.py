"""PPO's loss and gradients in two passes of the fused network: forward, loss, backward.

Shape alphabet: B steps, A actors of one action, P numbers of all parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...policies.inputs.prepare import Prepared
from ...policies.kernels.fused_network import FusedNetwork, Weights
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
from .losses import Counts


class LossGradients(NamedTuple):
    """The derivatives of the loss by the outputs of the network."""

    log_probs: dict[str, NDArray[Any]]  # per action (A,)
    entropies: dict[str, NDArray[Any]]  # per action (A,)
    values: NDArray[Any]  # (B,)


def learn_in_two_passes(
    network: FusedNetwork,
    weights: Weights,
    prepared: Prepared,
    samples: Samples,
    counts: Counts,
    config: PPOConfig,
    ent_coef: float,
) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Return the gradients (P,) of `ppo_losses`, and the sums (6,) that `loss_kernels` names.

    Raises:
        ValueError: a mask does not fit the batch, or an action is masked.
    """
    masks = samples.observations.actions
    log_probs, entropies, encoded = network.evaluate(prepared, masks, samples.actions, weights)
    sums, d = loss_and_gradients(log_probs, entropies, encoded.values, samples, counts, config, ent_coef)
    return network.gradients(encoded, weights, d.log_probs, d.entropies, d.values), sums


def loss_and_gradients(
    log_probs: Mapping[str, NDArray[Any]],
    entropies: Mapping[str, NDArray[Any]],
    values: NDArray[Any],
    samples: Samples,
    counts: Counts,
    config: PPOConfig,
    ent_coef: float,
) -> tuple[NDArray[np.float64], LossGradients]:
    """Return the sums (6,) that `loss_kernels` names, and the gradients of `ppo_losses` by the outputs.

    Arrays are float32 or float64.
    """
    sums = np.zeros(6)
    scale, share = 1.0 / counts.units, 0.5 / counts.steps
    ratios = _joint if config.joint_log_prob else _apart
    d_log_probs = ratios(log_probs, entropies, samples, config.clip_coef, scale, sums)
    d_entropies = {name: np.full_like(log_probs[name], -ent_coef * scale) for name in samples.actions}
    d_values = np.empty_like(values)
    sums[VALUE] = value_errors(
        *(values, samples.values, samples.returns, config.clip_vloss, config.clip_coef),
        *(config.vf_coef * share, d_values),
    )
    return sums, LossGradients(d_log_probs, d_entropies, d_values)


def logged(sums: NDArray[np.float64], counts: Counts, config: PPOConfig, ent_coef: float) -> dict[str, float]:
    """Return the numbers of `ppo_losses` from the sums (6,) of the kernels."""
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


def _apart(
    log_probs: Mapping[str, NDArray[Any]],
    entropies: Mapping[str, NDArray[Any]],
    samples: Samples,
    clip: float,
    scale: float,
    sums: NDArray[np.float64],
) -> dict[str, NDArray[Any]]:
    """LossGradients (A,) of each action where every actor is a unit; adds to `sums`."""
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
    """Compute the gradients with one ratio per step; `_apart` has one per actor and action."""
    log_ratios, acts = np.zeros(len(samples)), np.zeros(len(samples), bool)
    for name, old in samples.log_probs.items():
        add_actors(log_probs[name], old.values, entropies[name], old.offsets, log_ratios, acts, sums)
    gradient = np.empty(len(samples))
    step_units(log_ratios, acts, samples.advantages, clip, scale, gradient, sums)
    return {
        name: old.broadcast(gradient).astype(log_probs[name].dtype) for name, old in samples.log_probs.items()
    }
