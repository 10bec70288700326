"""Configuration, names, adaptation to other spaces, saving and the original's weights."""

from __future__ import annotations

import copy
import json
import pickle

import numpy as np
import pytest
import torch
from entitize import RogueNet
from entitize.envs import (
    ActionMask,
    Categorical,
    EntityActionSpace,
    EntityBatch,
    EntityBatchSpace,
    EntitySpace,
)
from entitize.policies import RogueNetConfig
from entitize.policies.rogue_net import NamedModules, RelativePosition, Translation
from entitize.ragged import RaggedArray

from facts import raises, warns
from reference_weights import convert_reference_weights

RICH = {
    "d_model": 24,
    "n_head": 3,
    "translation": {"reference": "Player", "position": ["x", "y"], "add_distance": True},
    "relative_position": {"extent": [2, 2], "position": ["x", "y"], "key_projection": True},
    "separate_value_net": True,
    "value_d_model": 8,
    "value_n_head": 2,
}


def test_config_survives_json_and_builds_the_same_network(make_space, make_net):
    space = make_space()
    net = make_net(space, **RICH)
    config = json.loads(json.dumps(net.config))
    assert config == net.config
    again = RogueNet(space, space.actions, **config)
    assert again.settings == net.settings
    assert {n: p.shape for n, p in again.state_dict().items()} == {
        n: p.shape for n, p in net.state_dict().items()
    }


def test_options_may_be_dataclasses_as_well_as_dicts(make_space):
    space = make_space()
    net = RogueNet(space, space.actions, translation=Translation("Player", ("x", "y")))
    assert net.settings == RogueNetConfig(translation={"reference": "Player", "position": ["x", "y"]})
    assert isinstance(
        RogueNetConfig(relative_position={"extent": [1], "position": ["x"]}).relative_position,
        RelativePosition,
    )


def test_sizes_may_be_integers_of_numpy(make_space):
    config = RogueNet(make_space(), make_space().actions, d_model=np.int64(8), n_head=np.int32(2)).config
    assert json.loads(json.dumps(config)) == config and config["d_model"] == 8


@pytest.mark.parametrize(
    ("options", "error", "facts"),
    [
        ({"d_modle": 8}, TypeError, ["'d_modle'", "'d_model'"]),
        ({"d_model": 10, "n_head": 4}, ValueError, ["n_head", 4, "d_model", 10]),
        ({"n_layer": -1}, ValueError, ["n_layer", -1]),
        ({"d_qk": 0}, ValueError, ["d_qk", 0]),
        ({"dropout": 1.0}, ValueError, ["dropout", 1.0]),
        ({"dropout": "0.1"}, TypeError, ["dropout", "'0.1'"]),
        ({"relative_position": 3}, TypeError, ["relative_position", "RelativePosition", 3]),
        ({"translation": "Robot"}, TypeError, ["translation", "Translation", "'Robot'"]),
        ({"fourier": "x"}, TypeError, ["fourier", "FourierFeatures", "'x'"]),
        ({"translation": {"reference": "Food", "position": "x"}}, TypeError, ["position", "['x']"]),
        ({"log_std_init": float("inf")}, ValueError, ["log_std_init", "inf"]),
        ({"pooling": "sum"}, ValueError, ["pooling", "'sum'"]),
        ({"attention": "flash"}, ValueError, ["attention", "'flash'"]),
        ({"value_d_model": 8}, ValueError, ["value_d_model", "separate_value_net=True"]),
        ({"value_n_layer": 0}, ValueError, ["value_n_layer=0", "separate_value_net=True"]),
        ({"value_n_head": 2}, ValueError, ["value_n_head=2", "separate_value_net=True"]),
        ({"separate_value_net": True, "value_n_head": 3}, ValueError, ["n_head", 3, "d_model", 16]),
        (
            {"translation": {"reference": "Boss", "position": ["x"]}},
            ValueError,
            ["translation", "entity type 'Boss'"],
        ),
        (
            {"translation": {"reference": "Food", "position": ["z"]}},
            ValueError,
            ["translation", "'Food'", "feature 'z'"],
        ),
        ({"translation": {"reference": "Food", "position": []}}, ValueError, ["translation", "position"]),
        *(
            (
                {"translation": {"reference": "Food", "position": ["x", "y"], flag: value}},
                TypeError,
                ["translation", flag, "True or False", repr(value)],
            )
            for flag, value in (("add_distance", "no"), ("keep_reference", "false"))
        ),
        *(
            (
                {"relative_position": {"extent": [1], "position": ["x"], **wrong}},
                error,
                ["relative_position", next(iter(wrong)), *facts],
            )
            for wrong, error, facts in (
                ({"exclude": ["Foo"]}, ValueError, ["'Foo'", "Food"]),
                ({"exclude": 3}, TypeError, ["list", 3]),
                ({"exclude": None}, TypeError, ["list", None]),
                ({"extent": 3}, TypeError, ["list", 3]),
                ({"position": [3]}, TypeError, ["names", 3]),
                ({"position": [], "extent": []}, ValueError, ["position", "at least one", "none"]),
                ({"radial": "no"}, TypeError, ["True or False", "'no'"]),
            )
        ),
        (
            {"translation": {"reference": "Player", "position": ["x"], "rotation_angle": "angle"}},
            ValueError,
            ["rotation", "position", "x"],
        ),
        (
            {"relative_position": {"extent": [1], "position": ["x", "y"]}},
            ValueError,
            ["extent", 1, 2],
        ),
        (
            {"relative_position": {"extent": [0], "position": ["x"]}},
            ValueError,
            ["relative_position", "extent", 0],
        ),
        (
            {"relative_position": {"extent": [2.5], "position": ["x"]}},
            ValueError,
            ["relative_position", "extent", 2.5],
        ),
        (
            {"relative_position": {"extent": [1], "position": ["x"], "scale": 0.0}},
            ValueError,
            ["relative_position", "scale", 0.0],
        ),
        (
            {"relative_position": {"extent": [1], "position": ["z"]}},
            ValueError,
            ["relative_position", "features z"],
        ),
        (
            {"relative_position": {"extent": [1], "position": ["x"]}, "pooling": "mean"},
            ValueError,
            ["relative_position", "pooling"],
        ),
        (
            {"relative_position": {"extent": [1], "position": ["x"], "interpolate": True}},
            ValueError,
            ["interpolate", "radial"],
        ),
    ],
)
def test_wrong_options_are_named(make_space, options, error, facts):
    space = make_space()
    with raises(error, *facts):
        RogueNet(space, space.actions, **options)


def test_any_name_can_be_a_type_and_an_action():
    names = ["type", "a.b", "", "values", "100%", "forward", "Move", "training", "names", "_keys"]
    parts = {name: torch.nn.Linear(1, 1) for name in names}
    named = NamedModules(parts)
    assert len(named) == len(names) and all(named[name] is part for name, part in parts.items())
    assert "Move.weight" in named.state_dict(), "plain names stay as they are"
    actions = EntityActionSpace({name: Categorical(2) for name in names})
    space = EntitySpace(dict.fromkeys(names, ("x",)), actions)
    net = RogueNet(space, actions)
    other = RogueNet(space, actions)
    other.load_state_dict(net.state_dict())
    assert list(net.action_heads.names) == names


def test_the_separate_value_network_has_parameters_of_its_own(
    make_space, random_batch, make_net, legal_actions
):
    space = make_space()
    batch = random_batch(space)
    net = make_net(space, batch, separate_value_net=True, value_d_model=24, value_n_layer=3, value_n_head=4)
    assert net.value_net.backbone.blocks[0].attn.qkv.weight.shape == (72, 24)
    assert len(net.value_net.backbone.blocks) == 3 and len(net.policy_net.backbone.blocks) == 2
    evaluation = net.evaluate(batch, legal_actions(space, batch))
    evaluation.values.sum().backward()
    assert all(p.grad is None for p in (*net.policy_net.parameters(), *net.action_heads.parameters()))
    assert any(p.grad is not None and p.grad.any() for p in net.value_net.parameters())
    net.zero_grad(set_to_none=True)
    evaluation = net.evaluate(batch, legal_actions(space, batch))
    sum(p.sum() for p in evaluation.log_probs.values()).backward()
    assert all(p.grad is None for p in net.value_net.parameters())


def test_state_dict_pickle_and_deepcopy_keep_every_output(make_space, random_batch, make_net):
    space = make_space()
    batch = random_batch(space)
    net = make_net(space, batch, **RICH)
    loaded = make_net(space, seed=9, **RICH)
    loaded.load_state_dict(net.state_dict())
    for other in (loaded, pickle.loads(pickle.dumps(net)), copy.deepcopy(net)):
        np.testing.assert_array_equal(other.value(batch), net.value(batch))
        one, two = (n.act(batch, np.random.default_rng(0)) for n in (net, other))
        assert all(one.actions[name] == two.actions[name] for name in space.actions)


def widened(batch: EntityBatch, rng: np.random.Generator) -> tuple[dict[str, tuple[str, ...]], EntityBatch]:
    """The batch as an env with more types and features, in another order, would give it."""
    extra = RaggedArray.from_lengths(
        rng.standard_normal((2 * len(batch), 1)).astype(np.float32), np.full(len(batch), 2)
    )
    food = batch.entities["Food"]
    swapped = np.concatenate([food.values[:, 1:], rng.random((food.num_items, 1)), food.values[:, :1]], 1)
    entities = {"Ghost": extra, **batch.entities, "Food": food.with_values(swapped.astype(np.float32))}
    moved = {
        name: type(mask)(
            mask.actors if name in ("mode", "speed") else mask.actors.with_values(mask.actors.values + 2),
            mask.mask,
            None if mask.actees is None else mask.actees.with_values(mask.actees.values + 2),
        )
        for name, mask in batch.actions.items()
    }
    globals_ = np.concatenate([batch.globals[:, 1:], batch.globals[:, :1], batch.globals], 1)
    return {"Ghost": ("fear",), "Food": ("y", "taste", "x")}, EntityBatch(entities, globals_, moved)


def test_an_env_with_more_types_and_features_works_by_name(make_space, random_batch, make_net):
    space = make_space()
    batch = random_batch(space, steps=9)
    net = make_net(space, batch)
    changes, wide_batch = widened(batch, np.random.default_rng(0))
    types = {"Ghost": changes["Ghost"], **space.entities, "Food": changes["Food"]}
    wide = EntitySpace(types, space.actions, ("score", "time", "bonus", "malus"))
    with raises(ValueError, "globals", 4, 2, "float32"):
        net.value(wide_batch)
    expected, expected_values = net.act(batch, np.random.default_rng(0)), net.value(batch)
    net.adapt_to(wide)
    result = net.act(wide_batch, np.random.default_rng(0))
    np.testing.assert_allclose(result.values, expected_values, rtol=1e-5, atol=1e-6)
    for name in space.actions:
        shift = 2 if name == "fire" else 0  # the ghosts come first
        np.testing.assert_array_equal(result.actions[name].values, expected.actions[name].values + shift)
        np.testing.assert_allclose(
            result.log_probs[name].values, expected.log_probs[name].values, rtol=1e-4, atol=1e-6
        )
    evaluation = net.evaluate(wide_batch, result.actions)
    np.testing.assert_allclose(evaluation.values.detach(), expected_values, rtol=1e-5, atol=1e-6)
    net.adapt_to(space)
    np.testing.assert_array_equal(net.value(batch), expected_values)


def test_a_space_that_lacks_something_is_refused_and_nothing_changes(make_space, random_batch, make_net):
    space = make_space()
    batch = random_batch(space)
    net = make_net(space, batch)
    expected = net.value(batch)
    poor = {name: features for name, features in space.entities.items() if name != "Food"}
    with raises(ValueError, "entity type 'Food'"):
        net.adapt_to(EntitySpace(poor, space.actions, space.global_features))
    with raises(ValueError, "entity type 'Food'", "features y", "x, z"):
        net.adapt_to(
            EntitySpace({**space.entities, "Food": ("x", "z")}, space.actions, space.global_features)
        )
    with raises(ValueError, "globals", "time, score"):
        net.adapt_to(EntitySpace(space.entities, space.actions))
    with raises(ValueError, "actions", "jump"):
        net.adapt_to(
            EntitySpace(space.entities, EntityActionSpace({"jump": Categorical(2)}), space.global_features)
        )
    np.testing.assert_array_equal(net.value(batch), expected)


def test_a_batch_of_another_space_is_named(make_space, random_batch, make_net):
    space = make_space()
    batch = random_batch(space)
    net = make_net(space, batch)
    food = batch.entities["Food"]
    wrong = {**batch.entities, "Food": food.with_values(food.values[:, :1].copy())}
    with raises(ValueError, "entity type 'Food'", "(1,)", "(2,)", "float32"):
        net.value(EntityBatch(wrong, batch.globals, batch.actions))
    double = {**batch.entities, "Food": food.with_values(food.values.astype(np.float64))}
    with raises(ValueError, "entity type 'Food'", "(2,)", "float64", "float32"):
        net.value(EntityBatch(double, batch.globals, batch.actions))
    with raises(ValueError, "globals", 2, "float64", "float32"):
        net.value(EntityBatch(batch.entities, batch.globals.astype(np.float64), batch.actions))
    with raises(ValueError, "entity type 'Ghost'", "adapt_to"):
        net.value(EntityBatch({**batch.entities, "Ghost": food}, batch.globals, batch.actions))


@pytest.mark.parametrize("actor", [1, 2])
def test_an_actor_of_an_unknown_type_is_refused_where_others_are_hidden(actor: int) -> None:
    actions = EntityActionSpace({"move": Categorical(2)})
    net = RogueNet(EntitySpace({"Own": ["x"]}, actions, hidden=True), actions, d_model=8, n_layer=1)
    net.adapt_to(EntitySpace({"Own": ["x"], "Ghost": ["x"]}, actions, hidden=True))
    rows = {"Own": np.ones((2, 1), np.float32), "Ghost": np.ones((1, 1), np.float32)}
    batch = EntityBatch(
        {name: RaggedArray.from_arrays([array]) for name, array in rows.items()},
        np.zeros((1, 0), np.float32),
        {"move": ActionMask(RaggedArray.from_arrays([[actor]]), RaggedArray.from_arrays([[[True, True]]]))},
        {"Own": RaggedArray.from_arrays([[False, True]]), "Ghost": RaggedArray.from_arrays([[True]])},
    )
    if actor == 1:
        assert len(net.act(batch, np.random.default_rng(0)).actions["move"].values) == 1
    else:
        with raises(ValueError, "'move'", "entity 2", "type"):
            net.act(batch, np.random.default_rng(0))


def test_a_type_that_the_batch_leaves_out_is_absent(make_space, random_batch, make_net):
    space = make_space(global_action=False)
    batch = random_batch(space, steps=4)
    net = make_net(space, batch)
    nobody = {n: rows if n != "Mood" else RaggedArray.empty(4, (1,)) for n, rows in batch.entities.items()}
    without = {n: rows for n, rows in batch.entities.items() if n != "Mood"}
    np.testing.assert_array_equal(
        net.value(EntityBatch(without, batch.globals, batch.actions)),
        net.value(EntityBatch(nobody, batch.globals, batch.actions)),
    )


def original_names(net: RogueNet) -> dict[str, torch.Tensor]:
    """The state of `net` under the names that the original package gives its parameters."""
    state = {}
    for name, value in net.state_dict().items():
        parts = name.split(".")
        if parts[0] == "normalization":
            value = value.float()
            state[f"embedding.embeddings.{parts[1]}.0.{parts[2]}"] = value
        elif parts[:2] == ["policy_net", "embedding"]:
            place = {"linear": "1.", "norm": "3."}.get(parts[4], "")
            last = f"{place}{parts[-1]}" if place else "embedding"
            state[f"embedding.embeddings.{parts[3]}.{last}"] = value
        elif "qkv" in parts:
            for part, chunk in zip(("query", "key", "value"), value.chunk(3), strict=True):
                state[f"backbone.blocks.{parts[3]}.attn.{part}.{parts[-1]}"] = chunk
        elif "relpos_encoding" in parts:
            place = "backbone.relpos_encoding"
            last = parts[-1]
            if last in ("keys", "values"):
                state[f"{place}.{last}.weight"] = value
                state[f"backbone.blocks.0.attn.relpos_encoding.{last}.weight"] = value
            elif last in ("key_weight", "key_bias", "value_weight", "value_bias"):
                kind, leaf = last.split("_")
                for type_name, own in zip(net.inputs.features, value, strict=True):
                    own = own.T if leaf == "weight" else own
                    state[f"{place}.{kind[0]}proj.{type_name}.{leaf}"] = own
            elif "offset_norm" in parts:
                state[f"{place}.relpos_norm.{last}"] = value.float()
            else:
                state[f"{place}.value_gate_proj.{last}"] = value
        elif parts[0] == "policy_net":
            state[".".join(parts[1:])] = value
        elif parts[0] == "value_head":
            state[f"auxiliary_heads.value.{parts[-1]}"] = value
        else:
            state[name] = value
    state["backbone.relpos_encoding.strides"] = torch.ones(1, 2)
    return state


def test_weights_of_the_original_find_their_place(make_space, random_batch, make_net):
    space = make_space(continuous=False)
    batch = random_batch(space)
    relative = {
        "extent": [2, 2],
        "position": ["x", "y"],
        "key_projection": True,
        "value_projection": True,
        "per_entity_projections": True,
    }
    net = make_net(space, batch, global_features="concat", relative_position=relative)
    original = original_names(net)
    assert "backbone.blocks.1.mlp.0.weight" in original and "action_heads.fire.query_proj.weight" in original
    loaded = RogueNet(space, space.actions, **net.config)
    loaded.load_state_dict(convert_reference_weights(original, net=loaded))
    np.testing.assert_allclose(loaded.value(batch), net.value(batch), rtol=1e-4, atol=1e-5)
    with raises(ValueError, "'tail.weight'"):
        convert_reference_weights({"tail.weight": torch.zeros(1)}, net=loaded)


def test_the_original_has_distances_behind_global_features(make_space, random_batch, make_net):
    """Found with rogue-net 0.1.9, whose embedding joins the global features before it translates."""
    space = make_space(continuous=False)
    batch = random_batch(space)
    translation = {"reference": "Player", "position": ["x", "y"], "add_distance": True}
    net = make_net(space, batch, global_features="concat", translation=translation)
    original = original_names(net)
    for name, num_features in (("Enemy", 6), ("Food", 2)):
        order = [*range(num_features), num_features + 1, num_features + 2, num_features]
        for part in ("0.mean", "0.squares_sum", "1.weight"):
            place = f"embedding.embeddings.{name}.{part}"
            original[place] = original[place][..., order]
    loaded = RogueNet(space, space.actions, **net.config)
    loaded.load_state_dict(convert_reference_weights(original, net=loaded))
    np.testing.assert_allclose(loaded.value(batch), net.value(batch), rtol=1e-4, atol=1e-5)
    with warns(UserWarning, "net"):
        unordered = convert_reference_weights(original)
    place = "policy_net.embedding.types.Food.linear.weight"
    assert not torch.equal(unordered[place], net.state_dict()[place])


def test_the_spaces_of_a_whole_vector_environment_are_refused(make_space):
    space = make_space()
    with raises(TypeError, "single_observation_space", "single_action_space"):
        RogueNet(EntityBatchSpace(space, 2), space.actions)
