"""What must not matter: other steps, the order of entities, where the scene lies, what is hidden."""

from __future__ import annotations

import dataclasses

import entitize as ez
import numpy as np
import pytest
import torch
from entitize.envs import ActionMask, EntityBatch, SelectEntity, batch_observations, concatenate_batches
from entitize.ragged import RaggedArray

from facts import raises

PATHS = ["fused", "torch", "float64"]
RELATIVE = {"relative_position": {"extent": [2, 2], "position": ["x", "y"]}}


def replace_step(batch: EntityBatch, step: int, values: float) -> EntityBatch:
    """The batch with every feature of one step set to `values`."""
    entities = {}
    for name, rows in batch.entities.items():
        changed = rows.values.copy()
        changed[rows.offsets[step] : rows.offsets[step + 1]] = values
        entities[name] = rows.with_values(changed)
    globals_ = batch.globals.copy()
    globals_[step] = values
    return dataclasses.replace(batch, entities=entities, globals=globals_)


@pytest.mark.parametrize("options", [{"path": p} for p in PATHS] + [{"pooling": "meanmax"}, RELATIVE])
@pytest.mark.parametrize("value", [7.5, np.nan])
def test_nothing_flows_from_one_step_to_another(
    make_space, random_batch, make_net, legal_actions, options, value
):
    """Change one step, to NaN even: the outputs and the feature gradients of the others stay bit-equal."""
    space = make_space()
    batch = random_batch(space, steps=40)
    net = make_net(space, batch, **options)
    actions = legal_actions(space, batch)
    for changed in (0, 13, 39):
        before, after = (net.evaluate(b, actions) for b in (batch, replace_step(batch, changed, value)))
        others = np.arange(len(batch)) != changed
        assert torch.equal(before.values[others], after.values[others])
        assert not torch.equal(before.values[~others], after.values[~others])
        for name in space.actions:
            kept = torch.from_numpy(batch.actions[name].actors.sequence_indices() != changed)
            assert torch.equal(before.log_probs[name][kept], after.log_probs[name][kept])
            assert torch.equal(before.entropies[name][kept], after.entropies[name][kept])


@pytest.mark.parametrize("path", PATHS)
def test_no_gradient_flows_from_one_step_to_another(make_space, random_batch, make_net, legal_actions, path):
    """The gradient of one step's value does not change with what other steps contain."""
    space = make_space()
    batch = random_batch(space, steps=20)
    net = make_net(space, batch, path=path)
    actions = legal_actions(space, batch)
    gradients = []
    for b in (batch, replace_step(batch, 11, 3.0)):
        net.zero_grad()
        net.evaluate(b, actions).values[4].backward()
        gradients.append([p.grad.clone() for p in net.policy_net.parameters() if p.grad is not None])
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-7)


def shuffled(batch: EntityBatch, rng: np.random.Generator) -> tuple[EntityBatch, np.ndarray]:
    """The entities of each type and step in another order, with actors and actees renamed to match."""
    orders = {
        name: np.concatenate(
            [[], *(o + rng.permutation(n) for o, n in zip(r.offsets, r.lengths, strict=False))]
        )
        for name, r in batch.entities.items()
    }
    orders = {name: order.astype(np.int64) for name, order in orders.items()}
    entities = {name: rows.with_values(rows.values[orders[name]]) for name, rows in batch.entities.items()}
    rows, offsets = batch.entity_rows()
    new_place = np.empty(batch.num_entities, np.int64)
    for name, order in orders.items():
        new_place[rows[name][order]] = rows[name]
    starts = offsets[:-1]

    def rename(indices: RaggedArray) -> RaggedArray:
        sequential = indices.values + indices.broadcast(starts)
        return indices.with_values(new_place[sequential] - indices.broadcast(starts))

    actions = {}
    for name, mask in batch.actions.items():
        if name in ("mode", "speed"):
            actions[name] = mask
        else:
            actees = None if mask.actees is None else rename(mask.actees)
            actions[name] = ActionMask(rename(mask.actors), mask.mask, actees)
    return EntityBatch(entities, batch.globals, actions, batch.visible), new_place


@pytest.mark.parametrize("options", [{"path": p} for p in PATHS] + [{"pooling": "meanmax"}, RELATIVE])
def test_the_order_of_entities_does_not_matter(make_space, random_batch, make_net, legal_actions, options):
    space = make_space()
    batch = random_batch(space, steps=20)
    net = make_net(space, batch, **options)
    actions = legal_actions(space, batch)
    other, new_place = shuffled(batch, np.random.default_rng(1))
    starts = batch.entity_offsets[:-1]
    renamed = {}
    for name, chosen in actions.items():
        if isinstance(space.actions[name], SelectEntity):
            sequential = chosen.values + chosen.broadcast(starts)
            chosen = chosen.with_values(new_place[sequential] - chosen.broadcast(starts))
        renamed[name] = chosen
    one, two = net.evaluate(batch, actions), net.evaluate(other, renamed)
    torch.testing.assert_close(one.values, two.values, rtol=1e-5, atol=1e-5)
    for name in space.actions:
        torch.testing.assert_close(one.log_probs[name], two.log_probs[name], rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(one.entropies[name], two.entropies[name], rtol=1e-5, atol=1e-5)


def test_the_order_of_steps_does_not_matter(make_space, random_batch, make_net):
    space = make_space()
    batch = random_batch(space, steps=25)
    net = make_net(space, batch)
    order = np.random.default_rng(0).permutation(25)
    np.testing.assert_allclose(net.value(batch.gather(order)), net.value(batch)[order], rtol=1e-5, atol=1e-6)
    joined = concatenate_batches([batch[:10], batch[10:]])
    np.testing.assert_array_equal(net.value(joined), net.value(batch))


def moved(batch: EntityBatch, shift: tuple[float, float], turn: float) -> EntityBatch:
    """The scene turned about the origin by `turn` and moved by `shift`, headings included."""
    entities = {}
    for name, rows in batch.entities.items():
        values = rows.values.astype(np.float64)
        columns = {"Player": ("x", "y", "cos", "sin", "angle"), "Food": ("x", "y"), "Enemy": ("y", "x")}.get(
            name, ()
        )
        c, s = np.cos(turn), np.sin(turn)
        if columns:
            x, y = columns.index("x"), columns.index("y")
            old = values[:, [x, y]]
            values[:, x] = c * old[:, 0] - s * old[:, 1] + shift[0]
            values[:, y] = s * old[:, 0] + c * old[:, 1] + shift[1]
        if name == "Player":
            cosine, sine = values[:, 2].copy(), values[:, 3].copy()
            values[:, 2], values[:, 3] = c * cosine - s * sine, s * cosine + c * sine
            values[:, 4] += turn
        entities[name] = rows.with_values(values.astype(np.float32))
    return dataclasses.replace(batch, entities=entities)


@pytest.mark.parametrize(
    ("rotation", "turn"),
    [({}, 0.0), ({"rotation_vector": ["cos", "sin"]}, 0.9), ({"rotation_angle": "angle"}, -2.0)],
)
def test_moving_and_turning_the_scene_changes_nothing_with_translation(
    make_space, random_batch, make_net, legal_actions, rotation, turn
):
    space = make_space()
    batch = random_batch(space, steps=15, empty=False)
    # The player's other heading would tell how the scene lies; a scene has one.
    player = batch.entities["Player"].values
    if "rotation_vector" in rotation:
        player[:, 4] = 0.0
    if "rotation_angle" in rotation:
        player[:, 2:4] = 0.0
    options = {"reference": "Player", "position": ["x", "y"], "add_distance": True, "keep_reference": False}
    net = make_net(space, batch, translation={**options, **rotation})
    actions = legal_actions(space, batch)
    other = moved(batch, (5.0, -3.0), turn)
    if "rotation_vector" in rotation:
        other.entities["Player"].values[:, 4] = 0.0
    one, two = net.evaluate(batch, actions), net.evaluate(other, actions)
    torch.testing.assert_close(one.values, two.values, rtol=1e-4, atol=1e-4)
    for name in space.actions:
        torch.testing.assert_close(one.log_probs[name], two.log_probs[name], rtol=1e-4, atol=1e-4)
    plain = make_net(space, batch)
    assert not np.allclose(plain.value(batch), plain.value(other), rtol=1e-2)


def test_a_step_with_two_reference_entities_is_an_error(make_space, random_batch, make_net):
    space = make_space()
    batch = random_batch(space, steps=4, empty=False)
    net = make_net(space, translation={"reference": "Food", "position": ["x", "y"]})
    step = int(np.argmax(batch.entities["Food"].lengths > 1))
    with raises(ValueError, "translation", f"step {step}", "'Food'"):
        net.value(batch)


def test_translation_leaves_the_batch_as_it_was(make_space, random_batch, make_net):
    space = make_space()
    batch = random_batch(space)
    before = {name: rows.values.copy() for name, rows in batch.entities.items()}
    options = {
        "reference": "Player",
        "position": ["x", "y"],
        "rotation_angle": "angle",
        "keep_reference": False,
    }
    make_net(space, batch, translation=options).value(batch)
    assert all(np.array_equal(before[name], rows.values) for name, rows in batch.entities.items())


@pytest.mark.parametrize("separate", [False, True])
def test_what_is_hidden_changes_the_value_and_not_the_policy(
    make_space, random_batch, make_net, legal_actions, separate
):
    space = make_space(hidden=True)
    batch = random_batch(space, steps=20)
    net = make_net(space, batch, separate_value_net=separate)
    actions = legal_actions(space, batch)
    entities = {
        name: rows.with_values(np.where(batch.visible[name].values[:, None], rows.values, rows.values + 1))
        for name, rows in batch.entities.items()
    }
    one, two = (net.evaluate(b, actions) for b in (batch, dataclasses.replace(batch, entities=entities)))
    for name in space.actions:
        assert torch.equal(one.log_probs[name], two.log_probs[name])
        assert torch.equal(one.entropies[name], two.entropies[name])
    hidden = np.array(
        [any(not v[b].all() for n, v in batch.visible.items() if space.entities[n]) for b in range(20)]
    )
    assert hidden.any()
    changed = (one.values != two.values).numpy()
    np.testing.assert_array_equal(changed, hidden)


@pytest.mark.parametrize("keep_reference", [True, False])
def test_a_hidden_reference_tells_the_policy_nothing(keep_reference: bool) -> None:
    actions = ez.EntityActionSpace({"go": ez.Categorical(3)})
    space = ez.EntitySpace({"Me": ["x", "y"], "Goal": ["x", "y"]}, actions, hidden=True)
    scenes = [
        {
            "entities": {"Me": np.float32([[1, 2]]), "Goal": np.float32([[x, 0]])},
            "actions": {"go": {"actors": np.array([0]), "mask": np.ones((1, 3), np.int8)}},
            "visible": {"Me": np.ones(1, np.int8), "Goal": np.int8([seen])},
        }
        for seen in (0, 1)
        for x in (0, 3)
    ]
    batch = batch_observations(space, scenes)
    options = {"reference": "Goal", "position": ["x", "y"], "keep_reference": keep_reference}
    for engine in ("torch", "fused"):
        torch.manual_seed(0)
        net = ez.RogueNet(space, actions, d_model=8, n_layer=1, engine=engine, translation=options)
        for parameter in net.parameters():
            parameter.data += 0.2 * torch.randn_like(parameter)
        chosen = {"go": batch.actions["go"].actors.with_values(np.arange(4) % 1)}
        found = net.evaluate(batch, chosen).log_probs["go"].detach().numpy()
        assert found[0] == found[1] and found[2] != found[3], engine
        values = net.value(batch)
        assert values[0] != values[1], "the value function observes it where it is"
