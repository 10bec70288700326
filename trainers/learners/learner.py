"""`Learner`: makes PPO's gradient steps; `make_learner` chooses the one for a policy."""

from __future__ import annotations

import logging
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

_log = logging.getLogger(__name__)


class Learner(Protocol):
    """Makes the gradient steps of an update.

    `TorchLearner` shows what a step is. The others compute the same, to rounding.
    """

    optimizer: Optimizer  # moves the parameters at each step
    frozen: Sequence[nn.Parameter]  # parameters that a step leaves as they are
    config: PPOConfig  # `PPO` replaces `clip_vloss` together with `frozen`

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

    RogueNet whose engine is "graphs", as on a GPU: `GraphLearner`, for whole minibatches of one process. Else
    `FusedLearner`, which computes with torch where the engine is torch. Every other policy: `TorchLearner`.

    Raises:
        ValueError: `engine="graphs"` with several ranks.
    """
    graphs = isinstance(policy, RogueNet) and policy.engine.name == "graphs"
    asked = isinstance(policy, RogueNet) and policy.settings.engine == "graphs"
    if graphs and asked and ranks.size > 1:
        raise ValueError(f"engine='graphs': expected one process, got {ranks.size}. Use engine='torch'")
    if graphs and config.microbatch_size is None and ranks.size == 1:
        assert isinstance(policy, RogueNet)
        return GraphLearner(policy, optimizer, config)
    if graphs and asked:
        _log.warning("updates run without graphs: microbatch_size splits minibatches")
    if isinstance(policy, RogueNet):
        return FusedLearner(policy, optimizer, config, ranks)
    return TorchLearner(policy, optimizer, config, ranks)
