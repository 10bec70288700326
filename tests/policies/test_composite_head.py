"""Composite orders: probabilities, entropies and gradients against the enumeration of all orders."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from entitize import RogueNet
from entitize.envs import (
    ActionMask,
    Categorical,
    EntityActionSpace,
    EntityBatch,
    EntitySpace,
    MultiCategorical,
    SelectEntity,
    sample_actions,
    validate_actions,
)
from entitize.ragged import RaggedArray
from torch import Tensor, distributions

from facts import raises

ORDER = MultiCategorical(
    {"kind": ["wait", "move", "build", "hit"], "where": 3, "what": 2, "whom": 4},
    uses={"move": ["where"], "build": ["where", "what"], "hit": ["whom"]},
)
ALONE = MultiCategorical({"gear": 3})
ACTIONS = EntityActionSpace({"order": ORDER, "gear": ALONE, "plain": Categorical(3), "aim": SelectEntity()})
SPACE = EntitySpace({"Unit": ("x", "y")}, ACTIONS, hidden=True)
COUNTS = [4, 0, 1, 6]
SEEDS = range(4)


def make_net(space: EntitySpace = SPACE, **options: Any) -> RogueNet:
    """A network with random weights, in float64."""
    torch.manual_seed(0)
    net = RogueNet(space, space.actions, d_model=8, n_layer=0, **options).double()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(0.4 * torch.randn_like(parameter))
    return net


def make_batch(seed: int = 0, counts: list[int] = COUNTS, repeats: int = 1) -> EntityBatch:
    """Steps of so many units, of which some act; unused components often allow nothing."""
    rng = np.random.default_rng(seed)
    observations = []
    for count in counts:
        actions = {name: action.sample_mask(count, rng) for name, action in ACTIONS.items()}
        rows = rng.standard_normal((count, 2)).astype(np.float32)
        observations += [(rows, actions)] * repeats

    def ragged(parts: list[Any], dtype: Any, inner: tuple[int, ...] = ()) -> RaggedArray:
        return RaggedArray.from_arrays(parts, dtype=dtype, inner_shape=inner)

    masks = {
        name: ActionMask(
            ragged([actions[name]["actors"] for _, actions in observations], np.int64),
            ragged(
                [actions[name]["mask"] for _, actions in observations],
                bool,
                () if isinstance(action, SelectEntity) else (action.num_choices,),  # type: ignore[attr-defined]
            ),
            ragged([actions[name]["actees"] for _, actions in observations], np.int64)
            if isinstance(action, SelectEntity)
            else None,
        )
        for name, action in ACTIONS.items()
    }
    units = ragged([rows for rows, _ in observations], np.float32, (2,))
    return EntityBatch({"Unit": units}, np.zeros((len(units), 0), np.float32), masks)


def logits(net: RogueNet, batch: EntityBatch, name: str) -> Tensor:
    """(A, C), with gradients."""
    x, rows, _ = net.encode(net.inputs.prepare(batch))
    index = torch.as_tensor(batch.actor_rows(name))
    assert len(x) == batch.num_entities == rows.num_rows
    return net.action_heads[name].proj(x[index])


def parts(action: MultiCategorical, row: Any) -> list[Any]:
    return [row[start:stop] for start, stop in itertools.pairwise(action.offsets.tolist())]


def enumerated(
    action: MultiCategorical, row: Tensor, allowed: Any, counts_all: bool = False
) -> Iterator[tuple[tuple[int, ...], Tensor]]:
    """Each order that an actor with these logits (C,) and this mask (C,) could give, and its log-probability.

    A component that doesn't count, or allows nothing, is 0.
    """
    scores, flags = parts(action, row), parts(action, allowed)

    def log_prob(m: int, choice: int) -> Tensor:
        return scores[m][choice] - torch.logsumexp(scores[m][torch.as_tensor(flags[m])], 0)

    for kind in np.flatnonzero(flags[0]).tolist():
        counted = [m for m in range(1, len(flags)) if flags[m].any() and (counts_all or action.used[kind, m])]
        for choices in itertools.product(*(np.flatnonzero(flags[m]).tolist() for m in counted)):
            order = [kind] + [0] * (len(flags) - 1)
            total = log_prob(0, kind)
            for m, choice in zip(counted, choices, strict=True):
                order[m] = choice
                total = total + log_prob(m, choice)
            yield tuple(order), total


@pytest.mark.parametrize("composite", ["used", "all"])
@pytest.mark.parametrize("seed", SEEDS)
def test_probabilities_entropies_and_gradients_are_those_of_the_enumeration(
    seed: int, composite: str
) -> None:
    net, batch = make_net(composite=composite), make_batch(seed)
    for name, action in (("order", ORDER), ("gear", ALONE)):
        mask = batch.actions[name].mask.values
        rows = logits(net, batch, name)
        tables = [
            dict(enumerated(action, row, allowed, composite == "all"))
            for row, allowed in zip(rows, mask, strict=True)
        ]
        drawn = net.act(batch, np.random.default_rng(seed)).raw
        evaluation = net.evaluate(batch, drawn)
        for table in tables:
            assert math.isclose(sum(math.exp(p.detach()) for p in table.values()), 1, abs_tol=1e-12)
        expected = [
            torch.stack([t[tuple(o)] for t, o in zip(tables, drawn[name].values.tolist(), strict=True)]),
            torch.stack([-sum(p.exp() * p for p in table.values()) for table in tables]),
        ]
        weights = torch.linspace(-1, 2, len(tables), dtype=torch.float64)
        for ours, reference in zip(
            (evaluation.log_probs[name], evaluation.entropies[name]), expected, strict=True
        ):
            torch.testing.assert_close(ours, reference, rtol=1e-10, atol=1e-12)
            gradients = [
                torch.autograd.grad(
                    (v * weights).sum(), list(net.parameters()), retain_graph=True, allow_unused=True
                )
                for v in (ours, reference)
            ]
            for one, other in zip(*gradients, strict=True):
                assert (one is None) == (other is None)
                if one is not None:
                    torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-10)


def test_some_masks_of_these_tests_allow_nothing_of_a_component() -> None:
    masks = np.concatenate([make_batch(seed).actions["order"].mask.values for seed in SEEDS])
    assert not ORDER.allows_something(masks).all(0)[1:].any()


def test_where_all_components_count_they_are_independent_categorical_distributions() -> None:
    net = make_net(composite="all")
    batch = make_batch(1)
    result = net.act(batch, np.random.default_rng(0))
    evaluation = net.evaluate(batch, result.raw)
    mask = torch.as_tensor(batch.actions["order"].mask.values)
    orders = torch.as_tensor(result.actions["order"].values)
    log_prob, entropy = torch.zeros(len(mask)).double(), torch.zeros(len(mask)).double()
    for m, (scores, flags) in enumerate(
        zip(
            logits(net, batch, "order").split(ORDER.sizes.tolist(), 1),
            mask.split(ORDER.sizes.tolist(), 1),
            strict=True,
        )
    ):
        some = flags.any(1)
        one = distributions.Categorical(logits=scores[some].masked_fill(~flags[some], -1e9))
        log_prob[some] += one.log_prob(orders[some, m])
        entropy[some] += one.entropy()
    torch.testing.assert_close(evaluation.log_probs["order"], log_prob)
    torch.testing.assert_close(evaluation.entropies["order"], entropy)
    unused = ~ORDER.used[result.actions["order"].values[:, 0]]
    assert (result.actions["order"].values[unused] > 0).any(), "what counts is drawn"


@pytest.mark.parametrize("composite", ["used", "all"])
def test_orders_are_drawn_as_often_as_their_probability_says(composite: str) -> None:
    net = make_net(composite=composite)
    one, many = make_batch(4, [3]), make_batch(4, [3], 20_000)
    assert one.actions["order"].actors.num_items > 1
    result = net.act(many, np.random.default_rng(0))
    drawn = result.actions["order"].values.reshape(20_000, -1, len(ORDER.names))
    expected = logits(net, one, "order")
    for actor, (row, allowed) in enumerate(zip(expected, one.actions["order"].mask.values, strict=True)):
        counts = Counter(map(tuple, drawn[:, actor].tolist()))
        table = {
            order: math.exp(p.detach()) for order, p in enumerated(ORDER, row, allowed, composite == "all")
        }
        assert counts.keys() <= table.keys()
        for order, probability in table.items():
            deviation = math.sqrt(20_000 * probability * (1 - probability))
            assert abs(counts[order] - 20_000 * probability) < 5 * deviation + 1


@pytest.mark.parametrize("composite", ["used", "all"])
def test_the_most_probable_kind_and_the_most_probable_choices_of_what_it_uses_are_taken(
    composite: str,
) -> None:
    net, batch = make_net(composite=composite), make_batch(2)
    rng = np.random.default_rng(0)
    before = rng.bit_generator.state
    orders = net.act(batch, rng, deterministic=True).actions["order"].values
    assert rng.bit_generator.state == before
    for order, row, allowed in zip(
        orders, logits(net, batch, "order"), batch.actions["order"].mask.values, strict=True
    ):
        best = [
            int(np.where(flags, scores.detach(), -np.inf).argmax()) if flags.any() else 0
            for scores, flags in zip(parts(ORDER, row), parts(ORDER, allowed), strict=True)
        ]
        if composite == "used":
            best = [choice if use else 0 for choice, use in zip(best, ORDER.used[best[0]], strict=True)]
        assert order.tolist() == best


@pytest.mark.parametrize("composite", ["used", "all"])
def test_act_and_evaluate_agree_and_what_is_done_is_legal(composite: str) -> None:
    """In float32, with several actions at once, hidden entities, and steps at which nobody acts."""
    space = SPACE
    net = make_net(composite=composite).float()
    for seed in range(5):
        batch = make_batch(seed)
        seen = batch.entities["Unit"].with_values(np.ones(batch.num_entities, bool))
        batch = EntityBatch(batch.entities, batch.globals, batch.actions, {"Unit": seen})
        result = net.act(batch, np.random.default_rng(seed))
        checked = validate_actions(space, batch, result.actions)
        assert all(checked[name] == order for name, order in result.actions.items())
        assert result.actions["order"].dtype == np.int64 and result.actions["order"].inner_shape == (4,)
        evaluation = net.evaluate(batch, net.as_raw(result.actions))
        for name in space.actions:
            np.testing.assert_allclose(
                result.log_probs[name].values, evaluation.log_probs[name].detach(), rtol=1e-5, atol=1e-6
            )
        again = net.act(batch, np.random.default_rng(seed))
        assert again.actions == result.actions
        (sum(e.sum() for e in evaluation.entropies.values()) + evaluation.log_probs["order"].sum()).backward()
    assert all(torch.isfinite(p.grad).all() for p in net.parameters() if p.grad is not None)


def test_without_actors_there_are_no_orders() -> None:
    net, batch = make_net(), make_batch(0, [0, 0])
    result = net.act(batch, np.random.default_rng(0))
    assert result.actions["order"].values.shape == (0, 4) and len(result.actions["order"]) == 2
    evaluation = net.evaluate(batch, result.raw)
    assert evaluation.log_probs["order"].shape == evaluation.entropies["order"].shape == (0,)
    (evaluation.log_probs["order"].sum() + evaluation.entropies["order"].sum()).backward()


def test_a_component_without_use_changes_neither_probability_nor_gradient() -> None:
    net, batch = make_net(), make_batch(0)
    orders = sample_actions(ACTIONS, batch, np.random.default_rng(0))
    values = orders["order"].values.copy()
    unused = ~ORDER.used[values[:, 0]]
    values[unused] = np.broadcast_to(ORDER.sizes - 1, values.shape)[unused]
    outcomes = []
    for chosen in (orders["order"], orders["order"].with_values(values)):
        log_probs = net.evaluate(batch, {**orders, "order": chosen}).log_probs["order"]
        gradient = torch.autograd.grad(log_probs.sum(), net.action_heads["order"].proj.weight)[0]
        outcomes.append((log_probs.detach(), gradient))
    assert not np.array_equal(values, orders["order"].values)
    assert torch.equal(outcomes[0][0], outcomes[1][0]) and torch.equal(outcomes[0][1], outcomes[1][1])


def test_wrong_orders_and_masks_are_named() -> None:
    counts = [2, 1]
    net, batch = make_net(), make_batch(0, counts)
    actors = RaggedArray.from_lengths([0, 1, 0], counts)
    allowed = np.ones((3, 13), bool)
    allowed[2, 4] = False  # where = 0 of the unit at step 1
    masks = {**batch.actions, "order": ActionMask(actors, actors.with_values(allowed))}
    batch = EntityBatch(batch.entities, batch.globals, masks)
    orders = sample_actions(ACTIONS, batch, np.random.default_rng(0))

    def evaluate(order: Any, net: RogueNet = net) -> None:
        net.evaluate(batch, {**orders, "order": actors.with_values(np.array(order))})

    for order, facts in (
        (
            [[0] * 4, [0] * 4, [1, 0, 0, 0]],
            ["step 1: component 'where'", "kind 'move'", 0, "not allowed"],
        ),
        ([[0] * 4, [0, 0, 0, 9], [0] * 4], ["step 0: actors[1]", "component 'whom'", 9, "0 to 3"]),
        ([[0] * 3] * 3, [4, "kind, where, what, whom", "int64", "(3,)"]),
        ([[0.0] * 4] * 3, [4, "kind, where, what, whom", "float64", "(4,)"]),
    ):
        with raises(ValueError, "action 'order'", *facts):
            evaluate(order)
    evaluate([[0] * 4] * 3)
    with raises(ValueError, "'order'", "step 1: component 'where'", 0, "composite='all'"):
        evaluate([[0] * 4] * 3, make_net(composite="all"))

    allowed[1, :4] = False
    with raises(ValueError, "action 'order'", "step 0: actors[1]", "mask", "'kind'"):
        net.act(batch, np.random.default_rng(0))
    allowed[1, 3] = True
    allowed[1, 9:] = False
    with raises(ValueError, "step 0", "mask", "'hit'", "'whom'"):
        net.act(batch, np.random.default_rng(0))
    narrow = {**masks, "order": ActionMask(actors, actors.with_values(np.ones((3, 12), bool)))}
    with raises(ValueError, "'order'", "mask", "(3, 12)", "(3, 13)"):
        net.act(EntityBatch(batch.entities, batch.globals, narrow), np.random.default_rng(0))
    with raises(ValueError, "composite", "'some'", "'used'", "'all'"):
        make_net(composite="some")


def test_the_summary_counts_the_head() -> None:
    actions = EntityActionSpace({"order": ORDER})
    net = RogueNet(EntitySpace({"Unit": ("x", "y")}, actions), actions, composite="all")
    assert net.config["composite"] == "all"
    summary = net.summary({"Unit": 3}, {"order": 2})
    assert summary.parameters["action heads weights"] == 16 * 13
    assert summary.parameters["action heads biases"] == 13
    assert summary.cost is not None and summary.cost.items["action heads"] == 2 * 16 * 13
    assert not any("used" in name for name in net.state_dict()), "the buffer is no part of what is saved"
