"""Parameter and cost counts against the blog's numbers and against the network itself."""

from __future__ import annotations

import pytest
from entitize import RogueNet
from entitize.envs import Categorical, EntityActionSpace, EntitySpace, SelectEntity
from entitize.policies.rogue_net import impala_cost

from facts import raises


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"global_features": "concat"},
        {"pooling": "meanmax", "n_layer": 3},
        {"separate_value_net": True, "value_d_model": 24, "value_n_head": 3},
        {"relative_position": {"extent": [2, 2], "position": ["x", "y"], "key_projection": True}},
        {"translation": {"reference": "Player", "position": ["x", "y"], "add_distance": True}},
    ],
)
def test_the_items_sum_to_the_number_of_parameters(make_space, make_net, options):
    net = make_net(make_space(), **options)
    summary = net.summary({"Player": 1, "Enemy": 3})
    assert summary.total == sum(parameter.numel() for parameter in net.parameters())
    assert sum(summary.parameters.values()) == summary.total
    assert f"{summary.total:,}" in str(summary)
    assert summary.parameters["action heads standard deviations"] == 3


def test_the_names_of_types_do_not_change_what_parameters_count_as():
    actions = EntityActionSpace({"move": Categorical(3)})
    named = [
        RogueNet(EntitySpace({name: ["x", "y"], "Rock": []}, actions), actions).summary().parameters
        for name in ("Player", "norm", "ln1", "relpos_encoding", "mlp", "vector", "value_head")
    ]
    assert named[0]["embedding weights"] == 2 * 16
    assert named[0]["types without features"] == 16
    assert all(parameters == named[0] for parameters in named)


def test_formula_and_remainder_of_the_typical_procgen_network():
    """The blog: 5 types of 50 features, d_model 16, 2 layers, 10 entities; about 10 K parameters."""
    actions = EntityActionSpace({"move": Categorical(15)})
    space = EntitySpace({f"type {i}": [f"f{j}" for j in range(50)] for i in range(5)}, actions)
    net = RogueNet(space, actions)
    summary = net.summary({f"type {i}": 2 for i in range(5)})
    assert summary.blog_parameters == 12 * 2 * 16**2 + 16 * 250 == 10_144
    biases = 2 * (3 * 16 + 16 + 4 * 16 + 16) + 5 * 16
    norms = 2 * 2 * 2 * 16 + 5 * 2 * 16
    heads = 16 * 15 + 15 + 16 + 1
    assert summary.total - summary.blog_parameters == biases + norms + heads
    assert summary.statistics == 5 * (1 + 2 * 50)
    assert summary.cost.blog == 12 * 2 * 16**2 * 10 + 2 * 16 * 10**2 + 16 * 50 * 10 == 72_640
    # Exactly: both products of attention, and the heads.
    assert summary.cost.total == summary.cost.blog + 2 * 16 * 10**2 + 16 * 15 + 16 * 10
    assert summary.parameters["MLP weights"] == 2 * 8 * 16**2
    assert summary.parameters["attention weights"] == 2 * 4 * 16**2
    assert summary.parameters["embedding weights"] == 16 * 250


def test_impala_is_computed_as_in_the_blog():
    parameters, cost = impala_cost()
    assert parameters == 9_648 + 41_472 + 46_080 + 524_288 == 621_488
    assert cost == 11_206_656 + 14_155_776 + 4_718_592 + 524_288
    assert impala_cost(10, 7, 1, (2,), 3) == (
        9 * 2 + 36 * 4 + 3 * 2 * 5 * 4,
        18 * 70 + 144 * 20 + 3 * 2 * 5 * 4,
    )


def test_cost_of_selecting_entities_and_of_a_global_row(make_space, make_net):
    net = make_net(make_space(global_features=("time",), global_action=True), d_model=8, n_layer=1, d_qk=4)
    cost = net.summary({"Food": 3}, actors={"fire": 2, "move": 2, "steer": 5, "speed": 9}).cost
    rows = 4  # three Food and the global row
    assert cost.items["embedding"] == 8 * (3 * 2 + 1)
    assert cost.items["attention projections"] == 4 * 64 * rows
    assert cost.items["attention scores and values"] == 2 * 8 * rows**2
    assert cost.items["MLP"] == 8 * 64 * rows
    assert cost.items["action heads"] == 8 * 4 * 2 + (8 * (2 + 3) + 2 * 3) * 4 + 8 * 3 + 8 * 2 * 5 + 8
    assert cost.items["value head"] == 8 * rows


def test_unknown_types_and_actions_are_named(make_space, make_net):
    net = make_net(make_space())
    with raises(ValueError, "entity type 'Boss'", "Player"):
        net.summary({"Boss": 1})
    with raises(ValueError, "action 'jump'", "move"):
        net.summary({"Food": 1}, actors={"jump": 1})
    assert isinstance(net.action_space["fire"], SelectEntity)
