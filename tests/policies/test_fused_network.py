"""The fused engine against the torch one in float64, and which of the two is used."""

from __future__ import annotations

import copy
import logging
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from entitize import RogueNet
from entitize.envs import (
    ActionMask,
    Categorical,
    Continuous,
    EntityActionSpace,
    EntityBatch,
    EntitySpace,
    GlobalCategorical,
    GlobalContinuous,
    MultiCategorical,
    SelectEntity,
)
from entitize.policies import RogueNetConfig
from entitize.policies.kernels import parallel
from entitize.ragged import RaggedArray
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from facts import mentions, raises, warns
from nets import fused_net, in_torch, sampled_batch

ORDER = MultiCategorical(
    {"kind": ["wait", "move", "build"], "where": 4, "what": 3},
    uses={"move": ["where"], "build": ["where", "what"]},
)
ACTIONS: dict[str, Any] = {
    "move": Categorical(5),
    "mode": GlobalCategorical(3),
    "order": ORDER,
    "aim": SelectEntity(),
    "steer": Continuous([-1.0, 0.0, -2.0], [1.0, 3.0, 2.0]),
    "speed": GlobalContinuous(-3.0, 0.5),
}


def make_space(types: int, features: int, actions: list[str], global_features: int = 0) -> EntitySpace:
    """Types of 0, 1 and more features."""
    entities = {f"type {t}": [f"f{i}" for i in range([features, 0, 1, 17][t])] for t in range(types)}
    chosen = EntityActionSpace({name: ACTIONS[name] for name in actions})
    return EntitySpace(entities, chosen, [f"g{i}" for i in range(global_features)])


def make_nets(space: EntitySpace, batch: EntityBatch, **options: Any) -> tuple[RogueNet, RogueNet]:
    """The same random network on the fused engine, and in float64 on torch's."""
    fused = fused_net(space, 0, 0.15, **options)
    if len(batch):
        fused.update_normalization(batch)
    return fused, in_torch(fused).double()


def loss_of(
    net: RogueNet, batch: EntityBatch, actions: dict[str, RaggedArray]
) -> tuple[list[Tensor], Tensor]:
    """All outputs, and a scalar to which each contributes differently."""
    got = net.evaluate(batch, actions)
    outputs = [*got.log_probs.values(), *got.entropies.values(), got.values]
    weights = [torch.linspace(-1, 1.3, len(output), dtype=output.dtype) for output in outputs]
    return outputs, sum(
        ((output * weight).sum() for output, weight in zip(outputs, weights, strict=True)), torch.zeros(())
    )


def error(got: Tensor | None, wanted: Tensor | None) -> float:
    """Relative to the largest number; or to 0.1, because some gradients are nothing but rounding."""
    assert (got is None) == (wanted is None)
    if got is None or wanted is None or not wanted.numel():
        return 0.0
    return float((got.double() - wanted).abs().max()) / max(0.1, float(wanted.abs().max()))


def numbers_of(
    net: RogueNet, batch: EntityBatch, actions: dict[str, RaggedArray]
) -> dict[str, Tensor | None]:
    """Outputs and all gradients."""
    outputs, loss = loss_of(net, batch, actions)
    net.zero_grad()
    loss.backward()
    gradients = {name: parameter.grad for name, parameter in net.named_parameters()}
    return {**{f"output {k}": output.detach() for k, output in enumerate(outputs)}, **gradients}


def assert_alike(
    fused: RogueNet, exact: RogueNet, batch: EntityBatch, actions: dict[str, RaggedArray]
) -> None:
    """Outputs and all gradients: to 1e-4, or where torch loses more to float32, in the order of torch's loss.

    Both errors are sums of roundings in another order, ours in one that threads decide:
    `test_rounds_about_as_much_as_torch` says how they compare over many nets; in one net their ratio is
    chance, up to 5 were seen.
    """
    got, wanted = numbers_of(fused, batch, actions), numbers_of(exact, batch, actions)
    errors = {name: error(number, wanted[name]) for name, number in got.items()}
    if max(errors.values()) > 1e-4:
        rounded = numbers_of(in_torch(fused), batch, actions)
        allowed = {name: max(1e-4, 10 * error(rounded[name], wanted[name])) for name in errors}
        assert not {name: (e, allowed[name]) for name, e in errors.items() if e > allowed[name]}


@pytest.mark.full
def test_rounds_about_as_much_as_torch() -> None:
    ours, torchs = [], []
    for seed in range(24):
        space = make_space(3, 6, ["move", "aim", "speed"], 1)
        batch = sampled_batch(space, 6, seed)
        fused, exact = make_nets(space, batch, d_model=[32, 128][seed % 2], n_head=1, n_layer=1 + seed % 3)
        drawn = exact.act(batch, np.random.default_rng(0)).raw
        wanted = numbers_of(exact, batch, drawn)
        got, rounded = numbers_of(fused, batch, drawn), numbers_of(in_torch(fused), batch, drawn)
        ours += [error(got[name], wanted[name]) for name in wanted]
        torchs += [error(rounded[name], wanted[name]) for name in wanted]
    for share in (0.5, 0.9):
        assert np.quantile(ours, share) < min(1e-4, 2 * np.quantile(torchs, share))


@settings(max_examples=settings.default.max_examples // 2)
@given(data=st.data())
def test_outputs_and_gradients_are_those_of_torch_in_float64(data: st.DataObject) -> None:
    def draw(strategy: Any) -> Any:
        return data.draw(strategy)

    n_head = draw(st.sampled_from([1, 2, 4]))
    actions = draw(st.lists(st.sampled_from(list(ACTIONS)), unique=True))
    space = make_space(draw(st.integers(1, 4)), draw(st.integers(0, 20)), actions, draw(st.integers(0, 2)))
    batch = sampled_batch(space, draw(st.integers(0, 12)), draw(st.integers(0, 1000)))
    separate = draw(st.booleans())
    fused, exact = make_nets(
        space,
        batch,
        d_model=4 * n_head * draw(st.integers(1, 32 // n_head)),
        n_head=n_head,
        n_layer=draw(st.integers(0, 3)),
        d_qk=draw(st.integers(1, 20)),
        squash=draw(st.booleans()),
        composite=draw(st.sampled_from(["used", "all"])),
        global_features=draw(st.sampled_from(["entity", "concat"])),
        separate_value_net=separate,
        value_d_model=4 * n_head if separate else None,
    )
    assert fused.engine.name == "fused" and exact.engine.name == "torch"
    drawn = exact.act(batch, np.random.default_rng(0)).raw
    assert_alike(fused, exact, batch, drawn)
    np.testing.assert_allclose(fused.value(batch), exact.value(batch), rtol=1e-4, atol=1e-4)


@settings(max_examples=settings.default.max_examples // 2)
@given(data=st.data())
def test_relative_positions_are_those_of_torch_in_float64(data: st.DataObject) -> None:
    def draw(strategy: Any) -> Any:
        return data.draw(strategy)

    n_head, axes = draw(st.sampled_from([1, 2, 4])), draw(st.integers(1, 3))
    space = make_space(draw(st.integers(1, 4)), draw(st.integers(axes, 6)), ["move", "aim"], 1)
    batch = sampled_batch(space, draw(st.integers(0, 12)), draw(st.integers(0, 1000)))
    separate = draw(st.booleans())
    fused, exact = make_nets(
        space,
        batch,
        d_model=4 * n_head * draw(st.integers(1, 8 // n_head)),  # wider ones round more
        n_head=n_head,
        n_layer=draw(st.integers(0, 3)),
        separate_value_net=separate,
        value_d_model=4 * n_head if separate else None,
        relative_position={
            "position": [f"f{axis}" for axis in range(axes)],
            "extent": [draw(st.integers(1, 4)) for _ in range(axes)],
            "scale": draw(st.sampled_from([0.3, 1.0])),
            "per_entity_values": draw(st.booleans()),
            "exclude": ["type 3"] if "type 3" in space.entities and draw(st.booleans()) else [],
            "value_gate": draw(st.sampled_from(["linear", "relu", "gelu", "sigmoid", None])),
        },
    )
    assert fused.engine.name == "fused" and exact.engine.name == "torch"
    drawn = exact.act(batch, np.random.default_rng(0)).raw
    assert_alike(fused, exact, batch, drawn)
    np.testing.assert_allclose(fused.value(batch), exact.value(batch), rtol=1e-4, atol=1e-4)


#: Empty steps, steps of one, lengths on both sides of multiples of 4 and 16, one longer than a tile.
LENGTHS = [0, 1, 5, 16, 17, 0, 300, 3, 33, 12, 1]
PLACED = EntitySpace(
    {"Unit": ("x", "y", "size"), "Wall": ("size",)}, EntityActionSpace({"move": Categorical(3)})
)


def placed_steps(seed: int) -> EntityBatch:
    """Steps of `LENGTHS` units on whole cells, with some walls, which have no place."""
    rng = np.random.default_rng(seed)
    units = rng.standard_normal((sum(LENGTHS), 3)).astype(np.float32)
    units[:, :2] = rng.integers(0, 9, (sum(LENGTHS), 2))
    walls = RaggedArray.from_lengths(rng.standard_normal((22, 1), np.float32), [2] * len(LENGTHS))
    actors = RaggedArray.from_arrays([np.arange(min(n, 3)) for n in LENGTHS])
    masks = {"move": ActionMask(actors, actors.with_values(np.ones((actors.num_items, 3), bool)))}
    entities = {"Unit": RaggedArray.from_lengths(units, LENGTHS), "Wall": walls}
    return EntityBatch(entities, np.zeros((len(LENGTHS), 0), np.float32), masks)


@pytest.mark.parametrize("n_head", [1, 4, 8, 16])  # lines of tables 16, 4, 2 and 1 numbers wide
def test_relative_positions_in_steps_of_all_lengths(n_head: int) -> None:
    batch = placed_steps(n_head)
    places = {"position": ["x", "y"], "extent": [3, 2], "per_entity_values": n_head > 4}
    fused, exact = make_nets(PLACED, batch, d_model=16, n_head=n_head, relative_position=places)
    assert_alike(fused, exact, batch, exact.act(batch, np.random.default_rng(0)).raw)


@pytest.mark.parametrize("scale", [0.1, 0.3, 0.7])
def test_offsets_between_two_buckets_fall_where_they_do_in_torch(scale: float) -> None:
    batch = placed_steps(1)
    batch.entities["Unit"].values[:, :2] *= np.float32(scale / 2)  # many offsets are half a bucket
    places = {"position": ["x", "y"], "extent": [6, 6], "scale": scale}
    fused, _ = make_nets(PLACED, batch, d_model=16, relative_position=places)
    np.testing.assert_allclose(fused.value(batch), in_torch(fused).value(batch), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("step", [2, 4, 6])
def test_a_broken_number_of_a_unit_with_a_place_breaks_its_own_step_only(step: int) -> None:
    batch = placed_steps(0)
    places = {"position": ["x", "y"], "extent": [3, 2]}
    fused, _ = make_nets(PLACED, batch, d_model=16, relative_position=places)
    assert fused.engine.name == "fused"
    batch.entities["Unit"].values[sum(LENGTHS[:step]), 2] = np.nan
    broken = np.isnan(fused.value(batch))
    assert broken.tolist() == [i == step for i in range(len(LENGTHS))]


@pytest.mark.parametrize("threads", [1, 3])
def test_many_actors_fill_tiles_and_threads(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "allowed_threads", lambda: threads)
    monkeypatch.setattr(parallel, "ROWS_PER_THREAD", 100)
    space = make_space(4, 3, list(ACTIONS))
    batch = sampled_batch(space, 150, 0)
    fused, exact = make_nets(space, batch, separate_value_net=threads == 3)
    assert batch.actions["move"].actors.num_items > 300
    assert_alike(fused, exact, batch, exact.act(batch, np.random.default_rng(0)).raw)


def crowd(actors: int, actees: int) -> tuple[EntitySpace, EntityBatch]:
    """Two steps of which one has many entities that select each other."""
    space = EntitySpace({"Unit": ("x",)}, EntityActionSpace({"aim": SelectEntity()}))
    rng = np.random.default_rng(0)
    lengths = np.array([max(actors, actees), 3])
    units = RaggedArray.from_lengths(rng.standard_normal((lengths.sum(), 1), np.float32), lengths)
    who = RaggedArray.from_arrays([np.arange(actors), np.arange(2)])
    whom = RaggedArray.from_arrays([np.arange(actees), np.arange(3)])
    mask = RaggedArray.from_lengths(np.ones(actors * actees + 6, bool), [actors * actees, 6])
    mask.values[: actors * actees : 3] = False
    masks = {"aim": ActionMask(who, mask, whom)}
    return space, EntityBatch({"Unit": units}, np.zeros((2, 0), np.float32), masks)


@pytest.mark.parametrize("actors, actees", [(3, 170), (150, 2), (33, 140)])
def test_selections_among_many_span_more_than_a_tile(actors: int, actees: int) -> None:
    space, batch = crowd(actors, actees)
    fused, exact = make_nets(space, batch, n_layer=1)
    assert_alike(fused, exact, batch, exact.act(batch, np.random.default_rng(0)).raw)


def test_both_engines_draw_the_same_from_the_same_numbers() -> None:
    space = make_space(3, 4, list(ACTIONS), 1)
    batch = sampled_batch(space, 40, 1)
    fused, exact = make_nets(space, batch)
    for deterministic in (False, True):
        got, wanted = (net.act(batch, np.random.default_rng(2), deterministic) for net in (fused, exact))
        for name in ("move", "mode", "order", "aim"):
            assert got.actions[name] == wanted.actions[name]
        for name in ACTIONS:
            np.testing.assert_allclose(got.actions[name].values, wanted.actions[name].values, atol=1e-4)
            np.testing.assert_allclose(got.log_probs[name].values, wanted.log_probs[name].values, atol=1e-4)
        np.testing.assert_allclose(got.values, wanted.values, atol=1e-4)


def test_what_nobody_asked_for_has_no_gradient() -> None:
    space = make_space(3, 4, ["move", "aim"])
    batch = sampled_batch(space, 6, 0)
    fused, exact = make_nets(space, batch)
    actions = exact.act(batch, np.random.default_rng(0)).raw
    for net in (fused, exact):
        net.zero_grad()
        net.evaluate(batch, actions).log_probs["move"].sum().backward()
    without = {name for name, parameter in fused.named_parameters() if parameter.grad is None}
    assert without == {name for name, parameter in exact.named_parameters() if parameter.grad is None}
    assert {"value_head.proj.weight", "action_heads.aim.query_proj.weight"} <= without


def test_copies_and_changed_weights_are_seen() -> None:
    space = make_space(2, 4, ["move"])
    batch = sampled_batch(space, 6, 0)
    fused, _ = make_nets(space, batch)
    before = fused.value(batch)
    twin = copy.deepcopy(fused)
    with torch.no_grad():
        twin.value_head.proj.bias += 1
        fused.value_head.proj.weight.data = torch.zeros_like(fused.value_head.proj.weight)
    np.testing.assert_allclose(twin.value(batch), before + 1, rtol=1e-5)
    np.testing.assert_array_equal(fused.value(batch), fused.value_head.proj.bias.detach().expand(6))


@pytest.mark.parametrize(
    "options, facts",
    [
        ({"engine": "torch"}, ("torch",)),
        ({"pooling": "mean"}, ("pooling",)),
        (
            {"relative_position": {"extent": [2], "position": ["f0"], "distance": True}},
            ("relative_position",),
        ),
        ({"d_model": 6}, (6, 4)),
        ({"d_model": 132}, (132,)),
        ({"dropout": 0.1}, ("dropout",)),
    ],
)
def test_what_the_kernels_do_not_do_is_left_to_torch(options: dict[str, Any], facts: tuple[object]) -> None:
    space = make_space(1, 2, ["move"])
    net = RogueNet(space, space.actions, **options)
    assert net.engine.name == "torch" and re.search(mentions(*facts), net.engine.reason)
    batch = sampled_batch(space, 3, 0)
    net.evaluate(batch, net.act(batch, np.random.default_rng(0)).raw).values.sum().backward()


def test_the_engine_changes_with_dtype_and_mode_and_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    space = make_space(1, 2, ["move"])
    net = RogueNet(space, space.actions, dropout=0.1)
    batch = sampled_batch(space, 3, 0)
    with caplog.at_level(logging.INFO, "entitize.policies.engines.engine_choice"):
        net.value(batch)
        net.value(batch)
    (record,) = caplog.records
    assert re.search(mentions("RogueNet", "fused"), record.message)
    assert net.engine.name == "torch" and net.eval().engine.name == "fused"
    choice = net.double().engine
    assert choice.name == "torch" and "float64" in choice.reason


def test_the_name_from_before_the_heads_were_fused_is_understood() -> None:
    old = RogueNetConfig(attention="fused")
    assert (old.engine, old.attention) == ("fused", "auto")
    assert RogueNetConfig(**old.to_dict()) == old
    for name in ("numba", "sorted", "padded"):  # as they were called when there were several
        with warns(DeprecationWarning, name, "engine='torch'"):
            old = RogueNetConfig(attention=name)
        assert (old.engine, old.attention) == ("torch", "auto")
        with warns(DeprecationWarning, name):
            assert RogueNetConfig(attention=name, engine="fused").engine == "fused"
    with raises(ValueError, "engine", "'jax'", "'auto'", "'graphs'"):
        RogueNetConfig(engine="jax")  # type: ignore[arg-type]


@pytest.mark.full
def test_kernels_and_the_fused_network_need_no_torch() -> None:
    code = (
        "import sys, entitize.policies.kernels.fused_network, entitize.policies.inputs.prepare;"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
