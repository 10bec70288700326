"""Which engine computes a network that was changed, what the log says, and what both engines refuse."""

from __future__ import annotations

import copy
import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from entitize import RogueNet
from entitize.envs import (
    Categorical,
    Continuous,
    EntityActionSpace,
    EntityBatch,
    EntitySpace,
    GlobalCategorical,
    MultiCategorical,
    SelectEntity,
    batch_observations,
)
from entitize.policies import RogueNetConfig
from entitize.policies.inputs import generate
from entitize.policies.rogue_net import Block, LogitsHead, ValueHead
from entitize.trainers import PPOConfig, Samples
from entitize.trainers.learners import make_learner, make_optimizer
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parametrizations, prune

from facts import raises

ACTIONS: dict[str, Any] = {"move": Categorical(3), "aim": SelectEntity(), "steer": Continuous([-1.0], [1.0])}
SPACE = EntitySpace({"Unit": ["x", "y"]}, EntityActionSpace(ACTIONS))
CHOOSING = "entitize.policies.engines.engine_choice"


def make_batch() -> EntityBatch:
    SPACE.seed(0)
    return batch_observations(SPACE, [SPACE.sample() for _ in range(6)])


def make_pair(**options: Any) -> tuple[RogueNet, RogueNet]:
    """The same random network for each engine."""
    nets = []
    for engine in ("fused", "torch"):
        torch.manual_seed(0)
        net = RogueNet(SPACE, SPACE.actions, engine=engine, d_model=8, n_layer=1, **options)
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.2)
        nets.append(net)
    return nets[0], nets[1]


def silu_blocks(net: RogueNet, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if somebody had edited the source of a block."""

    def forward(self: Any, x: Tensor, rows: Any, relative: Any) -> Tensor:
        x = x + self.attn(self.ln1(x), rows, relative)
        first, _, second = self.mlp
        return x + second(functional.silu(first(self.ln2(x))))

    monkeypatch.setattr(Block, "forward", forward)


class Doubled(ValueHead):
    def forward(self, x: Tensor, rows: Any) -> Tensor:
        return 2 * super().forward(x, rows)


def own_head(net: RogueNet, _: Any) -> None:
    head = Doubled(8)
    head.load_state_dict(net.value_head.state_dict())
    net.value_head = head


class Colder(LogitsHead):
    def logits(self, x: Tensor, rows: Any, mask: Any) -> Tensor:
        return super().logits(x, rows, mask) / 2


def own_class(net: RogueNet, _: Any) -> None:
    net.action_heads["move"].__class__ = Colder


def hooked(net: RogueNet, _: Any) -> None:
    net.value_head.register_forward_hook(lambda module, given, output: 3 * output)


class Adapted(nn.Linear):
    """A low-rank adapter, which starts as nothing."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__(linear.in_features, linear.out_features)
        self.load_state_dict(linear.state_dict())
        self.down = nn.Parameter(torch.full((2, linear.in_features), 0.3))
        self.up = nn.Parameter(torch.zeros(linear.out_features, 2))

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + x @ self.down.T @ self.up.T


def adapted(net: RogueNet, _: Any) -> None:
    net.policy_net.backbone.blocks[0].mlp[0] = Adapted(first_block(net).mlp[0])  # type: ignore[index,union-attr]


def coarse_norm(net: RogueNet, _: Any) -> None:
    first_block(net).ln2.eps = 0.5  # type: ignore[union-attr]


def pruned(net: RogueNet, _: Any) -> None:
    prune.l1_unstructured(first_block(net).mlp[0], "weight", 0.5)  # type: ignore[index,union-attr]


def normed(net: RogueNet, _: Any) -> None:
    parametrizations.weight_norm(net.value_head.proj)


def other_parts(net: RogueNet, _: Any) -> None:
    torch.manual_seed(2)
    first_block(net).mlp = nn.Linear(8, 8)


def without_bias(net: RogueNet, _: Any) -> None:
    first_block(net).mlp[0].bias = None


def first_block(net: RogueNet) -> Any:
    return net.policy_net.backbone.blocks[0]


#: A change and what the log says of it.
CHANGES: dict[str, tuple[Callable[[RogueNet, Any], None], str]] = {
    "source": (silu_blocks, "log-probabilities"),
    "subclass of a head": (own_head, "values"),
    "class of a head": (own_class, "'move'"),
    "hook": (hooked, "hooks"),
    "adapter": (adapted, "differ"),
    "epsilon": (coarse_norm, "eps"),
    "pruned weight": (pruned, "hooks"),
    "parametrization": (normed, "generated rows"),
    "other parts": (other_parts, "making kernels"),
    "no bias": (without_bias, "generated rows"),
}


def trained(net: RogueNet, batch: EntityBatch) -> list[Tensor]:
    """What three gradient steps of PPO make of a network."""
    rng = np.random.default_rng(0)
    got = net.act(batch, rng)
    advantages, returns = rng.standard_normal((2, len(batch))).astype(np.float32)
    samples = Samples(batch, got.raw, got.log_probs, got.values, advantages, returns)
    config = PPOConfig(learning_rate=0.01)
    learner = make_learner(net, make_optimizer(net.parameters(), config, torch.device("cpu")), config)
    for _ in range(3):
        learner.step(samples, 0.02)
    return [tensor.detach().clone() for tensor in net.state_dict().values()]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"composite": "all"},
        {"squash": True},
        {"separate_value_net": True},
        {"global_features": "concat"},
        {"fourier": {"features": ["x", "y"], "wavelengths": [1.0, 4.0]}},
        {"translation": {"reference": "Me", "position": ["x", "y"], "add_distance": True}},
        {"d_model": 64, "n_head": 4},
        {"n_layer": 0},
    ],
    ids=str,
)
@pytest.mark.parametrize("hidden", [False, True])
def test_an_unchanged_network_passes_the_comparison(
    options: dict[str, Any], hidden: bool, caplog: pytest.LogCaptureFixture
) -> None:
    do = MultiCategorical({"kind": ["wait", "go"], "where": ["left", "right"]}, uses={"go": ["where"]})
    actions = EntityActionSpace({**ACTIONS, "do": do, "say": GlobalCategorical(2)})
    entities = {"Me": ["x", "y"], "Unit": ["x", "y", "health"], "Wall": []}
    space = EntitySpace(entities, actions, ["time"], hidden=hidden)
    net = RogueNet(space, actions, **{"d_model": 16, "n_layer": 1, **options})
    batch = generate(space, net.settings, np.random.default_rng(1))
    with caplog.at_level(logging.WARNING):
        net.evaluate(batch, net.act(batch, np.random.default_rng(0)).raw)
    assert not caplog.records
    assert net.engine.name == "fused"


@pytest.mark.parametrize("used_before", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_what_is_trained_is_what_torch_says(
    change: str, used_before: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    batch, results = make_batch(), []
    apply, reason = CHANGES[change]
    for net in make_pair():
        if used_before:
            assert net.engine.name == net.settings.engine
            net.evaluate(batch, net.act(batch, np.random.default_rng(0)).raw)
        torch.manual_seed(1)
        with monkeypatch.context() as patch, caplog.at_level(logging.WARNING, CHOOSING):
            apply(net, patch)
            caplog.clear()
            values = net.value(batch)
            evaluation = net.evaluate(batch, net.act(batch, np.random.default_rng(0)).raw)
            results.append((values, evaluation, trained(net, batch)))
            assert net.engine.name == "torch"
            warnings = [r.message for r in caplog.records if r.name.endswith("engine_choice")]
            if net.settings.engine == "fused":
                assert len(warnings) == 1 and reason in warnings[0]
            else:
                assert warnings == []
    (values, evaluation, weights), (torch_values, torch_evaluation, torch_weights) = results
    np.testing.assert_array_equal(values, torch_values)
    for name in ACTIONS:
        torch.testing.assert_close(evaluation.log_probs[name], torch_evaluation.log_probs[name])
    for ours, theirs in zip(weights, torch_weights, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


def test_a_head_of_the_same_class_is_computed_by_the_fused_engine() -> None:
    batch, results = make_batch(), []
    for net in make_pair():
        net.value(batch)
        net.value_head = ValueHead(8)
        with torch.no_grad():
            net.value_head.proj.weight.fill_(1.5)
        results.append((net.value(batch), trained(net, batch)))
        assert net.engine.name == net.settings.engine
    np.testing.assert_allclose(results[0][0], results[1][0], rtol=1e-5, atol=1e-5)
    for ours, theirs in zip(results[0][1], results[1][1], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-3)


def test_threads_that_act_at_first_leave_the_network_as_it_is() -> None:
    batch = make_batch()
    for _ in range(6):
        net, _ = make_pair()
        before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
        expected = net.value(batch)
        net = copy.deepcopy(net)  # which compares its engines anew
        found: list[Any] = []
        threads = [threading.Thread(target=lambda: found.append(net.value(batch))) for _ in range(3)]  # noqa: B023
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 3
        for values in found:
            np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-6)
        for name, tensor in net.state_dict().items():
            torch.testing.assert_close(tensor, before[name], rtol=0, atol=0)


class Noise(nn.Module):
    """Changes what it gets while it trains."""

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.randn_like(x) if self.training else x


def with_dropout(block: Any) -> None:
    block.mlp = nn.Sequential(*block.mlp, nn.Dropout(0.5))


def with_other_rate(block: Any) -> None:
    block.dropout = 0.5


def with_noise(block: Any) -> None:
    block.ln2 = nn.Sequential(block.ln2, Noise())


@pytest.mark.parametrize("change", [with_dropout, with_other_rate, with_noise])
def test_what_acts_in_training_alone_is_computed_by_torch(change: Callable[[Any], None]) -> None:
    net, _ = make_pair()
    batch = make_batch()
    actions = net.act(batch, np.random.default_rng(0)).raw
    net.evaluate(batch, actions)
    assert net.engine.name == "fused"
    change(first_block(net))
    one, two = (net.train().evaluate(batch, actions).values for _ in range(2))
    assert not torch.equal(one, two)
    one, two = (net.eval().evaluate(batch, actions).values for _ in range(2))
    torch.testing.assert_close(one, two)


@pytest.mark.parametrize("engine", ["torch", "fused", "graphs"])
def test_what_a_wider_space_hides_stays_hidden(engine: str) -> None:
    actions = EntityActionSpace({"move": Categorical(3)})
    wider = EntitySpace({"Unit": ["x", "y"]}, actions, hidden=True)
    net = RogueNet(EntitySpace({"Unit": ["x", "y"]}, actions), actions, engine=engine, d_model=8, n_layer=1)
    nn.init.normal_(net.action_heads["move"].proj.weight)
    net.adapt_to(wider)
    probabilities = []
    for x in (-4.0, 4.0):
        seen = {
            "entities": {"Unit": np.float32([[1, 1], [x, x]])},
            "visible": {"Unit": np.int8([1, 0])},
            "actions": {"move": {"actors": np.array([0]), "mask": np.ones((1, 3), np.int8)}},
        }
        acted = net.act(batch_observations(wider, [seen]), np.random.default_rng(0), deterministic=True)
        probabilities.append(acted.log_probs["move"].values.tolist())
    assert probabilities[0] == pytest.approx(probabilities[1])


def test_numbers_of_16_bits_act() -> None:
    for dtype in (torch.bfloat16, torch.float16):
        net = RogueNet(SPACE, SPACE.actions, d_model=8, n_layer=1).to(dtype)
        batch = make_batch()
        result = net.act(batch, np.random.default_rng(0))
        assert {name: result.actions[name].num_items for name in ACTIONS} == {
            name: batch.actions[name].actors.num_items for name in ACTIONS
        }


def test_comparing_the_engines_leaves_the_network_as_it_is() -> None:
    net, _ = make_pair()
    batch = make_batch()
    net.update_normalization(batch)
    net.policy_net.eval()
    parameters, buffers = dict(net.named_parameters()), dict(net.named_buffers())
    copies = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    modes = [module.training for module in net.modules()]
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    threads, state = torch.get_num_threads(), SPACE.np_random.bit_generator.state
    with torch.inference_mode():
        net.act(batch, np.random.default_rng(0))
    net.evaluate(batch, net.act(batch, np.random.default_rng(0)).raw)
    assert torch.rand(1) == expected
    assert torch.get_num_threads() == threads and SPACE.np_random.bit_generator.state == state
    assert modes == [module.training for module in net.modules()]
    for name, tensor in (*net.named_parameters(), *net.named_buffers()):
        assert tensor is {**parameters, **buffers}[name] and tensor.grad is None
    for name, tensor in net.state_dict().items():
        torch.testing.assert_close(tensor, copies[name], rtol=0, atol=0)


def test_copies_and_removed_hooks_are_computed_by_the_fused_engine_again() -> None:
    net, _ = make_pair()
    twin = copy.deepcopy(net)
    hook = net.value_head.register_forward_hook(lambda *_: None)
    assert net.engine.name == "torch" and twin.engine.name == "fused"
    hook.remove()
    assert net.engine.name == "fused"
    own_head(twin, None)
    assert twin.engine.name == "torch" and net.engine.name == "fused"


def test_each_engine_is_logged_once_and_an_unwanted_one_as_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fused, _ = make_pair(dropout=0.1)
    auto = RogueNet(SPACE, SPACE.actions, d_model=6)
    batch = make_batch()
    with caplog.at_level(logging.INFO, CHOOSING):
        for net in (fused, auto):
            for _ in range(2):
                net.evaluate(batch, net.act(batch, np.random.default_rng(0)).raw)
    records = [(record.levelname, record.message) for record in caplog.records]
    assert [level for level, _ in records] == ["INFO", "WARNING", "INFO"]
    for (_, message), words in zip(
        records, (["fused"], ["torch", "dropout"], ["torch", "width 6"]), strict=True
    ):
        assert all(word in message for word in words)


@pytest.mark.parametrize("which", [0, 1])
def test_actions_of_another_kind_are_refused_by_both_engines(which: int) -> None:
    net, batch = make_pair()[which], make_batch()
    drawn = net.act(batch, np.random.default_rng(0)).raw

    def evaluate(name: str, change: Callable[[Any], Any]) -> Any:
        return net.evaluate(batch, {**drawn, name: drawn[name].with_values(change(drawn[name].values))})

    for name in ("move", "aim"):
        with raises(ValueError, f"action '{name}'", "integers", "float32"):
            evaluate(name, lambda values: values.astype(np.float32))
        with raises(ValueError, f"action '{name}'", "int64", "(1,)"):
            evaluate(name, lambda values: values[:, None])
    with raises(ValueError, "action 'steer'", 1):
        evaluate("steer", lambda values: values[:, 0])
    evaluate("move", lambda values: values.astype(np.int32))


@pytest.mark.parametrize("name", ["d_model", "n_layer", "value_n_head"])
@pytest.mark.parametrize("value", [4.0, "4", True])
def test_sizes_are_integers(name: str, value: Any) -> None:
    with raises(TypeError, name, repr(value), "whole number"):
        RogueNetConfig(**{"separate_value_net": True, name: value})
    with raises(TypeError, "n_layer", None, "whole number"):
        RogueNetConfig(n_layer=None)  # type: ignore[arg-type]


class Shifted(RogueNet):
    """Encodes otherwise."""

    def encode(self, *given: Any, **options: Any) -> Any:
        x, rows, values = super().encode(*given, **options)
        return 10 * x, rows, values + 5


class Greedy(RogueNet):
    """Draws nothing."""

    def draw(self, prepared: Any, masks: Any, rng: Any) -> Any:
        return super().draw(prepared, masks, None)


class Cold(RogueNet):
    """Assesses actions otherwise than they are drawn."""

    def assess(self, *given: Any) -> Any:
        found = super().assess(*given)
        return replace(found, values=found.values * 2)


class Optimist(RogueNet):
    """Predicts other values, which is all that `value` asks for."""

    def predict(self, prepared: Any) -> Tensor:
        return super().predict(prepared) + 100


@pytest.mark.parametrize("engine", ["auto", "fused", "graphs"])
def test_an_overridden_prediction_is_computed_by_torch(engine: str) -> None:
    net = Optimist(SPACE, SPACE.actions, engine=engine, d_model=8, n_layer=1)
    np.testing.assert_allclose(net.value(make_batch()), 100)
    assert net.engine.name == "torch"


@pytest.mark.parametrize("kind", [Shifted, Greedy, Cold])
@pytest.mark.parametrize("engine", ["auto", "fused", "graphs"])
def test_subclasses_are_computed_by_torch(kind: type[RogueNet], engine: str) -> None:
    batch, nets = make_batch(), []
    for name in (engine, "torch"):
        torch.manual_seed(0)
        nets.append(kind(SPACE, SPACE.actions, engine=name, d_model=8, n_layer=1))
    net, expected = nets
    ours, theirs = (n.act(batch, np.random.default_rng(0)) for n in nets)
    np.testing.assert_array_equal(ours.values, theirs.values)
    for name in ACTIONS:
        np.testing.assert_array_equal(ours.actions[name].values, theirs.actions[name].values)
    for mine, other in zip(trained(net, batch), trained(expected, batch), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-6)


def test_a_module_that_is_replaced_is_computed_with_engine_graphs() -> None:
    batch = make_batch()
    torch.manual_seed(0)
    net = RogueNet(SPACE, SPACE.actions, engine="graphs", d_model=8, n_layer=1)
    before = net.value(batch)
    assert net.engine.name == "graphs"
    net.value_head = ValueHead(8)
    with torch.no_grad():
        net.value_head.proj.weight.fill_(1.5)
    twin = RogueNet(SPACE, SPACE.actions, engine="torch", d_model=8, n_layer=1)
    twin.load_state_dict(net.state_dict())
    np.testing.assert_allclose(net.value(batch), twin.value(batch), rtol=1e-5, atol=1e-5)
    assert net.engine.name == "graphs" and not np.allclose(net.value(batch), before)


def test_values_of_an_overridden_encode_are_those_that_actions_come_with() -> None:
    net = Shifted(SPACE, SPACE.actions, d_model=8, n_layer=1)
    batch = make_batch()
    np.testing.assert_array_equal(net.value(batch), net.act(batch, np.random.default_rng(0)).values)


class Heated(RogueNet):
    """Scales its rows by what it keeps: by nothing, at first."""

    def __init__(self, *spaces: Any, **options: Any) -> None:
        super().__init__(*spaces, **options)
        self.heat, self._factor = 1.0, 1.0
        self.register_buffer("scale", torch.ones(1))
        self.shift = torch.zeros(())

    def encode(self, *given: Any, **options: Any) -> Any:
        x, rows, values = super().encode(*given, **options)
        return x * self.heat * self._factor * self.scale + self.shift, rows, values


@pytest.mark.parametrize(
    ("change", "undo"),
    [
        (lambda net: setattr(net, "heat", 4.0), lambda net: setattr(net, "heat", 1.0)),
        (lambda net: setattr(net, "_factor", 4.0), lambda net: setattr(net, "_factor", 1.0)),
        (lambda net: net.scale.fill_(4), lambda net: net.scale.fill_(1)),
        (lambda net: net.shift.add_(4), lambda net: net.shift.sub_(4)),
        (
            lambda net: setattr(net, "shift", torch.ones(())),
            lambda net: setattr(net, "shift", torch.zeros(())),
        ),
        (
            lambda net: setattr(net, "predict", lambda prepared: RogueNet.predict(net, prepared) + 1),
            lambda net: delattr(net, "predict"),
        ),
    ],
)
@pytest.mark.parametrize("engine", ["fused", "graphs"])
def test_what_the_network_itself_keeps_may_change(engine: str, change: Any, undo: Any) -> None:
    batch, nets = make_batch(), []
    for name in (engine, "torch"):
        torch.manual_seed(0)
        nets.append(Heated(SPACE, SPACE.actions, engine=name, d_model=8, n_layer=1))
    net, expected = nets
    drawn = net.act(batch, np.random.default_rng(0)).raw
    before = expected.evaluate(batch, drawn)
    assert net.engine.name == engine
    for twin in nets:
        change(twin)
    assert net.engine.name == "torch"
    found, wanted = net.evaluate(batch, drawn), expected.evaluate(batch, drawn)
    torch.testing.assert_close(found.log_probs, wanted.log_probs)
    np.testing.assert_array_equal(net.value(batch), expected.value(batch))
    undo(net)
    assert net.engine.name == engine
    torch.testing.assert_close(net.evaluate(batch, drawn).log_probs, before.log_probs, rtol=1e-4, atol=1e-5)


def test_a_tensor_that_is_kept_may_be_given_up() -> None:
    net = RogueNet(SPACE, SPACE.actions, engine="fused", d_model=8, n_layer=1)
    net.last = torch.zeros(3)
    net.other = torch.zeros(3)
    assert net.engine.name == "fused"
    net.last = None
    assert net.engine.name == "fused"
    del net.other
    assert net.engine.name == "fused"


class Counted(RogueNet):
    """Counts what it is asked for, which changes no number."""

    def __init__(self, *spaces: Any, **options: Any) -> None:
        super().__init__(*spaces, **options)
        self.calls = 0

    def act(self, *given: Any, **options: Any) -> Any:
        self.calls += 1
        return super().act(*given, **options)


def test_a_value_that_changes_at_each_call_is_not_compared_for_ever(caplog: pytest.LogCaptureFixture) -> None:
    net, batch = Counted(SPACE, SPACE.actions, engine="fused", d_model=8, n_layer=1), make_batch()
    assert net.engine.name == "fused"
    for seed in range(60):
        net.act(batch, np.random.default_rng(seed))
    assert net.engine.name == "torch" and "calls" in net.engine.reason
    assert [r.levelno for r in caplog.records if "calls" in r.getMessage()] == [logging.WARNING]


@pytest.mark.parametrize("engine", ["fused", "graphs"])
def test_a_parameter_without_axes_that_computes_nothing_changes_no_engine(engine: str) -> None:
    net = RogueNet(SPACE, SPACE.actions, engine=engine, d_model=8, n_layer=1)
    net.log_alpha = nn.Parameter(torch.zeros(()))
    assert net.engine.name == engine
    trained(net, make_batch())
    assert net.engine.name == engine


class DeepValue(nn.Module):
    """A value head with parts of its own."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1))

    def forward(self, rows: Tensor, layout: Any) -> Tensor:
        values: Tensor = self.layers(rows)[:, 0]
        return torch.segment_reduce(values, "sum", lengths=torch.from_numpy(np.diff(layout.offsets)))


@pytest.mark.parametrize("engine", ["auto", "graphs", "torch"])
def test_a_value_head_of_other_parts_is_computed_by_torch(engine: str) -> None:
    net = RogueNet(SPACE, SPACE.actions, engine=engine, d_model=8, n_layer=1)
    net.value_head = DeepValue(8)  # type: ignore[assignment]
    batch = make_batch()
    assert net.engine.name == "torch"
    values = net.act(batch, np.random.default_rng(0)).values
    np.testing.assert_array_equal(net.value(batch), values)
    before = net.value_head.layers[0].weight.clone()  # type: ignore[attr-defined]
    trained(net, batch)
    assert values.std() > 0 and not torch.equal(net.value_head.layers[0].weight, before)  # type: ignore[attr-defined]
