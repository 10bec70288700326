"""The loss of behaviour cloning: maximum likelihood of recorded actions.

Shape alphabet: B steps, A actors of one action.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...policies import Evaluation
from .cloning_config import BehaviorCloningConfig


@dataclass(frozen=True)
class CloningLosses:
    """The loss of a minibatch."""

    total: Tensor  # scalar, with gradients
    numbers: dict[str, float]  # what to log, by name


def cloning_losses(
    evaluation: Evaluation, returns: NDArray[np.float32], config: BehaviorCloningConfig
) -> CloningLosses:
    """The loss of a minibatch of B steps with U actors over all actions.

        likelihood = mean over actors of log π(a)
        value loss = ½ mean over steps of (V − R)²
        total = − likelihood − ent_coef · mean entropy over actors + vf_coef · value loss

    Args:
        evaluation: of the recorded actions under the current parameters.
        returns: (B,), the discounted rewards that followed.
    """
    log_probs = torch.cat(list(evaluation.log_probs.values()))
    entropies = torch.cat(list(evaluation.entropies.values()))
    units = max(len(log_probs), 1)
    likelihood, entropy = log_probs.sum() / units, entropies.sum() / units
    target = torch.as_tensor(returns, dtype=evaluation.values.dtype, device=evaluation.values.device)
    value_loss = ((evaluation.values - target) ** 2).sum() / (2 * max(len(target), 1))
    total = -likelihood - config.ent_coef * entropy + config.vf_coef * value_loss
    numbers = {"loss": total, "log_likelihood": likelihood, "entropy": entropy, "value_loss": value_loss}
    values = torch.stack([number.detach() for number in numbers.values()]).tolist()
    return CloningLosses(total, dict(zip(numbers, values, strict=True)))
