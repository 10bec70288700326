"""Losses and gradients of the fused learner against torch in float64."""

from __future__ import annotations

from dataclasses import replace
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
    GlobalCategorical,
    GlobalContinuous,
    MultiCategorical,
    SelectEntity,
)
from entitize.policies.kernels import parallel
from entitize.ragged import RaggedArray
from entitize.trainers import PPOConfig, Samples
from entitize.trainers.learners import AdamW, FusedLearner, ppo_losses
from entitize.trainers.learners.losses import Counts, count
from hypothesis import given, settings
from hypothesis import strategies as st

from facts import raises
from nets import fused_net, in_torch, sampled_batch

ACTIONS: dict[str, Any] = {
    "each": Categorical(5),
    "step": GlobalCategorical(3),
    "order": MultiCategorical({"kind": ["wait", "go"], "where": 4}, uses={"go": ["where"]}),
    "aim": SelectEntity(),
}


def make_nets(names: list[str], seed: int, **options: Any) -> tuple[RogueNet, RogueNet]:
    """A random network, and the same on torch in float64; types of 0, 3 and 20 features."""
    types = {"a": ["x", "y", "z"], "b": [], "c": [f"f{i}" for i in range(20)]}
    space = EntitySpace(types, EntityActionSpace({name: ACTIONS[name] for name in names}), ["g"])
    fused = fused_net(space, seed, 0.1, **options)
    return fused, in_torch(fused).double()


def make_samples(net: RogueNet, batch: EntityBatch, seed: int) -> Samples:
    """Chances and values that are not quite those of now, so that some are clipped."""
    rng = np.random.default_rng(seed)

    def near(numbers: Any, deviation: float) -> Any:
        return (numbers + rng.normal(0, deviation, np.shape(numbers))).astype(np.float32)

    got = net.act(batch, rng)
    old = {name: r.with_values(near(r.values, 0.2)) for name, r in got.log_probs.items()}
    advantages, returns = rng.standard_normal((2, len(batch))).astype(np.float32)
    return Samples(batch, got.raw, old, near(got.values, 0.3), advantages, returns)


def differentiate(
    net: RogueNet, samples: Samples, counts: Counts, config: PPOConfig, ent_coef: float = 0.03
) -> dict[str, float]:
    """The losses by the fused learner, which adds the gradients to the network's."""
    return FusedLearner(net, AdamW(net.parameters()), config).differentiate(samples, counts, ent_coef)


def expected_of(
    exact: RogueNet, samples: Samples, config: PPOConfig, counts: Any
) -> tuple[dict[str, float], dict[str, Any]]:
    exact.zero_grad()
    losses = ppo_losses(exact.evaluate(samples.observations, samples.actions), samples, counts, config, 0.03)
    losses.total.backward()
    return losses.numbers, {name: p.grad for name, p in exact.named_parameters()}


def assert_alike(fused: RogueNet, exact: RogueNet, samples: Samples, config: PPOConfig) -> None:
    counts = count(samples, False)
    fused.zero_grad()
    numbers = differentiate(fused, samples, counts, config)
    expected, gradients = expected_of(exact, samples, config, counts)
    assert numbers == pytest.approx(expected, rel=1e-4, abs=1e-5)
    for name, parameter in fused.named_parameters():
        wanted, got = gradients[name], parameter.grad
        assert (got is None) == (wanted is None), name
        if got is not None:
            assert float((got - wanted).abs().max()) < 1e-4 * max(0.1, float(wanted.abs().max())), name


@settings(max_examples=15)
@given(data=st.data())
def test_losses_and_gradients_are_those_of_torch_in_float64(data: st.DataObject) -> None:
    def draw(strategy: Any) -> Any:
        return data.draw(strategy)

    n_head, seed = draw(st.sampled_from([1, 2, 4])), draw(st.integers(0, 1000))
    fused, exact = make_nets(
        draw(st.lists(st.sampled_from(list(ACTIONS)), min_size=1, unique=True)),
        seed,
        d_model=4 * n_head * draw(st.integers(1, 24 // n_head)),
        n_head=n_head,
        n_layer=draw(st.integers(0, 3)),
        composite=draw(st.sampled_from(["used", "all"])),
        global_features=draw(st.sampled_from(["entity", "concat"])),
    )
    samples = make_samples(
        fused, sampled_batch(fused.observation_space, draw(st.integers(0, 12)), seed), seed
    )
    assert_alike(fused, exact, samples, PPOConfig(clip_vloss=draw(st.booleans()), clip_coef=0.15))


@pytest.mark.parametrize("threads", [1, 3])
def test_many_steps_fill_tiles_and_threads(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "allowed_threads", lambda: threads)
    monkeypatch.setattr(parallel, "ROWS_PER_THREAD", 100)
    fused, exact = make_nets(["each"], 0, d_model=16)
    rng = np.random.default_rng(0)
    lengths = rng.integers(0, 9, (2, 120))
    lengths[0, 40] = 300  # a step that is longer than a tile stands between others
    actors = RaggedArray.from_lengths(np.zeros((lengths[0] > 0).sum(), np.int64), np.minimum(lengths[0], 1))
    mask = RaggedArray.from_lengths(rng.random((actors.num_items, 5)) < 0.8, actors.lengths)
    mask.values[:, 2] = True
    entities = {
        "a": RaggedArray.from_lengths(rng.standard_normal((lengths[0].sum(), 3), np.float32), lengths[0]),
        "c": RaggedArray.from_lengths(rng.standard_normal((lengths[1].sum(), 20), np.float32), lengths[1]),
    }
    batch = EntityBatch(entities, np.ones((120, 1), np.float32), {"each": ActionMask(actors, mask)})
    assert_alike(fused, exact, make_samples(fused, batch, 1), PPOConfig())


def test_parts_of_a_minibatch_add_up() -> None:
    fused, exact = make_nets(["order", "aim"], 3, d_model=8, n_layer=1)
    samples = make_samples(fused, sampled_batch(fused.observation_space, 20, 3), 3)
    counts, config = count(samples, False), PPOConfig()
    fused.zero_grad()
    shares = [differentiate(fused, part, counts, config) for part in samples.split(7)]
    numbers, gradients = expected_of(exact, samples, config, counts)
    for name, wanted in numbers.items():
        assert sum(share[name] for share in shares) == pytest.approx(wanted, rel=1e-4, abs=1e-5)
    for name, parameter in fused.named_parameters():
        torch.testing.assert_close(parameter.grad.double(), gradients[name], rtol=1e-4, atol=1e-5)


def test_every_kind_of_network_has_the_gradients_of_torch() -> None:
    """All heads, a value network, hooks, a joint ratio and an `evaluate` of a subclass."""

    class Louder(RogueNet):
        def evaluate(self, *of: Any) -> Any:
            return super().evaluate(*of)

    both = EntityActionSpace({"act": Categorical(2), "go": Continuous(-1.0, 1.0)})
    one, real = (
        EntityActionSpace({"act": action}) for action in (Categorical(2), GlobalContinuous(-1.0, 1.0))
    )
    for kind, actions, options, joint, hooks in (
        (RogueNet, one, {}, False, False),
        (RogueNet, both, {}, False, False),
        (RogueNet, real, {}, False, False),
        (RogueNet, one, {"separate_value_net": True}, False, False),
        (RogueNet, one, {}, True, False),
        (RogueNet, one, {}, False, True),
        (RogueNet, one, {"engine": "torch"}, False, False),
        (Louder, one, {}, False, False),
    ):
        space = EntitySpace({"a": ["x"]}, actions)
        net = kind(space, actions, d_model=8, n_layer=1, **options)
        if hooks:
            net.value_head.proj.bias.register_hook(lambda gradient: 2 * gradient)
        samples, config = make_samples(net, sampled_batch(space, 3, 0), 0), PPOConfig(joint_log_prob=joint)
        numbers = differentiate(net, samples, count(samples, joint), config)
        exact = in_torch(net).double()
        expected, gradients = expected_of(exact, samples, config, count(samples, joint))
        assert numbers == pytest.approx(expected, rel=1e-4, abs=1e-5)
        if hooks:
            gradients["value_head.proj.bias"] *= 2
        for name, parameter in net.named_parameters():
            assert (parameter.grad is None) == (gradients[name] is None), name
            if parameter.grad is not None:
                torch.testing.assert_close(parameter.grad.double(), gradients[name], rtol=1e-4, atol=1e-5)


def test_an_action_that_was_not_allowed_changes_no_gradient() -> None:
    fused, _ = make_nets(["each", "aim"], 0, d_model=8, n_layer=1)
    samples = make_samples(fused, sampled_batch(fused.observation_space, 6, 0), 0)
    for name in ("each", "aim"):
        values = samples.actions[name].values.copy()
        values[1] = 70
        wrong = {**samples.actions, name: RaggedArray(values, samples.actions[name].offsets)}
        with raises(ValueError, f"action '{name}'"):
            differentiate(fused, replace(samples, actions=wrong), count(samples, False), PPOConfig())
    assert all(parameter.grad is None for parameter in fused.parameters())
