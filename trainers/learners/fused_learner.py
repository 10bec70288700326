"""`FusedLearner`: PPO's gradient steps for RogueNet by kernels alone, without torch's autograd.

Shape alphabet: B steps, A actors of one action, P numbers of all parameters.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.optim import Optimizer

from ...policies import Evaluation
from ...policies.engines.fused_engine import FusedEngine
from ...policies.engines.proof import compared, gradients_difference
from ...policies.inputs import Inputs, Prepared, generate
from ...policies.rogue_net import RogueNet, RogueNetwork
from ...ragged import RaggedArray
from ..config import PPOConfig
from ..ranks import ALONE, Ranks
from ..rollout import Samples
from . import losses, torch_learner
from .losses import (
    CLIPPED,
    ENTROPY,
    KL,
    LOG_RATIO,
    POLICY,
    VALUE,
    Counts,
    Losses,
    actor_units,
    add_actors,
    count,
    step_units,
    value_errors,
)
from .torch_learner import TorchLearner

#: Computes the logged losses, and the gradients (P,) in the order of the engine's layout.
Learn = Callable[
    [FusedEngine, Prepared, Samples, Counts, float], tuple[dict[str, float], NDArray[np.float32]]
]

_ENTROPY_COEFFICIENT = 0.03


def loss_difference(
    network: RogueNetwork,
    config: PPOConfig,
    learn: Learn,
    losses_of: Callable[[Evaluation, Samples, Counts, PPOConfig, float], Losses],
) -> str | None:
    """Return the loss or the parameter whose gradient differs between `learn` and torch; None: none does.

    `losses_of` is the loss in torch, `losses.ppo_losses`.
    """
    rng = np.random.default_rng(0)

    def compare(net: RogueNetwork) -> str | None:
        engine = FusedEngine(net)
        batch = generate(net.observation_space, net.settings, rng)
        prepared = Inputs(net.observation_space, net.settings).prepare(batch)
        with torch.no_grad():  # what the network draws has all that its options need
            actions = net.draw(prepared, batch.actions, rng).raw
        evaluation = net.assess(prepared, batch.actions, actions)
        old = {name: _near(chosen, evaluation.log_probs[name], rng) for name, chosen in actions.items()}
        values = (evaluation.values.detach().numpy() + rng.normal(0, 0.2, len(batch))).astype(np.float32)
        advantages, returns = rng.standard_normal((2, len(batch))).astype(np.float32)
        samples = Samples(batch, actions, old, values, advantages, returns)
        counts = count(samples, config.joint_log_prob)
        expected = losses_of(evaluation, samples, counts, config, _ENTROPY_COEFFICIENT)
        numbers, g = learn(engine, prepared, samples, counts, _ENTROPY_COEFFICIENT)
        for name, number in expected.numbers.items():
            if name not in numbers:
                return f"the kernels do not compute {name}"
            if not abs(numbers[name] - number) <= 5e-4 * max(1.0, abs(number)):
                return f"{name} is {numbers[name]:.6g} by kernels, {number:.6g} in torch"
        leaves = dict(net.named_parameters())
        theirs = torch.autograd.grad(expected.total, list(leaves.values()), allow_unused=True)
        by_leaf = engine.gradients_by_tensor(g)
        return gradients_difference(leaves, tuple(by_leaf.get(leaf) for leaf in leaves.values()), theirs)

    return compared(network, rng, compare, learns=True)


def _near(chosen: RaggedArray, log_probs: Tensor, rng: np.random.Generator) -> RaggedArray:
    """Return log-probabilities other than those of now, so that ratios are clipped; some differ by far."""
    now: NDArray[Any] = log_probs.detach().numpy()
    spread = rng.choice([0.2, 2.0], len(now))
    return chosen.with_values((now + rng.normal(0, spread)).astype(np.float32))


_log = logging.getLogger(__name__)


def learning_engine(net: RogueNet) -> FusedEngine | None:
    """Return the fused engine; None where torch has to compute.

    Torch also runs the `evaluate` of a subclass, and hooks of parameters.
    """
    if type(net).evaluate is not RogueNet.evaluate or "evaluate" in vars(net):
        return None
    engine = net.fused_engine()
    return engine if engine is not None and not engine.has_parameter_hooks() else None


class FusedLearner(TorchLearner):
    """Makes the gradient steps of `TorchLearner` with the kernels of the fused engine, where it runs."""

    policy: RogueNet

    def __init__(
        self,
        policy: RogueNet,
        optimizer: Optimizer,
        config: PPOConfig,
        ranks: Ranks = ALONE,
    ) -> None:
        super().__init__(policy, optimizer, config, ranks)
        #: The last engine, and loss with its configuration, that were compared with torch, and what differs.
        self._compared: tuple[FusedEngine, object, str | None] | None = None

    def differentiate(self, part: Samples, counts: Counts, ent_coef: float) -> dict[str, float]:
        """Add the gradients of a part of a minibatch; see `TorchLearner.differentiate`."""
        engine = learning_engine(self.policy)
        if engine is None or self._differs(engine):
            return super().differentiate(part, counts, ent_coef)
        self.policy.check_actions(part.observations, part.actions)
        prepared = self.policy.inputs.prepare(part.observations)
        losses, g = self._learn(engine, prepared, part, counts, ent_coef)
        engine.add_gradients(g, prepared)
        return losses

    def _learn(
        self, engine: FusedEngine, prepared: Prepared, part: Samples, counts: Counts, ent_coef: float
    ) -> tuple[dict[str, float], NDArray[np.float32]]:
        """Return the losses, and the gradients (P,) in the order of the engine's layout."""
        network, weights, masks = engine.network, engine.read(), part.observations.actions
        log_probs, entropies, encoded = network.evaluate(prepared, masks, part.actions, weights)
        sums, d = loss_and_gradients(
            log_probs,
            entropies,
            encoded.values,
            part,
            counts,
            self.config,
            ent_coef,
        )
        g = network.gradients(encoded, weights, d.log_probs, d.entropies, d.values)
        return logged(sums, counts, self.config, ent_coef), g

    def _differs(self, engine: FusedEngine) -> bool:
        """Return True if the kernels' loss is not torch's, compared once for each engine and loss."""
        definitions = torch_learner.ppo_losses, losses.loss_terms
        source = *((each, each.__code__) for each in definitions), self.config
        if self._compared is None or self._compared[0] is not engine or self._compared[1] != source:
            found = loss_difference(self.policy, self.config, self._learn, torch_learner.ppo_losses)
            self._compared = engine, source, found
            if found is not None:
                _log.warning("updates run without the loss's kernels: %s", found)
        return self._compared[2] is not None


class LossGradients(NamedTuple):
    """The derivatives of the loss by the outputs of the network."""

    log_probs: dict[str, NDArray[Any]]  # per action (A,)
    entropies: dict[str, NDArray[Any]]  # per action (A,)
    values: NDArray[Any]  # (B,)


def loss_and_gradients(
    log_probs: Mapping[str, NDArray[Any]],
    entropies: Mapping[str, NDArray[Any]],
    values: NDArray[Any],
    samples: Samples,
    counts: Counts,
    config: PPOConfig,
    ent_coef: float,
) -> tuple[NDArray[np.float64], LossGradients]:
    """Return the sums (6,), at `POLICY` to `VALUE`, and the gradients of `ppo_losses` by the outputs.

    Arrays are float32 or float64.
    """
    sums = np.zeros(6)
    scale, share = 1.0 / counts.units, 0.5 / counts.steps
    ratios = _joint if config.joint_log_prob else _apart
    d_log_probs = ratios(log_probs, entropies, samples, config.clip_coef, scale, sums)
    d_entropies = {name: np.full_like(log_probs[name], -ent_coef * scale) for name in samples.actions}
    d_values = np.empty_like(values)
    sums[VALUE] = value_errors(
        values,
        samples.values,
        samples.returns,
        config.clip_vloss,
        config.clip_coef,
        config.vf_coef * share,
        d_values,
    )
    return sums, LossGradients(d_log_probs, d_entropies, d_values)


def logged(sums: NDArray[np.float64], counts: Counts, config: PPOConfig, ent_coef: float) -> dict[str, float]:
    """Return the numbers of `ppo_losses` from the sums (6,) of the kernels."""
    means, value_loss = (sums / counts.units).tolist(), 0.5 * float(sums[VALUE]) / counts.steps
    return {
        "loss": means[POLICY] - ent_coef * means[ENTROPY] + config.vf_coef * value_loss,
        "policy_loss": means[POLICY],
        "value_loss": value_loss,
        "entropy": means[ENTROPY],
        "approx_kl": means[KL],
        "old_approx_kl": -means[LOG_RATIO],
        "clipfrac": means[CLIPPED],
    }


def _apart(
    log_probs: Mapping[str, NDArray[Any]],
    entropies: Mapping[str, NDArray[Any]],
    samples: Samples,
    clip: float,
    scale: float,
    sums: NDArray[np.float64],
) -> dict[str, NDArray[Any]]:
    """Return the gradients (A,) of each action where every actor is a unit; add to `sums`."""
    gradients = {}
    for name, old in samples.log_probs.items():
        gradients[name] = np.empty_like(log_probs[name])
        actor_units(
            log_probs[name],
            old.values,
            entropies[name],
            old.offsets,
            samples.advantages,
            clip,
            scale,
            gradients[name],
            sums,
        )
    return gradients


def _joint(
    log_probs: Mapping[str, NDArray[Any]],
    entropies: Mapping[str, NDArray[Any]],
    samples: Samples,
    clip: float,
    scale: float,
    sums: NDArray[np.float64],
) -> dict[str, NDArray[Any]]:
    """Return the same with one ratio per step."""
    log_ratios, acts = np.zeros(len(samples)), np.zeros(len(samples), bool)
    for name, old in samples.log_probs.items():
        add_actors(log_probs[name], old.values, entropies[name], old.offsets, log_ratios, acts, sums)
    gradient = np.empty(len(samples))
    step_units(log_ratios, acts, samples.advantages, clip, scale, gradient, sums)
    return {
        name: old.broadcast(gradient).astype(log_probs[name].dtype) for name, old in samples.log_probs.items()
    }
