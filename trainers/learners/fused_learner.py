"""`FusedLearner`: PPO's gradient steps for RogueNet by kernels alone, without torch's autograd."""

from __future__ import annotations

from torch import nn
from torch.optim import Optimizer

from ...policies.engines.fused_engine import FusedEngine
from ...policies.rogue_net import RogueNet
from ..config import PPOConfig
from ..rollout import Samples
from .losses import Counts
from .one_pass import goes_in_one_pass, learn_in_one_pass
from .torch_learner import TorchLearner
from .two_passes import learn_in_two_passes, logged


class FusedLearner(TorchLearner):
    """Makes the gradient steps of `TorchLearner` by the kernels of the fused engine, where that engine runs.

    Networks whose actions are all chosen by softmax go through the kernels in one pass, tile by tile; others,
    and those with a value network of its own or hidden entities, in two passes (forward, then backward).
    """

    def __init__(self, policy: RogueNet, module: nn.Module, optimizer: Optimizer, config: PPOConfig) -> None:
        super().__init__(policy, module, optimizer, config)
        self.net = policy

    def differentiate(self, part: Samples, counts: Counts, ent_coef: float) -> dict[str, float]:
        """Add the gradients of a part of a minibatch; see `TorchLearner.differentiate`."""
        engine = self._engine()
        if engine is None:
            return super().differentiate(part, counts, ent_coef)
        self.net.check_actions(part.observations, part.actions)
        prepared = self.net.inputs.prepare(part.observations)
        simple = prepared.visible is None and not self.config.joint_log_prob
        learn = learn_in_one_pass if simple and goes_in_one_pass(engine.network) else learn_in_two_passes
        g, sums = learn(engine.network, engine.read(), prepared, part, counts, self.config, ent_coef)
        engine.add_gradients(g, prepared)
        return logged(sums, counts, self.config, ent_coef)

    def _engine(self) -> FusedEngine | None:
        """Return the fused engine; None where torch has to compute.

        Torch also runs the `evaluate` of a subclass, and hooks of parameters.
        """
        if type(self.net).evaluate is not RogueNet.evaluate or "evaluate" in vars(self.net):
            return None
        engine = self.net.fused_engine()
        return engine if engine is not None and not engine.has_parameter_hooks() else None
