"""`ppo_losses` for minibatches that are padded to a capacity: the same loss, of tensors on the device alone.

Shape alphabet, of capacities: B steps, U actors of all actions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...policies.engines.graphs.capacity import Sizes
from ...policies.engines.graphs.packing import Field
from ...policies.engines.graphs.static_network import StaticEvaluation
from ..config import PPOConfig
from ..rollout import Samples
from .losses import Counts

#: What is logged, in the order of the numbers that `static_losses` returns.
NUMBERS = ("loss", "policy_loss", "value_loss", "entropy", "approx_kl", "old_approx_kl", "clipfrac")


def loss_fields(names: list[str], sizes: Sizes) -> dict[str, Field]:
    """The arrays that the loss reads, for actions of these names and these capacities."""
    b, u = sizes["steps"], sum(sizes[f"action/{name}/actors"] for name in names)
    fields = {
        "loss/old": Field((u,), np.float32),  # log-probabilities when the actions were taken
        "loss/padding": Field((u,), bool),
        "loss/step": Field((u,), np.int64),
        "loss/no_actor": Field((b,), bool),  # nobody acts at the step
        "loss/scalars": Field((3,), np.float32),  # 1 / units, 1 / steps, entropy bonus
    }
    for name in ("advantages", "returns", "values"):
        fields[f"loss/{name}"] = Field((b,), np.float32)
    return {**fields, "loss/no_step": Field((b,), bool)}


def write_loss(
    arrays: Mapping[str, NDArray[Any]], sizes: Sizes, samples: Samples, counts: Counts, ent_coef: float
) -> None:
    """Fill them from a minibatch, whose advantages are normalised where that is wished."""
    old, padding, step = (arrays[f"loss/{name}"] for name in ("old", "padding", "step"))
    old[:], padding[:], step[:] = 0, True, 0
    no_actor = arrays["loss/no_actor"]
    no_actor[:] = True
    place = 0
    for name, chosen in samples.actions.items():
        part = slice(place, place + chosen.num_items)
        old[part], padding[part] = samples.log_probs[name].values, False
        step[part] = chosen.sequence_indices()
        no_actor[: len(samples)] &= chosen.lengths == 0
        place += sizes[f"action/{name}/actors"]
    for name in ("advantages", "returns", "values"):
        array = arrays[f"loss/{name}"]
        array[: len(samples)], array[len(samples) :] = getattr(samples, name), 0
    arrays["loss/no_step"][:] = np.arange(sizes["steps"]) >= len(samples)
    arrays["loss/scalars"][:] = 1 / counts.units, 1 / counts.steps, ent_coef


def static_losses(
    evaluation: StaticEvaluation, names: list[str], arrays: Mapping[str, Tensor], config: PPOConfig
) -> tuple[Tensor, Tensor]:
    """The minibatch's loss with gradients, and `NUMBERS` (7,) without; padding has no part in either."""
    dtype = evaluation.values.dtype
    padding, step = arrays["loss/padding"], arrays["loss/step"]
    per_unit, per_step, ent_coef = arrays["loss/scalars"].to(dtype).unbind()
    advantages, returns, old_values = (
        arrays[f"loss/{name}"].to(dtype) for name in ("advantages", "returns", "values")
    )
    log_ratio = torch.cat([evaluation.log_probs[name] for name in names]) - arrays["loss/old"].to(dtype)
    # masked_fill, not where: that one copies its number from the host, which no graph can hold.
    log_ratio = log_ratio.masked_fill(padding, 0.0)
    entropy = torch.cat([evaluation.entropies[name] for name in names]).masked_fill(padding, 0.0)
    if config.joint_log_prob:
        nothing = log_ratio.new_zeros(len(advantages))
        log_ratio, entropy = nothing.index_add(0, step, log_ratio), nothing.index_add(0, step, entropy)
        padding = arrays["loss/no_actor"]
    else:
        advantages = advantages.index_select(0, step)
    ratio = log_ratio.exp()
    clipped_ratio = ratio.clamp(1 - config.clip_coef, 1 + config.clip_coef)
    gains = torch.minimum(ratio * advantages, clipped_ratio * advantages).masked_fill(padding, 0.0)
    policy_loss = -gains.sum() * per_unit
    entropy_mean = entropy.sum() * per_unit
    values = evaluation.values
    errors = (values - returns) ** 2
    if config.clip_vloss:
        clipped = old_values + (values - old_values).clamp(-config.clip_coef, config.clip_coef)
        errors = torch.maximum(errors, (clipped - returns) ** 2)
    value_loss = errors.masked_fill(arrays["loss/no_step"], 0.0).sum() * per_step / 2
    total = policy_loss - ent_coef * entropy_mean + config.vf_coef * value_loss
    with torch.no_grad():
        numbers = torch.stack(
            [
                total,
                policy_loss,
                value_loss,
                entropy_mean,
                (ratio - 1 - log_ratio).sum() * per_unit,
                -log_ratio.sum() * per_unit,
                ((ratio - 1).abs() > config.clip_coef).to(dtype).sum() * per_unit,
            ]
        )
    return total, numbers
