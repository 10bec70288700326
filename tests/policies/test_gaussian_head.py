"""Continuous actions: densities and entropies against torch.distributions, samples, bounds, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from entitize import RogueNet
from entitize.envs import (
    ActionMask,
    Categorical,
    Continuous,
    EntityActionSpace,
    EntityBatch,
    EntitySpace,
    GlobalContinuous,
    validate_actions,
)
from entitize.policies.inputs import units
from entitize.ragged import RaggedArray
from torch import distributions

from facts import raises

INFINITE = float("inf")


def steering(low: Any, high: Any, **options: Any) -> RogueNet:
    """A network without blocks for robots that steer, with random weights."""
    actions = EntityActionSpace({"steer": Continuous(low, high)})
    net = RogueNet(EntitySpace({"Robot": ("x", "y")}, actions), actions, d_model=8, n_layer=0, **options)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return net


def robots(counts: list[int], repeats: int = 1) -> EntityBatch:
    """Steps with so many robots, all of which steer; `repeats`: each step as often with the same robots."""
    rng = np.random.default_rng(0)
    steps = [step for count in counts for step in [rng.standard_normal((count, 2))] * repeats]
    actors = RaggedArray.from_arrays([np.arange(len(s)) for s in steps], dtype=np.int64, inner_shape=())
    mask = RaggedArray(np.zeros((actors.num_items, 0), bool), actors.offsets)
    rows = RaggedArray.from_arrays(steps, dtype=np.float32, inner_shape=(2,))
    return EntityBatch(
        {"Robot": rows}, np.zeros((len(steps), 0), np.float32), {"steer": ActionMask(actors, mask)}
    )


def reference(net: RogueNet, batch: EntityBatch) -> tuple[Any, list[Any]]:
    """The distribution of each robot's numbers in the units of the action, and its transforms."""
    head: Any = net.action_heads["steer"]
    x = net.policy_net.embedding(net.inputs.prepare(batch), net.normalization, head.log_std)
    low, high = (torch.from_numpy(bound).double() for bound in (head.action.low, head.action.high))
    transforms: list[Any] = [distributions.AffineTransform((low + high) / 2, (high - low) / 2, cache_size=1)]
    if net.settings.squash:
        transforms = [distributions.TanhTransform(cache_size=1), *transforms]
    normal = distributions.Normal(head.proj(x), head.log_std.exp())
    return distributions.TransformedDistribution(normal, transforms), transforms


@pytest.mark.parametrize("squash", [False, True])
@pytest.mark.parametrize("reach", [1.0, 12.0])
def test_log_probabilities_and_their_gradients_are_those_of_torch_distributions(
    squash: bool, reach: float
) -> None:
    net = steering([-1, 2, 100], [1, 7, 100.5], squash=squash).double()
    batch = robots([2, 0, 1, 5])
    drawn = batch.actions["steer"].actors.with_values(
        np.random.default_rng(1).normal(0, reach, (8, 3)).astype(np.float32)
    )
    ours = net.evaluate(batch, {"steer": drawn}).log_probs["steer"]
    distribution, transforms = reference(net, batch)
    action = torch.from_numpy(drawn.values).double()
    for transform in transforms:
        action = transform(action)
    expected = distribution.log_prob(action).sum(1)
    torch.testing.assert_close(ours, expected, rtol=1e-9, atol=1e-7)

    weights = torch.linspace(-1, 1, 8, dtype=torch.float64)
    gradients = []
    for log_probs in (ours, expected):
        net.zero_grad()
        (log_probs * weights).sum().backward(retain_graph=True)
        gradients.append({n: p.grad.clone() for n, p in net.named_parameters() if p.grad is not None})
    assert gradients[0].keys() == gradients[1].keys() >= {"action_heads.steer.log_std"}
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradient, gradients[1][name], rtol=1e-7, atol=1e-7)


def test_the_entropy_of_normal_numbers_is_that_of_torch_distributions() -> None:
    net = steering([-1, 2, 100], [1, 7, 100.5]).double()
    batch = robots([2, 0, 1, 5])
    drawn = net.act(batch, np.random.default_rng(0)).raw
    ours = net.evaluate(batch, drawn).entropies["steer"]
    distribution, transforms = reference(net, batch)
    expected = distribution.base_dist.entropy().sum(1) + transforms[0].scale.log().sum()
    torch.testing.assert_close(ours, expected, rtol=1e-12, atol=1e-12)
    gradients = torch.autograd.grad(ours.sum(), net.action_heads["steer"].log_std)
    torch.testing.assert_close(gradients[0], torch.full((3,), 8.0, dtype=torch.float64))


def test_the_entropy_of_squashed_numbers_is_the_mean_of_minus_the_log_probability() -> None:
    """With its gradient, by samples that move along with mean and deviation."""
    net = steering([-1, 2, 100], [1, 7, 100.5], squash=True, log_std_init=-0.3).double()
    batch = robots([2, 1])
    drawn = net.act(batch, np.random.default_rng(0)).raw
    ours = net.evaluate(batch, drawn).entropies["steer"]
    torch.manual_seed(0)
    distribution, _ = reference(net, batch)
    actions = distribution.rsample((20_000,))
    sampled = -distribution.log_prob(actions).sum(2).mean(0)
    torch.testing.assert_close(ours, sampled, rtol=0, atol=0.04)
    head = net.action_heads["steer"]
    gradients = [torch.autograd.grad(e.sum(), [head.log_std, head.proj.bias]) for e in (ours, sampled)]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0.08)
    assert any(float(part.abs().max()) > 0.3 for part in gradients[0]), "there must be something to compare"


@pytest.mark.parametrize("squash", [False, True])
def test_samples_have_the_moments_of_the_distribution(squash: bool) -> None:
    net = steering([-1, 2], [1, 7], squash=squash, log_std_init=-0.7)
    repeats = 40_000
    batch = robots([2, 1], repeats)
    result = net.act(batch, np.random.default_rng(3))
    first = net.act(robots([2, 1]), np.random.default_rng(0), deterministic=True).raw["steer"].values
    std = net.action_heads["steer"].log_std.exp().detach().numpy()
    drawn, actions = result.raw["steer"].values, result.actions["steer"].values
    parts = [drawn[: 2 * repeats].reshape(repeats, 2, 2), drawn[2 * repeats :].reshape(repeats, 1, 2)]
    together = np.concatenate(parts, 1)  # (repeats, robots, K)
    np.testing.assert_allclose(together.mean(0), first, atol=5 * std.max() / np.sqrt(repeats))
    np.testing.assert_allclose(together.std(0), np.tile(std, (3, 1)), rtol=0.02)
    correlations = np.corrcoef(together.reshape(repeats, -1).T) - np.eye(6)
    assert np.abs(correlations).max() < 0.03, "numbers are independent of each other"
    unit = np.tanh(drawn) if squash else np.clip(drawn, -1, 1)
    np.testing.assert_allclose(actions, [0, 4.5] + [1, 2.5] * unit, rtol=1e-6, atol=1e-6)


def test_a_fresh_network_tries_the_middle_and_all_of_the_range() -> None:
    for options, deviation in (({}, 1.0), ({"log_std_init": -1.0}, np.exp(-1))):
        actions = EntityActionSpace({"steer": Continuous([100, -2], [300, 2])})
        net = RogueNet(EntitySpace({"Robot": ("x", "y")}, actions), actions, **options)
        batch = robots([1], 5000)
        best = net.act(batch, np.random.default_rng(0), deterministic=True).actions["steer"].values
        np.testing.assert_allclose(best, np.tile([200, 0], (5000, 1)), atol=5)
        np.testing.assert_allclose(
            net.act(batch, np.random.default_rng(0)).raw["steer"].values.std(0), deviation, rtol=0.05
        )


@pytest.mark.parametrize(
    ("low", "high", "origin", "scale"),
    [
        (-2, 2, 0, 2),
        (10, 11, 10.5, 0.5),
        (-INFINITE, INFINITE, 0, 1),
        (0, INFINITE, 0, 1),
        (5, INFINITE, 5, 1),
        (-INFINITE, -3, -3, 1),
        (-np.finfo(np.float32).max, np.finfo(np.float32).max, 0, 1),
        (-1, np.finfo(np.float32).max, 0, 1),
    ],
)
def test_a_unit_is_half_the_range_or_where_there_is_none_that_of_the_action(
    low: float, high: float, origin: float, scale: float
) -> None:
    space = Continuous(low, high)
    assert [part.tolist() for part in units(space)] == [[origin], [scale]]
    net = steering(low, high)
    batch = robots([3, 0, 2])
    result = net.act(batch, np.random.default_rng(0))
    drawn = origin + scale * result.raw["steer"].values.astype(np.float64)
    np.testing.assert_allclose(result.actions["steer"].values, drawn.clip(low, high), rtol=1e-6)
    log_probs = net.evaluate(batch, result.raw).log_probs["steer"].detach()
    np.testing.assert_allclose(result.log_probs["steer"].values, log_probs, rtol=1e-6)


@pytest.mark.parametrize("squash", [False, True])
def test_actions_are_legal_however_far_the_numbers_are(squash: bool) -> None:
    net = steering([-0.1, 1e-3], [0.3, 1e3], squash=squash, log_std_init=4.0)
    batch = robots([4, 0, 1], 50)
    actions = net.act(batch, np.random.default_rng(0)).actions
    checked = validate_actions(net.observation_space, batch, actions)
    assert checked["steer"] == actions["steer"] and actions["steer"].dtype == np.float32
    assert (actions["steer"].values == net.action_space["steer"].low).any(), "some are at the bound"
    evaluation = net.evaluate(batch, net.act(batch, np.random.default_rng(0)).raw)
    (evaluation.log_probs["steer"].sum() + evaluation.entropies["steer"].sum()).backward()
    assert all(torch.isfinite(p.grad).all() for p in net.parameters() if p.grad is not None)


def test_deterministic_takes_the_mean_and_draws_nothing() -> None:
    for squash in (False, True):
        net = steering([-2, 0], [2, 10], squash=squash)
        batch = robots([2, 1])
        rng = np.random.default_rng(0)
        before = rng.bit_generator.state
        result = net.act(batch, rng, deterministic=True)
        assert rng.bit_generator.state == before
        mean = reference(net, batch)[0].base_dist.loc.detach().numpy()
        np.testing.assert_allclose(result.raw["steer"].values, mean, rtol=1e-5)
        unit = np.tanh(mean) if squash else mean.clip(-1, 1)
        np.testing.assert_allclose(result.actions["steer"].values, [0, 5] + [2, 5] * unit, rtol=1e-5)


def test_categorical_and_continuous_actions_stand_side_by_side() -> None:
    """One of each per step: the categorical one is what it is without the other."""
    throttle = GlobalContinuous(0.0, 1.0)
    both = EntityActionSpace({"gear": Categorical(3), "throttle": throttle})
    space = EntitySpace({"Car": ("speed",)}, both)
    torch.manual_seed(0)
    net = RogueNet(space, both)
    cars = RaggedArray.from_lengths(np.array([[0.1], [0.2], [0.3]], np.float32), [2, 1])
    gear = ActionMask(
        RaggedArray.from_lengths([0, 1, 0], [2, 1]), RaggedArray.from_lengths(np.ones((3, 3), bool), [2, 1])
    )
    step = RaggedArray.from_lengths([-1], [0, 1])  # at the first step there is no throttle
    batch = EntityBatch(
        {"Car": cars},
        np.zeros((2, 0), np.float32),
        {"gear": gear, "throttle": ActionMask(step, step.with_values(np.zeros((1, 0), bool)))},
    )
    result = net.act(batch, np.random.default_rng(0))
    assert result.actions["gear"].dtype == np.int64 and result.actions["gear"] == result.raw["gear"]
    assert result.actions["throttle"].lengths.tolist() == [0, 1]
    assert 0 <= float(result.actions["throttle"].values[0, 0]) <= 1
    evaluation = net.evaluate(batch, result.raw)
    assert {n: len(p) for n, p in evaluation.log_probs.items()} == {"gear": 3, "throttle": 1}
    for name in both:
        np.testing.assert_allclose(
            result.log_probs[name].values, evaluation.log_probs[name].detach(), rtol=1e-6
        )


@pytest.mark.parametrize("squash", [False, True])
def test_actions_of_other_origin_can_be_evaluated(squash: bool) -> None:
    net = steering([-1, 2], [1, 7], squash=squash)
    batch = robots([3, 2])
    result = net.act(batch, np.random.default_rng(0))
    inside = net.as_raw(result.actions)["steer"].values
    free = (result.actions["steer"].values > [-1, 2]) & (result.actions["steer"].values < [1, 7])
    np.testing.assert_allclose(inside[free], result.raw["steer"].values[free], rtol=1e-4, atol=1e-5)
    at_bounds = result.actions["steer"].with_values(np.tile(np.float32([-1, 7]), (5, 1)))
    evaluation = net.evaluate(batch, net.as_raw({"steer": at_bounds}))
    assert torch.isfinite(evaluation.log_probs["steer"]).all()
    unit = net.as_raw({"steer": at_bounds})["steer"].values
    assert (np.abs(unit) > 8).all() if squash else np.array_equal(unit, np.tile([-1, 1], (5, 1)))


def test_squashing_needs_bounds_and_names_the_action_that_has_none() -> None:
    with raises(ValueError, "action 'steer'", "squash=True", 1, "0.0", "inf"):
        steering([-1, 0], [1, INFINITE], squash=True)
    with raises(ValueError, "action 'steer'", "squash=True", 0):
        steering(-np.finfo(np.float32).max, 1, squash=True)


def test_wrong_numbers_are_named() -> None:
    net = steering([-1, 2], [1, 7])
    batch = robots([2, 0, 1])
    actors = batch.actions["steer"].actors
    with raises(ValueError, "'steer'", 2, "float32", "(3,)"):
        net.evaluate(batch, {"steer": actors.with_values(np.zeros((3, 3), np.float32))})
    with raises(ValueError, "'steer'", 2, "int64"):
        net.evaluate(batch, {"steer": actors.with_values(np.zeros((3, 2), np.int64))})
    numbers = np.zeros((3, 2), np.float32)
    numbers[2, 1] = np.nan
    with raises(ValueError, "'steer'", "step 2: ", "number 1", "nan"):
        net.evaluate(batch, {"steer": actors.with_values(numbers)})
    with raises(ValueError, "'steer'", "step 2: ", "number 1", "nan"):
        net.as_raw({"steer": actors.with_values(numbers)})
    wide = ActionMask(actors, actors.with_values(np.ones((3, 1), bool)))
    with raises(ValueError, "'steer'", "mask", "(3, 1)", "(3, 0)"):
        net.act(EntityBatch(batch.entities, batch.globals, {"steer": wide}), np.random.default_rng(0))
    with torch.no_grad():
        net.action_heads["steer"].proj.bias[0] = float("nan")
    with raises(ValueError, "'steer'", "step 0", "number 0", "nan"):
        net.act(batch, np.random.default_rng(0))


def test_the_former_name_of_raw_actions_warns() -> None:
    result = steering([-1, 2], [1, 7]).act(robots([2, 1]), np.random.default_rng(0))
    with pytest.warns(DeprecationWarning, match="raw"):
        assert result.drawn is result.raw
