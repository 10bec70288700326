"""One gradient step of behaviour cloning: in torch, and for RogueNet by the kernels of the fused engine."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.optim import Optimizer

from ...policies import Evaluation, Policy
from ...policies.rogue_net import RogueNet
from ..learners.base_learner import BaseLearner
from ..learners.fused_learner import learning_engine
from ..learners.optimizer import forget_gradients
from .cloning_config import BehaviorCloningConfig
from .demonstrations import Demonstration


def cloning_losses(
    evaluation: Evaluation, returns: NDArray[np.float32], config: BehaviorCloningConfig
) -> tuple[Tensor, dict[str, float]]:
    """Return the loss of a minibatch of B steps with U actors over all actions, and the numbers to log.

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
    return total, dict(zip(numbers, values, strict=True))


class TorchCloningLearner(BaseLearner):
    """Makes gradient steps for any `Policy`; the definition of what `FusedCloningLearner` computes."""

    def __init__(self, policy: Policy, optimizer: Optimizer, config: BehaviorCloningConfig) -> None:
        self.config = config
        super().__init__(policy, optimizer)

    def step(self, minibatch: Demonstration) -> Mapping[str, float]:
        """Make one gradient step; return its losses and the norm of its gradients.

        Raises:
            NonFiniteError: a loss or a gradient is NaN or infinite.
        """
        forget_gradients(self.parameters)
        return self.move(self.differentiate(minibatch), self.config.max_grad_norm)

    def differentiate(self, minibatch: Demonstration) -> dict[str, float]:
        """Set the gradients of a minibatch and return its losses."""
        evaluation = self.policy.evaluate(minibatch.observations, minibatch.actions)
        total, numbers = cloning_losses(evaluation, minibatch.returns, self.config)
        total.backward()
        return numbers


class FusedCloningLearner(TorchCloningLearner):
    """Makes the gradient steps by the kernels of the fused engine, where RogueNet runs on it."""

    policy: RogueNet

    def differentiate(self, minibatch: Demonstration) -> dict[str, float]:
        """Set the gradients of a minibatch; see `TorchCloningLearner.differentiate`."""
        engine = learning_engine(self.policy)
        if engine is None:
            return super().differentiate(minibatch)
        config, network, weights = self.config, engine.network, engine.read()
        self.policy.check_actions(minibatch.observations, minibatch.actions)
        prepared = self.policy.inputs.prepare(minibatch.observations)
        masks = minibatch.observations.actions
        log_probs, entropies, encoded = network.evaluate(prepared, masks, minibatch.actions, weights)
        units, steps = max(minibatch.num_actors, 1), max(len(minibatch), 1)
        errors = encoded.values - minibatch.returns
        g = network.gradients(
            encoded,
            weights,
            {name: np.full_like(values, -1 / units) for name, values in log_probs.items()},
            {name: np.full_like(values, -config.ent_coef / units) for name, values in entropies.items()},
            (errors * (config.vf_coef / steps)).astype(np.float32),
        )
        engine.add_gradients(g, prepared)
        likelihood = sum(float(values.sum(dtype=np.float64)) for values in log_probs.values()) / units
        entropy = sum(float(values.sum(dtype=np.float64)) for values in entropies.values()) / units
        value_loss = float((errors.astype(np.float64) ** 2).sum()) / (2 * steps)
        loss = -likelihood - config.ent_coef * entropy + config.vf_coef * value_loss
        return {"loss": loss, "log_likelihood": likelihood, "entropy": entropy, "value_loss": value_loss}
