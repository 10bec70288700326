"""Choosing actions: probabilities, masks, randomness, and what happens where there is nothing to do."""

from __future__ import annotations

from typing import Any

import entitize as ez
import numpy as np
import pytest
import torch
from entitize import Policy, RogueNet
from entitize.envs import (
    ActionMask,
    Categorical,
    EntityActionSpace,
    EntityBatch,
    EntitySpace,
    SelectEntity,
)
from entitize.policies.rogue_net.heads import ragged_log_softmax
from entitize.policies.rogue_net.sampling import draw_choices
from entitize.ragged import RaggedArray

from facts import raises

PATHS = ["fused", "torch", "float64"]


@pytest.fixture
def setting(make_space, random_batch, make_net):
    space = make_space()
    batch = random_batch(space, steps=30)
    return space, batch, make_net(space, batch)


def test_it_is_a_policy(setting):
    assert isinstance(setting[2], Policy)


@pytest.mark.parametrize("squash", [False, True])
@pytest.mark.parametrize("path", PATHS)
def test_act_and_evaluate_agree_on_log_probabilities_and_values(
    make_space, random_batch, make_net, path, squash
):
    space = make_space(hidden=True)
    batch = random_batch(space, steps=30)
    net = make_net(space, batch, path=path, squash=squash)
    result = net.act(batch, np.random.default_rng(0))
    evaluation = net.evaluate(batch, result.raw)
    for name in space.actions:
        action = space.actions[name]
        assert result.actions[name].dtype == action.dtype and result.log_probs[name].dtype == np.float32
        assert result.actions[name].inner_shape == result.raw[name].inner_shape == action.item_shape
        np.testing.assert_array_equal(result.actions[name].offsets, batch.actions[name].actors.offsets)
        np.testing.assert_allclose(
            result.log_probs[name].values, evaluation.log_probs[name].detach(), rtol=1e-5, atol=1e-6
        )
    np.testing.assert_allclose(result.values, evaluation.values.detach(), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(result.values, net.value(batch))
    assert result.values.dtype == np.float32


def test_only_what_the_masks_allow_is_ever_chosen(setting):
    _, batch, net = setting
    rng = np.random.default_rng(0)
    for _ in range(20):
        actions = net.act(batch, rng).actions
        for name in ("move", "mode"):
            mask = batch.actions[name].mask.values
            assert mask[np.arange(len(mask)), actions[name].values].all()
        fire = batch.actions["fire"]
        for step in range(len(batch)):
            allowed = fire.mask[step].reshape(len(fire.actors[step]), len(fire.actees[step]))
            for row, chosen in zip(allowed, actions["fire"][step], strict=True):
                assert chosen in fire.actees[step][row]


def test_equal_generators_give_equal_actions_and_others_do_not(setting):
    _, batch, net = setting
    first, again, other = (net.act(batch, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert all(first.actions[name] == again.actions[name] for name in first.actions)
    assert any(first.actions[name] != other.actions[name] for name in first.actions)


def test_deterministic_takes_the_most_probable_choice_and_draws_nothing(setting):
    space, batch, net = setting
    rng = np.random.default_rng(0)
    state = rng.bit_generator.state
    best = net.act(batch, rng, deterministic=True)
    assert rng.bit_generator.state == state
    for seed in range(30):
        drawn = net.act(batch, np.random.default_rng(seed))
        for name in space.actions:
            if name in ("steer", "speed"):
                assert (drawn.actions[name].values != best.actions[name].values).any()
                continue
            assert (drawn.log_probs[name].values <= best.log_probs[name].values + 1e-6).all()
    for name in ("move", "fire", "mode"):
        chosen = drawn.actions[name].values == best.actions[name].values
        assert chosen.any() and not chosen.all()


def test_sampling_frequencies_match_the_probabilities(make_space, random_batch, make_net):
    """The same step many times: counts within five standard deviations of what `evaluate` says."""
    space = make_space()
    batch = random_batch(space, steps=3, empty=False, seed=3)
    net = make_net(space, batch)
    repeats = 20_000
    for step in range(len(batch)):
        many = batch.gather(np.full(repeats, step))
        actions = net.act(many, np.random.default_rng(step)).raw
        for name in ("move", "fire", "mode"):
            chosen = actions[name].values.reshape(repeats, -1)
            for actor in range(chosen.shape[1]):
                choices, counts = np.unique(chosen[:, actor], return_counts=True)
                one = batch.gather([step])
                for choice, count in zip(choices, counts, strict=True):
                    trial = {
                        n: one.actions[n].actors.with_values(a.values[: one.actions[n].actors.num_items])
                        for n, a in actions.items()
                    }
                    trial[name].values[actor] = choice
                    p = float(net.evaluate(one, trial).log_probs[name][actor].detach().exp())
                    assert abs(count - repeats * p) <= 5 * np.sqrt(repeats * p * (1 - p)) + 1e-6


def test_entropy_counts_allowed_choices_alone_and_gradients_stay_finite(make_net):
    actions = EntityActionSpace({"move": Categorical(4), "fire": SelectEntity()})
    space = EntitySpace({"Robot": ("x",)}, actions)
    net = make_net(space)
    for parameter in (*net.action_heads["move"].parameters(), *net.action_heads["fire"].parameters()):
        torch.nn.init.zeros_(parameter)
    robots = RaggedArray.from_lengths(np.arange(4, dtype=np.float32)[:, None], [4])
    actors = RaggedArray.from_lengths([0, 2], [2])
    move = ActionMask(actors, RaggedArray.from_lengths(np.array([[1, 0, 1, 1], [0, 0, 1, 0]], bool), [2]))
    allowed = np.array([[1, 1, 0, 0], [0, 0, 0, 1]], bool)
    fire = ActionMask(
        actors,
        RaggedArray.from_lengths(allowed.reshape(-1), [8]),
        RaggedArray.from_lengths(np.arange(4), [4]),
    )
    batch = EntityBatch({"Robot": robots}, np.zeros((1, 0), np.float32), {"move": move, "fire": fire})
    evaluation = net.evaluate(batch, {"move": actors.with_values([3, 2]), "fire": actors.with_values([0, 3])})
    np.testing.assert_allclose(evaluation.entropies["move"].detach(), [np.log(3), 0], atol=1e-6)
    np.testing.assert_allclose(evaluation.entropies["fire"].detach(), [np.log(2), 0], atol=1e-6)
    np.testing.assert_allclose(evaluation.log_probs["move"].detach(), [-np.log(3), 0], atol=1e-6)
    np.testing.assert_allclose(evaluation.log_probs["fire"].detach(), [-np.log(2), 0], atol=1e-6)
    total = sum(t.sum() for t in (*evaluation.log_probs.values(), *evaluation.entropies.values()))
    total.backward()
    assert all(torch.isfinite(p.grad).all() for p in net.parameters() if p.grad is not None)


def empty_batch(space: EntitySpace, steps: int) -> EntityBatch:
    actions = {}
    action: Any
    for name, action in space.actions.spaces.items():
        none = RaggedArray.empty(steps, (), np.int64)
        if isinstance(action, SelectEntity):
            actions[name] = ActionMask(none, RaggedArray.empty(steps, (), bool), none)
        elif action.is_global:
            ones = np.ones(steps, np.int64)
            mask = np.ones((steps, getattr(action, "num_choices", 0)), bool)
            actions[name] = ActionMask(
                RaggedArray.from_lengths(-ones, ones), RaggedArray.from_lengths(mask, ones)
            )
        else:
            columns = getattr(action, "num_choices", 0)
            actions[name] = ActionMask(none, RaggedArray.empty(steps, (columns,), bool))
    entities = {n: RaggedArray.empty(steps, (len(f),)) for n, f in space.entities.items()}
    width = len(space.global_features)
    globals_ = np.arange(steps * width, dtype=np.float32).reshape(steps, width) / 4
    return EntityBatch(entities, globals_, actions)


@pytest.mark.parametrize("options", [{}, {"global_features": "concat"}, {"pooling": "meanmax"}])
@pytest.mark.parametrize("path", PATHS)
def test_a_batch_without_entities_has_values_and_global_actions(make_space, make_net, options, path):
    space = make_space()
    net = make_net(space, path=path, **options)
    batch = empty_batch(space, 5)
    result = net.act(batch, np.random.default_rng(0))
    assert result.actions["mode"].num_items == result.actions["speed"].num_items == 5
    assert result.actions["move"].num_items == result.actions["steer"].num_items == 0
    evaluation = net.evaluate(batch, result.actions)
    (evaluation.values.sum() + evaluation.log_probs["mode"].sum()).backward()
    assert len(set(result.values.tolist())) == 5  # the globals differ from step to step, and so do the values
    assert np.isfinite(result.values).all()


@pytest.mark.parametrize("path", PATHS)
def test_without_globals_an_empty_step_has_the_bias_for_a_value(make_space, random_batch, make_net, path):
    space = make_space(global_features=(), global_action=False)
    net = make_net(space, path=path)
    bias = float(net.value_head.proj.bias.detach())
    assert net.value(empty_batch(space, 3)).tolist() == [bias] * 3
    batch = random_batch(space, steps=7)
    assert net.value(batch)[3] == bias  # steps // 2 is the empty one
    evaluation = net.evaluate(
        empty_batch(space, 3), net.act(empty_batch(space, 3), np.random.default_rng(0)).actions
    )
    evaluation.values.sum().backward()


@pytest.mark.parametrize("path", PATHS)
def test_no_steps_at_all(make_space, make_net, path):
    space = make_space()
    net = make_net(space, path=path)
    batch = empty_batch(space, 0)
    result = net.act(batch, np.random.default_rng(0))
    assert result.values.shape == (0,) and all(len(a) == 0 for a in result.actions.values())
    evaluation = net.evaluate(batch, result.actions)
    evaluation.values.sum().backward()
    net.update_normalization(batch)


def test_dropout_acts_with_gradients_in_training_mode_alone(
    make_space, random_batch, make_net, legal_actions
):
    space = make_space()
    batch = random_batch(space)
    actions = legal_actions(space, batch)
    nets = [
        make_net(space, batch, **{name: 0.5})
        for name in ("dropout", "embedding_dropout", "residual_dropout", "attention_dropout")
    ]
    nets.append(
        make_net(space, batch, dropout=0.5, relative_position={"extent": [1, 1], "position": ["x", "y"]})
    )
    plain = make_net(space, batch)
    off = dict.fromkeys(("embedding_dropout", "residual_dropout", "attention_dropout"), 0.0)
    none = make_net(space, batch, dropout=0.5, **off)
    assert torch.equal(none.evaluate(batch, actions).values, none.evaluate(batch, actions).values)
    for net in nets:
        assert not torch.equal(net.evaluate(batch, actions).values, net.evaluate(batch, actions).values)
        np.testing.assert_array_equal(net.value(batch), net.value(batch))
        first, again = (net.act(batch, np.random.default_rng(0)) for _ in range(2))
        assert all(first.actions[name] == again.actions[name] for name in space.actions)
        np.testing.assert_allclose(
            net.value(batch), net.eval().evaluate(batch, actions).values.detach(), rtol=1e-5, atol=1e-6
        )
    for net in nets[:-1]:
        np.testing.assert_allclose(net.value(batch), plain.value(batch), rtol=1e-5, atol=1e-6)


def place(batch, name, actor):
    """What errors call an actor, given by its place among those of all steps; the only one has no number."""
    actors = batch.actions[name].actors
    step = int(np.searchsorted(actors.offsets, actor, "right")) - 1
    number = f"actors[{actor - actors.offsets[step]}]" if len(actors[step]) > 1 else ""
    return f"action {name!r}: step {step}: {number}"


def test_wrong_input_is_named(setting):
    _, batch, net = setting
    actions = net.act(batch, np.random.default_rng(0)).actions
    with raises(ValueError, "action 'fire'", "missing", "move"):
        net.evaluate(batch, {"move": actions["move"]})
    with raises(ValueError, "action 'move'", "item", "actor"):
        net.evaluate(batch, {**actions, "move": RaggedArray.empty(len(batch), (), np.int64)})
    wrong = actions["move"].values.copy()
    forbidden = np.argwhere(~batch.actions["move"].mask.values)[0]
    wrong[forbidden[0]] = forbidden[1]
    with raises(ValueError, place(batch, "move", forbidden[0]), forbidden[1], "not allowed"):
        net.evaluate(batch, {**actions, "move": actions["move"].with_values(wrong)})
    wrong = actions["mode"].values + 3
    step = np.flatnonzero(actions["mode"].lengths)[0]
    with raises(ValueError, f"action 'mode': step {step}: ", wrong[0]) as caught:
        net.evaluate(batch, {**actions, "mode": actions["mode"].with_values(wrong)})
    assert "actors" not in str(caught.value)  # the action is global
    wrong = actions["fire"].values.copy()
    wrong[2] = 99
    with raises(ValueError, place(batch, "fire", 2), 99):
        net.evaluate(batch, {**actions, "fire": actions["fire"].with_values(wrong)})


def test_a_mask_that_allows_nothing_and_an_actor_that_does_not_exist_are_named(setting):
    _, batch, net = setting
    move = batch.actions["move"]
    mask = move.mask.values.copy()
    mask[1] = False
    step = int(move.actors.sequence_indices()[1])
    nothing = {**batch.actions, "move": ActionMask(move.actors, move.mask.with_values(mask))}
    with raises(ValueError, place(batch, "move", 1), "mask", "choice"):
        net.act(EntityBatch(batch.entities, batch.globals, nothing), np.random.default_rng(0))
    actors = move.actors.values.copy()
    actors[1] = 1000
    foreign = {**batch.actions, "move": ActionMask(move.actors.with_values(actors), move.mask)}
    with raises(ValueError, "'move'", f"step {step}", 1000):
        net.act(EntityBatch(batch.entities, batch.globals, foreign), np.random.default_rng(0))
    fire = batch.actions["fire"]
    blocked = ActionMask(fire.actors, fire.mask.with_values(np.zeros(fire.mask.num_items, bool)), fire.actees)
    with raises(ValueError, place(batch, "fire", 0), "mask", "entity"):
        net.act(
            EntityBatch(batch.entities, batch.globals, {**batch.actions, "fire": blocked}),
            np.random.default_rng(0),
        )


def test_a_hidden_actor_is_an_error(make_space, random_batch, make_net):
    space = make_space(hidden=True)
    batch = random_batch(space, steps=3, empty=False)
    net = make_net(space, batch)
    hidden = {name: v.with_values(np.zeros(v.num_items, bool)) for name, v in batch.visible.items()}
    with raises(ValueError, "'move'", "entity", "step", "hidden"):
        net.act(EntityBatch(batch.entities, batch.globals, batch.actions, hidden), np.random.default_rng(0))


def test_flags_of_other_entities_than_there_are_hide_nothing_by_accident(make_space, random_batch, make_net):
    space = make_space(hidden=True)
    batch = random_batch(space, steps=3, empty=False)
    net = make_net(space, batch)
    name, flags = next(iter(batch.visible.items()))
    for wrong in (RaggedArray.empty(3, (), bool), flags[:2]):
        shown = EntityBatch(batch.entities, batch.globals, batch.actions, {**batch.visible, name: wrong})
        with raises(ValueError, "visible", f"entity type {name!r}"):
            net.act(shown, np.random.default_rng(0))


def test_read_only_arrays_are_read(setting):
    _, batch, net = setting
    expected = net.value(batch)
    actions = net.act(batch, np.random.default_rng(0)).actions
    for rows in batch.entities.values():
        rows.values.flags.writeable = False
    for mask in batch.actions.values():
        mask.mask.values.flags.writeable = mask.actors.values.flags.writeable = False
    batch.globals.flags.writeable = False
    np.testing.assert_array_equal(net.value(batch), expected)
    again = net.act(batch, np.random.default_rng(0)).actions
    assert all(actions[name] == again[name] for name in actions)
    net.evaluate(batch, actions).values.sum().backward()


def test_a_network_without_features_or_actions_still_has_a_value():
    space = EntitySpace({"Thing": ()}, EntityActionSpace({}))
    net = RogueNet(space, space.actions)
    things = RaggedArray.from_lengths(np.zeros((3, 0), np.float32), [2, 0, 1])
    batch = EntityBatch({"Thing": things}, np.zeros((3, 0), np.float32), {})
    net.update_normalization(batch)
    assert net.value(batch).tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("path", PATHS)
def test_absurd_features_give_finite_outputs_and_gradients(make_space, random_batch, make_net, path):
    """Clipping bounds the input and layer norm the residual stream, deep networks included."""
    space = make_space()
    batch = random_batch(space)
    net = make_net(space, batch, path=path, n_layer=6)
    for rows in batch.entities.values():
        rows.values[::2], rows.values[1::2] = 3e38, -3e38
    result = net.act(batch, np.random.default_rng(0))
    evaluation = net.evaluate(batch, result.actions)
    (evaluation.values.sum() + sum(p.sum() for p in evaluation.log_probs.values())).backward()
    assert np.isfinite(result.values).all()
    assert all(torch.isfinite(p.grad).all() for p in net.parameters() if p.grad is not None)


def test_a_draw_of_0_takes_no_masked_choice() -> None:
    allowed = np.array([[False, True, True]])
    chosen, _ = draw_choices(np.zeros((1, 3)), allowed, np.zeros(1))
    assert chosen.tolist() == [1]


@pytest.mark.parametrize("shift", [-1000.0, 0.0, 1000.0])
def test_log_probabilities_of_entities_do_not_depend_on_a_shift(shift: float) -> None:
    logits, owner = torch.tensor([1.0, 2.0, 3.0, 5.0]), torch.tensor([0, 0, 0, 1])
    log_probs, entropies = ragged_log_softmax(logits + shift, owner, 2)
    expected = torch.log_softmax(logits[:3], 0)
    torch.testing.assert_close(log_probs, torch.cat([expected, torch.zeros(1)]))
    torch.testing.assert_close(entropies, torch.stack([-(expected.exp() * expected).sum(), torch.zeros(())]))


@pytest.mark.parametrize("engine", ["auto", "torch"])
def test_what_is_no_batch_is_refused_by_name(engine: str) -> None:
    venv = ez.make_vec("MineSweeper", num_envs=1)
    space = venv.single_observation_space
    net = RogueNet(space, venv.single_action_space, d_model=8, n_layer=1, n_head=2, engine=engine)
    with raises(TypeError, "EntityBatch", "batch_observations", "dict"):
        net.act(space.sample(), np.random.default_rng(0))  # type: ignore[arg-type]
    with raises(TypeError, "EntityBatch", "batch_observations", "list"):
        net.evaluate([space.sample()], {})  # type: ignore[arg-type]
