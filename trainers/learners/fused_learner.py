"""`FusedLearner`: PPO's gradient steps for RogueNet by kernels alone, without torch's autograd."""

from __future__ import annotations

import logging

import numpy as np
from numpy.typing import NDArray
from torch import nn
from torch.optim import Optimizer

from ...policies.engines.fused_engine import FusedEngine
from ...policies.inputs.prepare import Prepared
from ...policies.rogue_net import RogueNet
from ..config import PPOConfig
from ..rollout import Samples
from . import torch_learner
from .loss_proof import loss_difference
from .losses import Counts
from .one_pass import goes_in_one_pass, learn_in_one_pass
from .torch_learner import TorchLearner
from .two_passes import learn_in_two_passes, logged

_log = logging.getLogger(__name__)


class FusedLearner(TorchLearner):
    """Makes the gradient steps of `TorchLearner` by the kernels of the fused engine, where that engine runs.

    Networks whose actions are all chosen by softmax go through the kernels in one pass, tile by tile; others,
    and those with a value network of its own or hidden entities, in two passes (forward, then backward).
    """

    def __init__(self, policy: RogueNet, module: nn.Module, optimizer: Optimizer, config: PPOConfig) -> None:
        super().__init__(policy, module, optimizer, config)
        self.net = policy
        #: The last engine and loss that were compared with torch, and what differs.
        self._compared: tuple[FusedEngine, object, str | None] | None = None

    def differentiate(self, part: Samples, counts: Counts, ent_coef: float) -> dict[str, float]:
        """Add the gradients of a part of a minibatch; see `TorchLearner.differentiate`."""
        engine = self._engine()
        if engine is None or self._differs(engine):
            return super().differentiate(part, counts, ent_coef)
        self.net.check_actions(part.observations, part.actions)
        prepared = self.net.inputs.prepare(part.observations)
        losses, g = self._learn(engine, prepared, part, counts, ent_coef)
        engine.add_gradients(g, prepared)
        return losses

    def _learn(
        self, engine: FusedEngine, prepared: Prepared, part: Samples, counts: Counts, ent_coef: float
    ) -> tuple[dict[str, float], NDArray[np.float32]]:
        """Return the losses, and the gradients (P,) in the order of the engine's layout."""
        simple = prepared.visible is None and not self.config.joint_log_prob
        learn = learn_in_one_pass if simple and goes_in_one_pass(engine.network) else learn_in_two_passes
        g, sums = learn(engine.network, engine.read(), prepared, part, counts, self.config, ent_coef)
        return logged(sums, counts, self.config, ent_coef), g

    def _engine(self) -> FusedEngine | None:
        """Return the fused engine; None where torch has to compute.

        Torch also runs the `evaluate` of a subclass, and hooks of parameters.
        """
        if type(self.net).evaluate is not RogueNet.evaluate or "evaluate" in vars(self.net):
            return None
        engine = self.net.fused_engine()
        return engine if engine is not None and not engine.has_parameter_hooks() else None

    def _differs(self, engine: FusedEngine) -> bool:
        """Return whether the kernels' loss is another one than torch's, compared once for each engine."""
        source = torch_learner.ppo_losses, torch_learner.ppo_losses.__code__
        if self._compared is None or self._compared[0] is not engine or self._compared[1] != source:
            found = loss_difference(self.net, engine, self.config, self._learn, torch_learner.ppo_losses)
            self._compared = engine, source, found
            if found is not None:
                _log.warning("updates run without the loss's kernels: %s", found)
        return self._compared[2] is not None
