"""Sizes, options, refusals, training and checkpoints of the published networks."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import entitize as ez
import numpy as np
import pytest
import torch
from entitize import Policy
from entitize.envs import Categorical, EntityActionSpace, EntityBatch, EntitySpace, MultiCategorical
from entitize.policies.rogue_net import impala_cost
from entitize.ragged import RaggedArray
from entitize.trainers import PPO, PPOConfig, load_policy

from facts import raises

KINDS = [
    ez.baselines.TransformerNet,
    ez.baselines.GridNet,
    ez.baselines.ImpalaGridNet,
    ez.baselines.UnitActionNet,
]
SMALL: dict[Any, dict[str, Any]] = {
    ez.baselines.TransformerNet: {"n_layer": 1, "n_head": 1, "d_hidden": 16},
    ez.baselines.GridNet: {},
    ez.baselines.ImpalaGridNet: {"channels": (4, 4), "hidden": 32},
    ez.baselines.UnitActionNet: {"channels": (16,), "hidden": 64},
}


def small(kind: Any, space: EntitySpace, **options: Any) -> Any:
    """A network for maps of 4 × 4."""
    torch.manual_seed(0)
    return kind(space, space.actions, height=4, width=4, **{**SMALL[kind], **options})


@pytest.mark.parametrize(
    ("kind", "size", "published"),
    [
        (ez.baselines.TransformerNet, 8, 645_470),
        (ez.baselines.TransformerNet, 16, 661_854),
        (ez.baselines.GridNet, 16, 838_191),
        (ez.baselines.GridNet, 8, 838_191),
        (ez.baselines.ImpalaGridNet, 16, 5_266_113),
        (ez.baselines.UnitActionNet, 16, 220_175),
    ],
)
def test_the_parameters_are_as_many_as_published(
    kind: Any, size: int, published: int, rts_space: Any
) -> None:
    space = rts_space()
    net = kind(space, space.actions, height=size, width=size)
    summary = net.summary({"Own": 5, "Enemy": 5, "Resource": 4}, {"order": 2})
    assert sum(parameter.numel() for parameter in net.parameters()) == published == summary.total
    assert f"{published:,}" in str(summary)
    assert isinstance(net, Policy)


def test_the_impala_encoder_has_the_size_of_the_blogs_formula_and_its_biases() -> None:
    encoder = ez.baselines.ImpalaEncoder(3, 64, 64)
    biases = sum(p.numel() for name, p in encoder.named_parameters() if name.endswith("bias"))
    assert sum(p.numel() for p in encoder.parameters()) - biases == impala_cost()[0]
    assert encoder(torch.zeros(2, 3, 64, 64)).shape == (2, 256)
    with raises(ValueError, "ImpalaEncoder", "channels", 0):
        ez.baselines.ImpalaEncoder(0, 64, 64)


def test_costs_are_those_of_the_formulas(rts_space: Any) -> None:
    space = rts_space()
    counts, actors = {"Own": 3, "Enemy": 4}, {"order": 2}
    grid = ez.baselines.GridNet(space, space.actions, height=8, width=8).summary(counts, actors)
    down = zip((27, 32, 64, 128), (32, 64, 128, 256), (16, 8, 4, 2), strict=True)
    assert grid.cost.items["encoder"] == sum(9 * i * o * side**2 for i, o, side in down)
    up = zip((256, 128, 64, 32), (128, 64, 32, 78), (1, 2, 4, 8), strict=True)
    assert grid.cost.items["decoder"] == sum(9 * i * o * side**2 for i, o, side in up)
    assert grid.cost.items["critic"] == 256 * 128 + 128
    transformer = ez.baselines.TransformerNet(space, space.actions, height=8, width=8).summary(counts, actors)
    projections, scores, mlp = 4 * 91**2 * 7, 2 * 91 * 7**2, 2 * 91 * 512 * 7
    expected = 5 * (projections + scores + mlp) + 91 * 78 * 2 + 91 * 7 + 6
    assert transformer.cost.total == expected
    impala = ez.baselines.UnitActionNet(space, space.actions, height=64, width=64)
    planes_to_pixels = 9 * (27 - 3) * 16 * 64 * 64  # the formula is about three channels
    expected_passes = 2 * (impala_cost()[1] + planes_to_pixels)
    assert impala.summary(counts, actors).cost.items["encoder"] == expected_passes
    with raises(ValueError, "entity type 'Foe'", "Own, Enemy, Resource"):
        impala.summary({"Foe": 1})


@pytest.mark.parametrize("kind", KINDS)
def test_acting_is_legal_repeatable_and_the_same_for_any_batch_size(
    kind: Any, rts_space: Any, map_batch: Any
) -> None:
    space = rts_space()
    net = small(kind, space).eval()
    batch = map_batch(space, 4, 4)
    one, two = (net.act(batch, np.random.default_rng(7)) for _ in range(2))
    assert one.actions == two.actions and one.log_probs == two.log_probs
    action = space.actions["order"]
    assert action.legal(one.actions["order"].values, batch.actions["order"].mask.values).all()
    best = net.act(batch, np.random.default_rng(0), deterministic=True)
    steps = [
        net.act(batch[i : i + 1], np.random.default_rng(i), deterministic=True) for i in range(len(batch))
    ]
    for step, alone in enumerate(steps):
        np.testing.assert_array_equal(best.actions["order"][step], alone.actions["order"][0])
        np.testing.assert_allclose(best.values[step], alone.values[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_steps_without_entities_or_actors_have_values_and_gradients(
    kind: Any, rts_space: Any, map_batch: Any
) -> None:
    space = rts_space()
    net = small(kind, space)
    batch = map_batch(space, 4, 4).gather([3, 3])
    assert batch.num_entities == 0
    acted = net.act(batch, np.random.default_rng(0))
    assert acted.actions["order"].num_items == 0 and acted.actions["order"].inner_shape == (7,)
    evaluation = net.evaluate(batch, acted.raw)
    assert evaluation.log_probs["order"].shape == (0,)
    np.testing.assert_allclose(evaluation.values.detach(), acted.values, rtol=1e-5, atol=1e-6)
    (evaluation.values.sum() + evaluation.log_probs["order"].sum()).backward()
    assert len(net.act(batch.gather([]), np.random.default_rng(0)).values) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_training_moves_every_parameter_and_what_is_saved_is_loaded(
    kind: Any, rts_space: Any, obedience_venv: Any, tmp_path: Path
) -> None:
    space = rts_space()
    net = small(kind, space, composite="all")
    before = copy.deepcopy(net.state_dict())
    config = PPOConfig(
        total_timesteps=256, num_steps=8, minibatch_size=32, update_epochs=2, joint_log_prob=True
    )
    PPO(net, obedience_venv(space), config, tmp_path / "run").train()
    unmoved = [name for name, value in net.state_dict().items() if torch.equal(value, before[name])]
    assert unmoved == []
    loaded = load_policy(tmp_path / "run")
    assert type(loaded) is kind and loaded.config == net.config and not loaded.training
    batch = obedience_venv(space).reset(seed=5)[0]
    results = [policy.eval().act(batch, np.random.default_rng(1)) for policy in (net, loaded)]
    assert results[0].actions == results[1].actions
    assert load_policy(tmp_path / "run", composite="used").config["composite"] == "used"
    loaded.adapt_to(space)
    with raises(ValueError, "entity types", "Own", "Enemy"):
        loaded.adapt_to(EntitySpace({"Own": ["x"]}, space.actions))


@pytest.mark.parametrize(
    ("kind", "most", "size", "regardless", "reached"),
    [(ez.baselines.TransformerNet, 3, 4, 0.38, 0.55), (ez.baselines.UnitActionNet, 1, 2, 0.28, 0.4)],
)
def test_training_learns_what_the_planes_ask_for(
    kind: Any, most: int, size: int, regardless: float, reached: float, rts_space: Any, obedience_venv: Any
) -> None:
    """Always the same order earns `regardless` at most; knowing the planes, about twice as much.

    Unit action simulation gets one unit: its order does not depend on which of several it picked.
    """
    space = rts_space()
    net = small(kind, space)
    config = PPOConfig(
        total_timesteps=6144, num_steps=16, minibatch_size=128, learning_rate=5e-3, gamma=0.0, ent_coef=0.0
    )
    trainer = PPO(net, obedience_venv(space, 16, most, size), config)
    assert trainer.collect().returns.mean() < regardless
    trainer.train()
    assert trainer.collect().returns.mean() > reached


def test_dropout_acts_where_it_was_asked_for(rts_space: Any, map_batch: Any) -> None:
    space = rts_space()
    batch = map_batch(space, 4, 4)
    fair, faulty = (
        small(ez.baselines.TransformerNet, space, dropout_while_acting=flag) for flag in (False, True)
    )
    orders = fair.act(batch, np.random.default_rng(0)).actions

    def evaluated(net: Any) -> np.ndarray:
        return net.evaluate(batch, orders).values.detach().numpy()

    assert not np.array_equal(evaluated(fair.train()), evaluated(fair))
    np.testing.assert_array_equal(evaluated(fair.eval()), evaluated(fair))
    np.testing.assert_array_equal(fair.train().value(batch), fair.eval().value(batch))
    assert not np.array_equal(faulty.eval().value(batch), faulty.value(batch))
    state = torch.get_rng_state()
    one, two, other = (faulty.act(batch, np.random.default_rng(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.values, two.values)
    assert not np.array_equal(one.values, other.values)
    assert torch.equal(state, torch.get_rng_state())
    sober = faulty.act(batch, np.random.default_rng(1), deterministic=True)
    np.testing.assert_allclose(sober.values, fair.value(batch), rtol=1e-5, atol=1e-6)


# -- refusals ------------------------------------------------------------------------------------------------


def test_spaces_and_options_that_do_not_fit_are_refused(rts_space: Any) -> None:
    space = rts_space()

    def build(kind: Any = ez.baselines.TransformerNet, space: Any = space, **options: Any) -> None:
        kind(space, getattr(space, "actions", None), **{"height": 8, "width": 8, **options})

    with raises(TypeError, "GridNet", "EntitySpace", "EntityActionSpace", "int"):
        build(ez.baselines.GridNet, 3)
    for actions in ({"go": Categorical(3)}, dict.fromkeys(("a", "b"), space.actions["order"])):
        other = EntitySpace(space.entities, EntityActionSpace(actions))
        with raises(ValueError, "MultiCategorical"):
            build(space=other)
    with raises(ValueError, "entity type 'Rock'", "x, y", "planes"):
        build(space=EntitySpace({**space.entities, "Rock": ["x"]}, space.actions))
    with raises(ValueError, "entity types"):
        build(space=EntitySpace({}, space.actions))
    with raises(ValueError, "hidden=True"):
        build(space=rts_space(hidden=True))
    with raises(ValueError, "empty_planes", 10, 7):
        build(ez.baselines.GridNet, rts_space(7))
    with raises(ValueError, "'order'", "planes", 6, 5):
        build(ez.baselines.UnitActionNet, rts_space(5), empty_planes=[])
    with raises(TypeError, "ImpalaConfig", "'chanels'", "'channels'"):
        build(ez.baselines.ImpalaGridNet, chanels=3)
    with raises(ValueError, "channels", "hidden", "positive", 0):
        build(ez.baselines.ImpalaGridNet, channels=[4, 0])
    for wrong, facts in (
        ({"n_head": 4}, ["n_head", 4, 91, 64, 27]),
        ({"composite": "some"}, ["composite", "'some'", "'used'", "'all'"]),
        ({"position": "polar"}, ["position", "'polar'"]),
        ({"attention": "fused"}, ["attention", "'fused'", "'auto'"]),
        ({"dropout": 1.0}, ["dropout", 1.0]),
        ({"n_layer": 0}, ["n_layer", 0, 1]),
        ({"width": 0}, ["map", 8, 0]),
    ):
        with raises(ValueError, *facts):
            build(**wrong)


def moved(batch: EntityBatch, name: str, item: int, x: float, y: float) -> EntityBatch:
    rows = batch.entities[name]
    values = rows.values.copy()
    values[item, :2] = x, y
    return EntityBatch({**batch.entities, name: rows.with_values(values)}, batch.globals, batch.actions)


def test_batches_that_do_not_fit_the_map_are_refused(rts_space: Any, map_batch: Any) -> None:
    space = rts_space()
    batch = map_batch(space, 4, 4)
    net, grid = small(ez.baselines.TransformerNet, space), small(ez.baselines.GridNet, space)
    second = int(batch.entities["Enemy"].offsets[1])
    step = int(batch.entities["Enemy"].sequence_indices()[second])
    for x, y in ((4, 0), (0, -1), (1.5, 0), (0, np.nan)):
        with raises(ValueError, "entity type 'Enemy'", f"step {step}", f"{x:g}", f"{y:g}", "map"):
            net.value(moved(batch, "Enemy", second, x, y))
    x, y = batch.entities["Own"].values[0, :2]
    crowded = moved(batch, "Own", 1, x, y)
    with raises(ValueError, "step 0", "cell", f"x {x:g}", f"y {y:g}"):
        grid.value(crowded)
    fewer = EntityBatch({"Own": batch.entities["Own"]}, batch.globals, batch.actions)
    with raises(ValueError, "entity types", "Own, Enemy, Resource"):
        net.value(fewer)
    narrow = {name: rows.with_values(rows.values[:, :5].copy()) for name, rows in batch.entities.items()}
    with raises(ValueError, "'Own'", "(5,)", "(29,)", "float32"):
        net.value(EntityBatch(narrow, batch.globals, batch.actions))


@pytest.mark.parametrize("kind", KINDS)
def test_orders_that_do_not_fit_the_batch_are_refused(kind: Any, rts_space: Any, map_batch: Any) -> None:
    space = rts_space()
    batch, net = map_batch(space, 4, 4), small(kind, space)
    orders = net.act(batch, np.random.default_rng(0)).actions["order"]
    with raises(ValueError, "action 'order'", "missing"):
        net.evaluate(batch, {})
    with raises(ValueError, "action 'order'", "item", "actor"):
        net.evaluate(batch, {"order": orders[::-1]})
    illegal = orders.values.copy()
    illegal[0, 0] = 6
    with raises(ValueError, "action 'order'", "step 0: actors[0]", "component 'kind'", 6):
        net.evaluate(batch, {"order": orders.with_values(illegal)})
    mask = batch.actions["order"].mask
    stuck = np.array(mask.values)
    stuck[1] = False
    batch.actions["order"] = type(batch.actions["order"])(
        batch.actions["order"].actors, mask.with_values(stuck)
    )
    with raises(ValueError, "action 'order'", "mask", "'kind'"):
        net.act(batch, np.random.default_rng(0))


def test_turns_that_repeat_or_columns_that_mean_nothing_are_refused(rts_space: Any, map_batch: Any) -> None:
    space = rts_space()
    batch, net = map_batch(space, 4, 4), small(ez.baselines.UnitActionNet, space)
    drawn = net.act(batch, np.random.default_rng(0)).raw["order"]
    values = drawn.values.copy()
    values[0, 7] = values[1, 7] = 2
    for items in (drawn.values[:, :3].copy(), drawn.values[:, 0].copy()):
        with raises(ValueError, "action 'order'", 7, 8, "shape"):
            net.evaluate(batch, {"order": drawn.with_values(items)})
    turned = {"order": RaggedArray(values, drawn.offsets)}
    with raises(ValueError, "action 'order'", "step 0", "turns", "2, 2"):
        net.evaluate(batch, turned)


def test_a_single_component_is_an_order_too(rts_space: Any, map_batch: Any) -> None:
    """The networks are not bound to μRTS's components."""
    planes = rts_space()
    space = EntitySpace(planes.entities, EntityActionSpace({"go": MultiCategorical({"kind": 4})}))
    batch = map_batch(planes, 4, 4)
    actors = batch.actions["order"].actors
    part = type(batch.actions["order"])(actors, actors.with_values(np.ones((actors.num_items, 4), bool)))
    batch = EntityBatch(batch.entities, np.zeros((len(batch), 0), np.float32), {"go": part})
    for kind in KINDS:
        acted = small(kind, space).act(batch, np.random.default_rng(0))
        assert acted.actions["go"].values.shape == (actors.num_items, 1)
