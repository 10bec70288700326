"""`explain` of the published networks: distributions, and no attention."""

from __future__ import annotations

import numpy as np
import pytest
from entitize.policies import ExplainablePolicy
from entitize.policies.baselines import GridNet, TransformerNet, UnitActionNet

from facts import raises


@pytest.mark.parametrize("network", [GridNet, TransformerNet])
def test_components_sum_to_1_or_are_masked(rts_space, map_batch, network):
    space = rts_space()
    batch = map_batch(space, 8, 8).gather([0])
    policy = network(space, space.actions, height=8, width=8)
    assert isinstance(policy, ExplainablePolicy)
    explained = policy.explain(batch)
    assert explained.attention == ()
    ((name, found),) = explained.distributions.items()
    action, mask = space.actions[name], batch.actions[name].mask.values
    assert (found[~mask] == 0).all()
    for start, stop in zip(action.offsets, action.offsets[1:], strict=False):
        np.testing.assert_allclose(found[:, start:stop].sum(1), mask[:, start:stop].any(1), rtol=1e-5)


@pytest.mark.parametrize("network", [GridNet, TransformerNet])
def test_log_probs_are_those_of_the_actions_drawn(rts_space, map_batch, network):
    space = rts_space()
    batch = map_batch(space, 8, 8)
    policy = network(space, space.actions, height=8, width=8, composite="all").eval()
    ((name, found),) = policy.log_probs(batch).items()
    acted = policy.act(batch, np.random.default_rng(0))
    action, mask = space.actions[name], batch.actions[name].mask.values
    chosen = acted.actions[name].values + action.offsets[:-1]
    counted = np.where(
        np.take_along_axis(mask, chosen, 1), np.take_along_axis(found.detach().numpy(), chosen, 1), 0
    )
    np.testing.assert_allclose(counted.sum(1), acted.log_probs[name].values, rtol=1e-4, atol=1e-5)


def test_a_network_that_takes_turns_has_no_distributions(rts_space, map_batch):
    space = rts_space()
    policy = UnitActionNet(space, space.actions, height=8, width=8)
    assert policy.explain(map_batch(space, 8, 8).gather([0])).distributions == {}


@pytest.mark.parametrize("network", [GridNet, TransformerNet])
def test_an_observation_is_no_batch(rts_space, network):
    space = rts_space()
    policy = network(space, space.actions, height=8, width=8)
    for call in (policy.explain, policy.value, lambda given: policy.act(given, np.random.default_rng(0))):
        with raises(TypeError, "expected an EntityBatch", "got dict", "batch_observations"):
            call(space.sample())
