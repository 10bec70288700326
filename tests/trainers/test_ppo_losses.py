"""Loss and gradients against a slow implementation: Python loops, float64, finite differences."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from entitize.envs import EntityBatch
from entitize.ragged import RaggedArray
from entitize.trainers import PPOConfig, Samples
from entitize.trainers.learners import normalize_advantages, ppo_losses
from entitize.trainers.learners.losses import count

ENT_COEF = 0.03


@pytest.fixture
def policy(toy_policy: Any) -> Any:
    return toy_policy(scale=0.5, dtype=torch.float64)


@pytest.fixture
def samples(toy_policy: Any, make_toy_batch: Any) -> Samples:
    """24 steps with old log-probabilities and values far enough from the policy's to be clipped sometimes."""
    rng = np.random.default_rng(5)
    batch = make_toy_batch(rng, 24)
    acted = toy_policy(scale=0.7).act(batch, rng)
    old = {
        name: log_probs.with_values(log_probs.values + rng.normal(0, 0.2, log_probs.num_items))
        for name, log_probs in acted.log_probs.items()
    }
    values, advantages = rng.normal(0, 0.3, (2, 24))
    return Samples(batch, acted.actions, old, values, advantages, values + advantages)


def softmax_row(scores: list[float], allowed: list[bool]) -> list[float]:
    weights = [math.exp(s) if a else 0.0 for s, a in zip(scores, allowed, strict=True)]
    return [w / sum(weights) for w in weights]


def slow_distributions(weights: dict[str, np.ndarray], samples: Samples, step: int) -> dict[str, Any]:
    """For each action a list of (probabilities, index of the chosen one), one per actor."""
    batch = samples.observations
    robots, crates = batch.entities["Robot"][step], batch.entities["Crate"][step]
    chosen = {name: samples.actions[name][step].tolist() for name in samples.actions}
    paint, push = batch.actions["Paint"], batch.actions["Push"]
    result: dict[str, Any] = {"Paint": [], "Shout": [], "Push": []}
    for row, actor in enumerate(paint.actors[step]):
        scores = [sum(robots[actor][f] * weights["paint"][f][c] for f in range(2)) for c in range(3)]
        allowed = [bool(flag) for flag in paint.mask[step][row]]
        result["Paint"].append((softmax_row(scores, allowed), chosen["Paint"][row]))
    for row in range(len(chosen["Shout"])):
        scores = [batch.globals[step][0] * weights["shout"][0][c] for c in range(2)]
        result["Shout"].append((softmax_row(scores, [True, True]), chosen["Shout"][row]))
    assert push.actees is not None
    actees = push.actees[step].tolist()
    for row, actor in enumerate(push.actors[step]):
        liking = sum(robots[actor][f] * weights["push"][f] for f in range(2))
        scores = [liking * crates[actee - len(robots)][0] for actee in actees]
        result["Push"].append((softmax_row(scores, [True] * len(actees)), actees.index(chosen["Push"][row])))
    return result


def slow_value(weights: dict[str, np.ndarray], samples: Samples, step: int) -> float:
    value = float(weights["bias"][0])
    for robot in samples.observations.entities["Robot"][step]:
        value += sum(robot[f] * weights["robot_value"][f] for f in range(2))
    for crate in samples.observations.entities["Crate"][step]:
        value += crate[0] * weights["crate_value"][0]
    return value


def slow_loss(weights: dict[str, np.ndarray], samples: Samples, config: PPOConfig) -> dict[str, float]:
    clip, surrogates, entropies, kls, clips, errors = config.clip_coef, [], [], [], [], []
    for step in range(len(samples)):
        units = []  # (log-ratio, entropy)
        for name, actors in slow_distributions(weights, samples, step).items():
            for row, (probabilities, choice) in enumerate(actors):
                log_ratio = math.log(probabilities[choice]) - samples.log_probs[name][step][row]
                units.append((log_ratio, -sum(p * math.log(p) for p in probabilities if p > 0)))
        if config.joint_log_prob and units:
            units = [(sum(log_ratio for log_ratio, _ in units), sum(entropy for _, entropy in units))]
        for log_ratio, entropy in units:
            ratio, advantage = math.exp(log_ratio), samples.advantages[step]
            clipped = min(max(ratio, 1 - clip), 1 + clip)
            surrogates.append(min(ratio * advantage, clipped * advantage))
            entropies.append(entropy)
            kls.append(ratio - 1 - log_ratio)
            clips.append(abs(ratio - 1) > clip)
        value, old, target = slow_value(weights, samples, step), samples.values[step], samples.returns[step]
        error = (value - target) ** 2
        if config.clip_vloss:
            error = max(error, (old + min(max(value - old, -clip), clip) - target) ** 2)
        errors.append(error)
    policy_loss, entropy = -sum(surrogates) / len(surrogates), sum(entropies) / len(entropies)
    value_loss = 0.5 * sum(errors) / len(errors)
    return {
        "loss": policy_loss - ENT_COEF * entropy + config.vf_coef * value_loss,
        "policy_loss": policy_loss,
        "value_loss": value_loss,
        "entropy": entropy,
        "approx_kl": sum(kls) / len(kls),
        "clipfrac": sum(clips) / len(clips),
    }


def weights_of(policy: Any) -> dict[str, np.ndarray]:
    return {name: parameter.detach().numpy().copy() for name, parameter in policy.named_parameters()}


CONFIGS = [
    PPOConfig(),
    PPOConfig(joint_log_prob=True),
    PPOConfig(clip_vloss=False, vf_coef=2.0),
    PPOConfig(clip_coef=0.05),
]


@pytest.mark.parametrize("config", CONFIGS, ids=["default", "joint", "plain values", "tight clip"])
def test_loss_and_gradients_equal_a_slow_implementation(
    policy: Any, samples: Samples, config: PPOConfig
) -> None:
    evaluation = policy.evaluate(samples.observations, samples.actions)
    losses = ppo_losses(evaluation, samples, count(samples, config.joint_log_prob), config, ENT_COEF)
    weights = weights_of(policy)
    expected = slow_loss(weights, samples, config)
    assert 0 < expected["clipfrac"] < 1
    numbers = losses.numbers
    for name, value in expected.items():
        assert numbers[name] == pytest.approx(value, abs=1e-12), name

    losses.total.backward()
    for name, parameter in policy.named_parameters():
        for index in np.ndindex(*parameter.shape):
            sides = []
            for nudge in (1e-6, -1e-6):
                nudged = {**weights, name: weights[name].copy()}
                nudged[name][index] += nudge
                sides.append(slow_loss(nudged, samples, config)["loss"])
            slope = (sides[0] - sides[1]) / 2e-6
            assert float(parameter.grad[index]) == pytest.approx(slope, abs=1e-7), (name, index)


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("size", [1, 5, 8, 100])
def test_accumulated_gradients_equal_those_of_the_whole_minibatch(
    policy: Any, samples: Samples, size: int, joint: bool
) -> None:
    config = PPOConfig(joint_log_prob=joint)
    minibatch = normalize_advantages(samples)
    counts = count(minibatch, joint)
    gradients, numbers = [], []
    for microbatch_size in (None, size):
        policy.zero_grad()
        total = dict.fromkeys(("loss", "policy_loss", "value_loss", "entropy", "approx_kl", "clipfrac"), 0.0)
        for part in minibatch.split(microbatch_size):
            evaluation = policy.evaluate(part.observations, part.actions)
            losses = ppo_losses(evaluation, part, counts, config, ENT_COEF)
            losses.total.backward()
            total = {name: total[name] + losses.numbers[name] for name in total}
        gradients.append(torch.cat([p.grad.flatten() for p in policy.parameters()]))
        numbers.append(total)
    torch.testing.assert_close(gradients[0], gradients[1], rtol=0, atol=1e-12)
    assert numbers[1] == pytest.approx(numbers[0], abs=1e-12)


def test_a_step_with_many_actors_weighs_more_unless_the_ratio_is_joint(policy: Any, samples: Samples) -> None:
    counts = [count(samples, joint) for joint in (False, True)]
    actors = sum(samples.actions[name].num_items for name in samples.actions)
    assert [c.units for c in counts] == [actors, 24]
    assert [c.steps for c in counts] == [24, 24]


def test_steps_at_which_nobody_acts_count_for_the_value_alone(policy: Any, samples: Samples) -> None:
    nobody = RaggedArray.empty(24, (), np.int64)
    silent = replace(
        samples,
        actions=dict.fromkeys(samples.actions, nobody),
        log_probs=dict.fromkeys(samples.actions, nobody.with_values(np.zeros(0))),
        observations=without_actors(samples.observations),
    )
    for joint in (False, True):
        evaluation = policy.evaluate(silent.observations, silent.actions)
        losses = ppo_losses(
            evaluation, silent, count(silent, joint), PPOConfig(joint_log_prob=joint), ENT_COEF
        )
        numbers = losses.numbers
        assert numbers["policy_loss"] == numbers["entropy"] == 0
        assert numbers["loss"] == pytest.approx(0.5 * numbers["value_loss"])


def without_actors(batch: EntityBatch) -> EntityBatch:
    return replace(
        batch,
        actions={
            name: replace(
                mask,
                actors=RaggedArray.empty(len(batch), (), np.int64),
                mask=RaggedArray.empty(len(batch), mask.mask.inner_shape, bool),
            )
            for name, mask in batch.actions.items()
        },
    )


def test_normalized_advantages_have_mean_0_and_deviation_1(samples: Samples) -> None:
    normalized = normalize_advantages(samples)
    assert normalized.advantages.mean() == pytest.approx(0, abs=1e-12)
    assert normalized.advantages.std(ddof=1) == pytest.approx(1, abs=1e-6)
    assert samples.advantages.mean() != pytest.approx(0, abs=1e-3), "the original must stay as it was"
    assert normalize_advantages(samples.gather([3])).advantages.tolist() == [0]
