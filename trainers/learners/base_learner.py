"""`BaseLearner`: an optimizer over the parameters of a policy, for the gradient steps of every trainer."""

from __future__ import annotations

from collections.abc import Mapping

from torch.optim import Optimizer

from ...policies import Policy
from ..runs.guard import check_losses
from .optimizer import clip_gradients


class BaseLearner:
    """Moves the parameters of a policy by their gradients. Abstract: subclasses compute these.

    Attributes:
        parameters: those of the policy when the optimizer was assigned, or when the last update began.
    """

    def __init__(self, policy: Policy, optimizer: Optimizer) -> None:
        self.policy = policy
        self.optimizer = optimizer

    @property
    def optimizer(self) -> Optimizer:
        """Moves the parameters at each step. One that is assigned may have those of replaced modules."""
        return self._optimizer

    @optimizer.setter
    def optimizer(self, optimizer: Optimizer) -> None:
        self._optimizer = optimizer
        self.parameters = list(self.policy.parameters())
        self._take_optimizer()

    def _take_optimizer(self) -> None:
        """Prepare for an optimizer that was assigned."""

    def move(self, losses: Mapping[str, float], max_grad_norm: float | None) -> dict[str, float]:
        """Clip the gradients and move the parameters; return the losses and the norm before.

        Raises:
            NonFiniteError: a loss or a gradient is NaN or infinite; no parameter has moved.
        """
        grad_norm = clip_gradients(self.parameters, max_grad_norm)
        check_losses(losses, self.policy, grad_norm)
        self.optimizer.step()
        return {**losses, "grad_norm": grad_norm}
