"""`explain`: attention weights and distributions are those that the network computes."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch
from entitize.envs import EntityBatch
from entitize.policies.rogue_net import SelfAttention
from entitize.ragged import RaggedArray

from facts import raises

RELATIVE = {"extent": [2, 2], "position": ["x", "y"], "key_projection": True, "value_gate": "sigmoid"}


def one_step(batch: EntityBatch, step: int = 0) -> EntityBatch:
    return batch.gather([step])


@pytest.mark.parametrize("options", [{}, {"relative_position": RELATIVE}], ids=["plain", "relative"])
@torch.no_grad()
def test_the_weights_give_what_the_block_computes(make_space, random_batch, make_net, options):
    space = make_space(hidden=True)
    batch = one_step(random_batch(space, most=5, seed=3))
    net = make_net(space, batch, n_layer=3, n_head=2, **options)
    inputs: list = []
    blocks = net.policy_net.backbone.blocks
    handles = [
        block.attn.register_forward_hook(lambda module, given, output: inputs.append((module, given, output)))
        for block in blocks
    ]
    net.encode(net.inputs.prepare(batch))
    for handle in handles:
        handle.remove()
    explained = net.explain(batch)
    assert len(explained.attention) == 3
    for weights, (attention, (x, _, relative), output) in zip(explained.attention, inputs[:3], strict=True):
        assert isinstance(attention, SelfAttention)
        assert weights.shape == (2, len(x), len(x)) and len(x) > 3
        np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-5)
        values = attention.qkv(x).chunk(3, 1)[2].view(len(x), 2, -1).transpose(0, 1)  # (H, n, d)
        known = torch.as_tensor(weights)
        read = known @ values
        if relative is not None:
            gate = relative.encoding.gate(x)
            read = read + torch.einsum("hqk,qkd->hqd", known, relative.pairs[0].values[0] * gate)
        again = attention.proj(read.transpose(0, 1).reshape(len(x), -1))
        np.testing.assert_allclose(again, output, rtol=1e-4, atol=1e-5)


def test_rows_name_the_visible_entities_and_the_step(make_space, random_batch, make_net):
    space = make_space(hidden=True)
    batch = one_step(random_batch(space, most=4, seed=1))
    visible = np.concatenate([batch.visibility(name).values for name in space.entities])
    rows = make_net(space, batch).explain(batch).rows
    assert rows.tolist() == [*np.flatnonzero(visible), -1]


def test_distributions_are_those_of_the_policy(make_space, random_batch, make_net):
    space = make_space()
    steps = random_batch(space, steps=40, most=6)
    acts = np.all([part.actors.lengths > 0 for part in steps.actions.values()], axis=0)
    batch = one_step(steps, int(acts.argmax()))
    net = make_net(space, batch)
    found = net.explain(batch).distributions
    assert found.keys() == space.actions.spaces.keys()
    drawn = net.act(batch, np.random.default_rng(0), deterministic=True)
    for name in ("move", "mode", "fire"):
        part = batch.actions[name]
        assert part.actors.num_items
        columns = part.mask.values.reshape(part.actors.num_items, -1)
        np.testing.assert_allclose(found[name].sum(1), 1, rtol=1e-5)
        assert (found[name][~columns] == 0).all()
        for actor, column in np.argwhere(columns):
            choice = column if part.actees is None else part.actees.values[column]
            actions = dict(drawn.raw)
            changed = actions[name].values.copy()
            changed[actor] = choice
            actions[name] = RaggedArray(changed, actions[name].offsets)
            log_prob = net.evaluate(batch, actions).log_probs[name][actor].item()
            assert found[name][actor, column] == pytest.approx(np.exp(log_prob), rel=1e-4)
    for name in ("steer", "speed"):
        below, mean, above = found[name].transpose(1, 0, 2)
        np.testing.assert_allclose(mean, drawn.actions[name].values, rtol=1e-5)
        assert (below <= mean).all() and (mean <= above).all() and (below < above).any()


def test_explaining_leaves_the_engine_alone(make_space, random_batch, make_net):
    space = make_space()
    batch = random_batch(space)
    net = make_net(space, batch, path="fused")
    before, engine = net.value(batch), net.engine.name
    net.explain(one_step(batch))
    assert net.engine.name == engine == "fused"
    np.testing.assert_array_equal(net.value(batch), before)


def test_another_thread_may_act_meanwhile(make_space, random_batch, make_net):
    space = make_space()
    batch = random_batch(space)
    net, one = make_net(space, batch, path="torch"), one_step(batch)
    expected = net.explain(one).attention
    ended = threading.Event()

    def act() -> None:
        while not ended.is_set():
            net.act(batch, np.random.default_rng(0))

    thread = threading.Thread(target=act)
    thread.start()
    try:
        found = [net.explain(one).attention for _ in range(20)]
    finally:
        ended.set()
        thread.join()
    for attention in found:
        assert [weights.shape for weights in attention] == [weights.shape for weights in expected]


def test_a_step_without_entities(make_space, random_batch, make_net):
    space = make_space(global_features=(), global_action=False)
    batch = one_step(random_batch(space, steps=6), 3)
    assert batch.num_entities == 0
    explained = make_net(space).explain(batch)
    assert len(explained.rows) == 0 and all(weights.size == 0 for weights in explained.attention)


def test_pooling_has_no_attention(make_space, random_batch, make_net):
    space = make_space()
    batch = one_step(random_batch(space))
    explained = make_net(space, batch, pooling="mean").explain(batch)
    assert explained.attention == () and "move" in explained.distributions


def test_one_step_is_explained_at_a_time(make_space, random_batch, make_net):
    space = make_space()
    with raises(ValueError, "1 step", 4):
        make_net(space).explain(random_batch(space, steps=4))


def test_an_observation_is_no_batch(make_space, random_batch, make_net):
    space = make_space()
    net = make_net(space)
    observation = space.sample()
    for call in (net.explain, net.value, lambda given: net.act(given, np.random.default_rng(0))):
        with raises(TypeError, "expected an EntityBatch", "got dict", "batch_observations"):
            call(observation)
    with raises(TypeError, "expected an EntityBatch", "got list"):
        net.explain([observation])
    assert net.explain(one_step(random_batch(space))).distributions
