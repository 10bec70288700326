"""Training that continues from a trained policy: value warm-up, and a penalty for leaving that policy.

Shape alphabet: B steps, T steps of a rollout, E environments.
"""

from __future__ import annotations

from copy import deepcopy

import numpy as np
from numpy.typing import NDArray
from torch import nn

from ..policies import Policy
from .off_policy import log_ratios
from .ranks import Ranks
from .rollout import Samples

#: The modules of a policy whose parameters only the value depends on.
VALUE_MODULES = ("value_head", "value_net", "critic")


def policy_parameters(policy: Policy) -> list[nn.Parameter]:
    """Return the parameters of a policy that its actions depend on: all but those of `VALUE_MODULES`.

    Raises:
        ValueError: the policy has no module of these names.
    """
    module_of = {parameter: name.partition(".")[0] for name, parameter in policy.named_parameters()}
    if not any(hasattr(policy, name) for name in VALUE_MODULES):
        raise ValueError(
            f"value_warmup_steps: {type(policy).__name__}: expected a module named"
            f" {' or '.join(VALUE_MODULES)}, got {', '.join(dict.fromkeys(module_of.values()))}"
        )
    return [parameter for parameter, module in module_of.items() if module not in VALUE_MODULES]


class StartingPolicy:
    """The policy that training started from, π₀, and the penalty for leaving it.

        r' = r − β Σ over all actors and actions of (log π(a) − log π₀(a))

    Over the actions of π the expectation of the sum is the KL divergence of the joint action, KL(π ‖ π₀).
    This is the penalty of Ziegler et al. 2019 (arXiv:1909.08593), as used for language models.

    Args:
        policy: is copied.
        ranks: the processes that train together.

    Attributes:
        kl: the mean of the sum over the steps of all ranks in the last rollout, an estimate of KL(π ‖ π₀).
        coef: β in the last rollout.
    """

    def __init__(self, policy: Policy, ranks: Ranks) -> None:
        self.policy: Policy = deepcopy(policy)
        self.policy.train(False)
        self.ranks = ranks
        self.kl = self.coef = 0.0

    def take(self, policy: Policy) -> None:
        """Copy the weights and statistics of `policy`."""
        self.policy.load_state_dict(policy.state_dict())

    def penalized(
        self, rewards: NDArray[np.float32], samples: Samples, active: NDArray[np.bool_], coef: float
    ) -> NDArray[np.float32]:
        """Return the rewards (T, E) less the penalty; `rewards` themselves where there is none.

        Args:
            samples: the rollout, a row for each step that is `active` (T, E), in this order.
            coef: β.
        """
        self.coef = coef
        if not coef:
            return rewards
        # Σ (log π(a) − log π₀(a)) of each step, with π as the actions were taken
        ratios = log_ratios(self.policy, samples)[0] if len(samples) else np.zeros(0)
        of_all, _ = self.ranks.concatenate(ratios)
        if len(of_all):
            self.kl = float(of_all.mean())
        if not len(ratios):
            return rewards
        penalties = np.zeros(rewards.shape)
        penalties[active] = coef * ratios
        return (rewards - penalties).astype(np.float32)

    def metrics(self) -> dict[str, float]:
        """Return what to log; no divergence where it was not computed."""
        kl = {"losses/start_kl": self.kl} if self.coef else {}
        return {**kl, "charts/start_kl_coef": self.coef}
