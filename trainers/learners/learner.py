"""`Learner`: makes PPO's gradient steps; `make_learner` chooses the one for a policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from torch import nn
from torch.optim import Optimizer

from ...policies import Policy
from ...policies.rogue_net import RogueNet
from ..config import PPOConfig
from ..ranks import ALONE, Ranks
from ..rollout import Samples
from .fused_learner import FusedLearner
from .graph_learner import GraphLearner
from .torch_learner import TorchLearner


class Learner(Protocol):
    """Makes the gradient steps of an update.

    `TorchLearner` shows what a step is. The others compute the same, to rounding.
    """

    optimizer: Optimizer  # moves the parameters at each step
    frozen: Sequence[nn.Parameter]  # parameters that a step leaves as they are
    config: PPOConfig

    def prepare(self, frozen: Sequence[nn.Parameter]) -> None:
        """Begin an update; with `frozen` parameters, which stay as they are, values are not clipped."""
        ...

    def step(self, minibatch: Samples, ent_coef: float) -> Mapping[str, float]:
        """Make one gradient step on `minibatch`; return its losses and the norm of its gradients.

        A learner on a GPU may return before the numbers are known: reading them waits for the GPU. Read them
        when all minibatches of an epoch were started.

        Args:
            minibatch: steps of the rollout, with advantages as they were estimated.
            ent_coef: the coefficient of the entropy bonus at this time, which may be annealed.

        Raises:
            NonFiniteError: a loss or a gradient is NaN or infinite; possibly not before a number is read.
            ValueError: an action is masked or does not fit the minibatch.
        """
        ...


def make_learner(policy: Policy, optimizer: Optimizer, config: PPOConfig, ranks: Ranks = ALONE) -> Learner:
    """Return the learner for `policy`, whose parameters `optimizer` updates.

    RogueNet with engine "graphs", as on a GPU: `GraphLearner`. Every other RogueNet: `FusedLearner`, which
    computes with torch where the engine is torch. Every other policy: `TorchLearner`.
    """
    if not isinstance(policy, RogueNet):
        return TorchLearner(policy, optimizer, config, ranks)
    if policy.engine.name == "graphs":
        return GraphLearner(policy, optimizer, config, ranks)
    return FusedLearner(policy, optimizer, config, ranks)
