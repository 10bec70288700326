"""`TorchLearner`: one gradient step of PPO in torch, the definition of what every learner computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from torch import nn
from torch.optim import Optimizer

from ...policies import Policy
from ..config import PPOConfig
from ..ranks import ALONE, Ranks
from ..rollout import Samples
from .base_learner import BaseLearner
from .losses import NUMBERS, Counts, count, normalize_advantages, ppo_losses
from .optimizer import forget_gradients

__all__ = ["TorchLearner", "ppo_losses"]


class TorchLearner(BaseLearner):
    """Makes gradient steps for any `Policy`; a `Learner`."""

    def __init__(
        self,
        policy: Policy,
        optimizer: Optimizer,
        config: PPOConfig,
        ranks: Ranks = ALONE,
    ) -> None:
        self.config, self.ranks = config, ranks
        self._given = config
        self.frozen: Sequence[nn.Parameter] = ()
        super().__init__(policy, optimizer)

    def prepare(self, frozen: Sequence[nn.Parameter]) -> None:
        """Begin an update; see `Learner.prepare`."""
        self.parameters = list(self.policy.parameters())
        self.frozen = frozen
        # The clipped loss keeps a value within `clip_coef` of what it was: an untrained one goes further.
        self.config = replace(self._given, clip_vloss=False) if frozen else self._given

    def step(self, minibatch: Samples, ent_coef: float) -> Mapping[str, float]:
        """Make one gradient step; see `Learner.step`."""
        config = self.config
        counts = count(minibatch, config.joint_log_prob, self.ranks)
        if config.norm_adv:
            minibatch = normalize_advantages(minibatch, self.ranks)
        forget_gradients(self.parameters)
        losses = dict.fromkeys(NUMBERS, 0.0)
        for part in minibatch.split(config.microbatch_size):  # the parts' losses and gradients add up
            for name, value in self.differentiate(part, counts, ent_coef).items():
                losses[name] = losses.get(name, 0.0) + value  # a subclass may add one
        losses = self.ranks.add_gradients(self.parameters, losses)  # as those of the ranks do
        forget_gradients(self.frozen)
        return self.move(losses, config.max_grad_norm)

    def differentiate(self, part: Samples, counts: Counts, ent_coef: float) -> dict[str, float]:
        """Add the gradients of a part of a minibatch; return its share of the losses."""
        evaluation = self.policy.evaluate(part.observations, part.actions)
        losses = ppo_losses(evaluation, part, counts, self.config, ent_coef)
        losses.total.backward()
        return losses.numbers
