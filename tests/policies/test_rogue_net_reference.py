"""Every option and every attention path against the slow float64 network of conftest.py."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from entitize.envs import concatenate_batches
from entitize.policies.kernels import parallel

PATHS = ["fused", "torch", "float64"]

RELATIVE = {"position": ["x", "y"], "scale": 0.7}
OPTIONS = {
    "as it comes": {},
    "globals appended": {"global_features": "concat"},
    "wide, three layers": {"d_model": 48, "n_layer": 3, "n_head": 4, "d_qk": 5},
    "odd widths": {"d_model": 15, "n_head": 3},
    "no layers": {"n_layer": 0},
    "translation": {"translation": {"reference": "Player", "position": ["x", "y"]}},
    "rotation by vector": {
        "translation": {
            "reference": "Player",
            "position": ["x", "y"],
            "rotation_vector": ["cos", "sin"],
            "add_distance": True,
        }
    },
    "rotation by angle": {
        "translation": {"reference": "Player", "position": ["x", "y"], "rotation_angle": "angle"},
        "global_features": "concat",
    },
    "fourier": {"fourier": {"features": ["y", "x", "joy"], "wavelengths": [3, 6, 12.5]}},
    "fourier after rotation": {
        "fourier": {"features": ["x", "y"], "wavelengths": [4.0]},
        "translation": {"reference": "Player", "position": ["x", "y"], "rotation_angle": "angle"},
        "global_features": "concat",
        "separate_value_net": True,
    },
    "squashed": {"squash": True, "log_std_init": -0.5},
    "value network": {"separate_value_net": True, "value_d_model": 24, "value_n_layer": 1, "value_n_head": 3},
}
SLOW_OPTIONS = {
    "mean pooling": {"pooling": "mean"},
    "max pooling": {"pooling": "max"},
    "both poolings": {"pooling": "meanmax"},
    "grid": {"relative_position": {**RELATIVE, "extent": [2, 3]}},
    "grid without gate": {"relative_position": {**RELATIVE, "extent": [1, 1], "value_gate": None}},
    "angles": {"relative_position": {**RELATIVE, "extent": [6], "radial": True, "rotation_angle": "angle"}},
    "angles, interpolated": {
        "relative_position": {
            **RELATIVE,
            "extent": [5],
            "radial": True,
            "interpolate": True,
            "rotation_vector": ["cos", "sin"],
            "value_gate": "sigmoid",
        }
    },
    "distances": {
        "relative_position": {
            **RELATIVE,
            "extent": [4],
            "distance": True,
            "exclude": ["Food"],
            "value_gate": "gelu",
        }
    },
    "polar, interpolated": {
        "relative_position": {
            **RELATIVE,
            "extent": [4, 3],
            "radial": True,
            "distance": True,
            "interpolate": True,
            "per_entity_values": True,
            "value_gate": "linear",
        }
    },
    "projections": {
        "relative_position": {**RELATIVE, "extent": [1, 1], "key_projection": True, "value_projection": True}
    },
    "projections per type": {
        "relative_position": {
            **RELATIVE,
            "extent": [2],
            "distance": True,
            "key_projection": True,
            "value_projection": True,
            "per_entity_projections": True,
        },
        "separate_value_net": True,
    },
}


def loss_of(log_probs, entropies, values):
    """A scalar to which everything contributes differently."""
    total = (values * torch.linspace(0.5, 1.5, len(values), dtype=values.dtype)).square().sum()
    for name in log_probs:
        weights = torch.linspace(-1, 1, len(log_probs[name]), dtype=values.dtype)
        total = total + (log_probs[name] * weights).sum() + 0.3 * (entropies[name] * weights.square()).sum()
    return total


def assert_agrees(nets, slow, batch, actions):
    expected = slow(batch, actions)
    loss_of(*expected).backward()
    for net in nets:
        assert_equals(net, slow, batch, actions, expected)


def assert_equals(net, slow, batch, actions, expected):
    got = net.evaluate(batch, actions)
    loss_of(got.log_probs, got.entropies, got.values).backward()
    for name in net.action_space:
        torch.testing.assert_close(got.log_probs[name].double(), expected[0][name], rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(got.entropies[name].double(), expected[1][name], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(got.values.double(), expected[2], rtol=1e-5, atol=1e-5)
    for name, parameter in net.named_parameters():
        wanted = slow.parameters[name].grad
        wanted = torch.zeros_like(slow.parameters[name]) if wanted is None else wanted
        given = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        scale = max(1.0, float(wanted.abs().max()) if wanted.numel() else 0.0)
        torch.testing.assert_close(
            given.double() / scale, wanted / scale, rtol=1e-5, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}"
        )


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
def test_values_and_gradients_of_all_paths_agree_with_the_slow_network(
    make_space, random_batch, make_net, legal_actions, slow_net, options
):
    space = make_space()
    batch = random_batch(space)
    nets = [make_net(space, batch, path=path, **options) for path in PATHS]
    assert_agrees(nets, slow_net(nets[0]), batch, legal_actions(space, batch))


@pytest.mark.parametrize("options", SLOW_OPTIONS.values(), ids=SLOW_OPTIONS.keys())
def test_pooling_and_relative_positions_agree_with_the_slow_network(
    make_space, random_batch, make_net, legal_actions, slow_net, options
):
    space = make_space()
    batch = random_batch(space, most=2)
    nets = [make_net(space, batch, path=path, **options) for path in ("torch", "float64")]
    assert_agrees(nets, slow_net(nets[0]), batch, legal_actions(space, batch))


@pytest.mark.parametrize("separate", [False, True])
def test_hidden_entities_are_left_out_for_the_policy_alone(
    make_space, random_batch, make_net, legal_actions, slow_net, separate
):
    space = make_space(hidden=True)
    batch = random_batch(space)
    nets = [make_net(space, batch, path=path, separate_value_net=separate) for path in PATHS]
    assert_agrees(nets, slow_net(nets[0]), batch, legal_actions(space, batch))


def test_hidden_entities_and_relative_positions_go_together(
    make_space, random_batch, make_net, legal_actions, slow_net
):
    space = make_space(hidden=True)
    batch = random_batch(space, most=2)
    net = make_net(space, batch, relative_position={"extent": [2, 2], "position": ["x", "y"]})
    assert_agrees([net], slow_net(net), batch, legal_actions(space, batch))


def test_long_and_very_uneven_steps_agree_with_the_slow_network(
    make_space, random_batch, make_net, legal_actions, slow_net
):
    space = make_space(entities={"Food": ("x", "y")}, global_features=(), global_action=False)
    parts = [random_batch(space, steps=2, most=most, seed=most, empty=False) for most in (1, 17, 70)]
    batch = concatenate_batches(parts)
    nets = [make_net(space, batch, path=path, n_layer=1) for path in PATHS]
    assert_agrees(nets, slow_net(nets[0]), batch, legal_actions(space, batch))


@pytest.mark.parametrize("threads", [1, 3])
def test_tiles_and_threads_do_not_change_the_result(
    make_space, random_batch, make_net, legal_actions, monkeypatch, threads
):
    """More rows than a tile and than a thread's share: what kernels give against plain torch in float64."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr(parallel, "ROWS_PER_THREAD", 200)
    space = make_space()
    batch = random_batch(space, steps=150, most=5)
    actions = legal_actions(space, batch)
    results = []
    for network in (
        make_net(space, batch, path="float64"),
        make_net(space, batch, path="torch"),
        make_net(space, batch, path="fused"),
    ):
        got = network.evaluate(batch, actions)
        (loss_of(got.log_probs, got.entropies, got.values) / len(batch)).backward()
        results.append((got, {name: p.grad for name, p in network.named_parameters()}))
    wanted, wanted_gradients = results[0]
    for got, gradients in results[1:]:
        torch.testing.assert_close(got.values.double(), wanted.values, rtol=1e-5, atol=1e-5)
        for name, gradient in wanted_gradients.items():
            torch.testing.assert_close(gradients[name].double(), gradient, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"pooling": "meanmax"},
        {"relative_position": {"extent": [2, 2], "position": ["x", "y"], "key_projection": True}},
    ],
)
def test_gradcheck_in_float64(make_space, random_batch, make_net, legal_actions, options):
    space = make_space(hidden=True)
    batch = random_batch(space, steps=4, most=2)
    net = make_net(space, batch, d_model=4, n_layer=1, d_qk=3, **options).double()
    actions = legal_actions(space, batch)
    names = [name for name, _ in net.named_parameters()]

    def outputs(*parameters):
        got = torch.func.functional_call(net, dict(zip(names, parameters, strict=True)), (batch, actions))
        return (*got.log_probs.values(), *got.entropies.values(), got.values)

    leaves = tuple(p.detach().clone().requires_grad_() for p in net.parameters())
    assert torch.autograd.gradcheck(outputs, leaves, fast_mode=True)


def test_float64_networks_act_and_evaluate_alike(make_space, random_batch, make_net):
    space = make_space()
    batch = random_batch(space)
    net = make_net(space, batch, path="float64")
    result = net.act(batch, np.random.default_rng(0))
    evaluation = net.evaluate(batch, result.raw)
    for name in space.actions:
        np.testing.assert_allclose(
            result.log_probs[name].values, evaluation.log_probs[name].detach().numpy(), rtol=1e-5, atol=1e-6
        )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", [*OPTIONS, *SLOW_OPTIONS])
def test_torch_autocast_changes_results_by_rounding_alone(
    make_space, random_batch, make_net, legal_actions, name, dtype
):
    """In float16 as well, which has no number as low as the logits of masked choices in float32."""
    options = (OPTIONS | SLOW_OPTIONS)[name]
    space = make_space()
    batch = random_batch(space, most=2)
    net = make_net(space, batch, path="torch", **options)
    actions = legal_actions(space, batch)
    exact = net.evaluate(batch, actions)
    with torch.autocast("cpu", dtype=dtype):
        got = net.evaluate(batch, actions)
        drawn = net.act(batch, np.random.default_rng(0)).actions
    loss_of(got.log_probs, got.entropies, got.values).backward()
    assert set(drawn) == set(space.actions)
    for action in space.actions:
        torch.testing.assert_close(got.log_probs[action].float(), exact.log_probs[action], rtol=0.1, atol=0.2)
    torch.testing.assert_close(got.values.float(), exact.values, rtol=0.1, atol=0.2)
    assert not torch.equal(got.values, exact.values)
    assert all(p.grad.isfinite().all() for p in net.parameters() if p.grad is not None)


def test_kernels_are_chosen_and_compute_in_float32_under_torch_autocast(
    make_space, random_batch, make_net, legal_actions
):
    space = make_space()
    batch = random_batch(space)
    actions = legal_actions(space, batch)
    expected = make_net(space, batch, path="fused").evaluate(batch, actions)
    net = make_net(space, batch)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got = net.evaluate(batch, actions)
    assert net.engine.name == "fused" and torch.equal(got.values, expected.values)
