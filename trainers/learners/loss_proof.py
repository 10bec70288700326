"""Compares PPO's loss and gradients by kernels with those of torch on a few generated rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...envs import sample_actions
from ...policies.engines.fused_engine import FusedEngine
from ...policies.engines.proof import compared, generate, gradients_difference
from ...policies.inputs.prepare import Inputs, Prepared
from ...policies.policy import Evaluation
from ...policies.rogue_net.network import RogueNetwork
from ...ragged import RaggedArray
from ..config import PPOConfig
from ..rollout import Samples
from .losses import Counts, Losses, count

#: Computes the logged losses, and the gradients (P,) in the order of the engine's layout.
Learn = Callable[
    [FusedEngine, Prepared, Samples, Counts, float], tuple[dict[str, float], NDArray[np.float32]]
]

_ENTROPY_COEFFICIENT = 0.03


def loss_difference(
    net: RogueNetwork,
    engine: FusedEngine,
    config: PPOConfig,
    learn: Learn,
    losses_of: Callable[[Evaluation, Samples, Counts, PPOConfig, float], Losses],
) -> str | None:
    """Return the loss or the parameter whose gradient differs between `learn` and torch; None: none does.

    `losses_of` is the loss in torch, `losses.ppo_losses`.
    """
    rng = np.random.default_rng(0)

    def compare() -> str | None:
        batch = generate(net.observation_space, net.settings, rng)
        prepared = Inputs(net.observation_space, net.settings).prepare(batch)
        actions = net.as_drawn(sample_actions(net.action_space, batch, rng))
        evaluation = net.assess(prepared, batch.actions, actions)
        old = {name: _near(chosen, evaluation.log_probs[name], rng) for name, chosen in actions.items()}
        values = (evaluation.values.detach().numpy() + rng.normal(0, 0.2, len(batch))).astype(np.float32)
        advantages, returns = rng.standard_normal((2, len(batch))).astype(np.float32)
        samples = Samples(batch, actions, old, values, advantages, returns)
        counts = count(samples, config.joint_log_prob)
        expected = losses_of(evaluation, samples, counts, config, _ENTROPY_COEFFICIENT)
        numbers, g = learn(engine, prepared, samples, counts, _ENTROPY_COEFFICIENT)
        for name, number in expected.numbers.items():
            if not abs(numbers[name] - number) <= 5e-4 * max(1.0, abs(number)):
                return f"{name} is {numbers[name]:.6g} by kernels, {number:.6g} in torch"
        leaves = dict(net.named_parameters())
        theirs = torch.autograd.grad(expected.total, list(leaves.values()), allow_unused=True)
        by_leaf = engine.gradients_by_tensor(g)
        return gradients_difference(leaves, tuple(by_leaf.get(leaf) for leaf in leaves.values()), theirs)

    return compared(net, rng, compare)


def _near(chosen: RaggedArray, log_probs: Tensor, rng: np.random.Generator) -> RaggedArray:
    """Return log-probabilities that are not quite those of now, so that some ratios are clipped."""
    now: NDArray[Any] = log_probs.detach().numpy()
    return chosen.with_values((now + rng.normal(0, 0.2, len(now))).astype(np.float32))
