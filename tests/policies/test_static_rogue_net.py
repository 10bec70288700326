"""RogueNet on padded arrays of fixed shapes: the same numbers and gradients as on ragged batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from entitize import RogueNet
from entitize.envs import EntityBatch, concatenate_batches
from entitize.policies.engines.graphs import (
    WARM_UP,
    Capacities,
    Capacity,
    Field,
    Graphs,
    Packing,
    Plan,
    Recent,
    Staging,
    StaticForm,
    Tiles,
    cuda,
    rounded_up,
)
from entitize.policies.inputs import RowLayout
from torch import Tensor

from facts import raises

CPU = torch.device("cpu")


def evaluate(form: StaticForm, batch: EntityBatch, actions: Any, capacity: Capacity | None = None) -> Any:
    """Through packing and staging, and without the padding."""
    plan = Plan(form, batch, actions)
    capacity = capacity or Capacities().fit(plan.sizes)
    packing = Packing(form.fields(capacity))

    def write(arrays: dict[str, np.ndarray]) -> None:
        for array in arrays.values():  # leftovers of another batch
            array.view(np.uint8)[...] = 255 if array.dtype != bool else 1
        plan.write(capacity, arrays)

    with Staging(CPU).sent(packing, write) as block:
        result = form.evaluate(capacity, packing.tensors(block))
    log_probs = {name: result.log_probs[name][: a.num_items] for name, a in actions.items()}
    entropies = {name: result.entropies[name][: a.num_items] for name, a in actions.items()}
    return log_probs, entropies, result.values[: len(batch)]


def loss(log_probs: Any, entropies: Any, values: Tensor) -> Tensor:
    total = (values * torch.linspace(-1, 2, len(values))).sum()
    for name in log_probs:
        weights = torch.linspace(1, 2, len(log_probs[name]))
        total = total + (weights * log_probs[name]).sum() + 0.3 * (weights * entropies[name]).sum()
    return total


def gradients(net: RogueNet, result: Any) -> dict[str, Tensor | None]:
    net.zero_grad()
    loss(*result).backward()
    return {name: parameter.grad for name, parameter in net.named_parameters()}


def assert_same(net: RogueNet, form: StaticForm, batch: EntityBatch, actions: Any, tolerance: float) -> None:
    expected = net.evaluate(batch, actions)
    wanted = (expected.log_probs, expected.entropies, expected.values)
    got = evaluate(form, batch, actions)
    for name in actions:
        torch.testing.assert_close(got[0][name], wanted[0][name], rtol=tolerance, atol=tolerance)
        torch.testing.assert_close(got[1][name], wanted[1][name], rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(got[2], wanted[2], rtol=tolerance, atol=tolerance)
    theirs, ours = gradients(net, wanted), gradients(net, got)
    for name, gradient in theirs.items():
        if gradient is None:
            assert ours[name] is None, name
        else:
            scale = 1 + float(gradient.abs().max())
            torch.testing.assert_close(ours[name], gradient, rtol=0, atol=tolerance * scale, msg=name)


OPTIONS: list[dict[str, Any]] = [
    {},
    {"d_model": 8, "n_layer": 1, "n_head": 1, "global_features": "concat"},
    {
        "d_model": 12,
        "n_layer": 2,
        "n_head": 3,
        "separate_value_net": True,
        "value_d_model": 8,
        "value_n_head": 2,
    },
    {"n_layer": 0},
    {"fourier": {"features": ["x", "y"], "wavelengths": [2, 4, 8]}, "global_features": "concat"},
]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("seed", [0, 1])
def test_padded_batches_give_the_numbers_of_ragged_ones(
    make_space: Any, random_batch: Any, make_net: Any, legal_actions: Any, options: Any, seed: int
) -> None:
    space = make_space(global_action=bool(seed))
    batch = random_batch(space, steps=7, most=3 + 40 * seed, seed=seed)
    net = make_net(space, batch, engine="torch", **options)
    assert_same(net, StaticForm(net), batch, legal_actions(space, batch), 2e-5)


def test_long_steps_have_wide_tiles(
    make_space: Any, random_batch: Any, make_net: Any, legal_actions: Any
) -> None:
    """One step with a hundred entities among small ones, and one without any."""
    space = make_space()
    batch = concatenate_batches([random_batch(space, steps=5), random_batch(space, 2, most=90, seed=1)])
    rows = make_net(space, batch).inputs.prepare(batch).rows
    assert rows.lengths.max() > 64 and len(Tiles(rows).counts) > 1
    net = make_net(space, batch, engine="torch")
    assert_same(net, StaticForm(net), batch, legal_actions(space, batch), 2e-5)


@pytest.mark.parametrize("lengths", [[], [0, 0], [1], [32, 33, 0, 64, 65, 1, 31, 33, 500]])
def test_a_tile_holds_whole_steps(lengths: list[int]) -> None:
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    tiles = Tiles(RowLayout(offsets, offsets))
    room = {width: count + 2 for width, count in tiles.counts.items()}
    num_slots = sum(width * count for width, count in room.items())
    steps = np.full(num_slots, -1)
    slots = tiles.place(room, steps)
    assert len(set(slots.tolist())) == len(slots) == sum(lengths)
    np.testing.assert_array_equal(steps[slots], np.repeat(np.arange(len(lengths)), lengths))
    assert (steps >= 0).sum() == sum(lengths)
    tile_of = np.repeat(np.arange(sum(room.values())), np.repeat(list(room), list(room.values())))
    widths = np.repeat(list(room), [width * count for width, count in room.items()])
    for step, length in enumerate(lengths):
        own = slots[offsets[step] : offsets[step + 1]]
        np.testing.assert_array_equal(np.diff(own), np.ones(max(length - 1, 0)))
        assert len(set(tile_of[own].tolist())) <= 1
        assert all(width == max(64, 1 << (2 * length - 1).bit_length()) for width in widths[own])


@pytest.mark.parametrize("deterministic", [False, True])
def test_acting_is_that_of_the_ragged_network(
    make_space: Any, random_batch: Any, make_net: Any, deterministic: bool
) -> None:
    space = make_space()
    net = make_net(space, random_batch(space), engine="torch", separate_value_net=True)
    form = StaticForm(net)
    for seed in range(4):  # with leftovers of the batches before in the staged arrays
        batch = random_batch(space, steps=9 - seed, seed=seed)
        ours = form.act(batch, np.random.default_rng(3), deterministic)
        theirs = net.act(batch, np.random.default_rng(3), deterministic)
        np.testing.assert_allclose(ours.values, theirs.values, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(form.value(batch), theirs.values, rtol=1e-4, atol=1e-4)
        for name in theirs.actions:
            chosen, wanted = ours.raw[name].values, theirs.raw[name].values
            np.testing.assert_allclose(chosen, wanted, rtol=1e-4, atol=1e-4)
            assert ours.actions[name].dtype == theirs.actions[name].dtype
            np.testing.assert_allclose(
                ours.log_probs[name].values, theirs.log_probs[name].values, rtol=1e-3, atol=1e-4
            )


# -- capacities, packing, graphs -----------------------------------------------------------------------------


def test_capacities_hold_what_they_are_for_and_repeat() -> None:
    rng = np.random.default_rng(0)
    known, seen = Capacities(), set()
    for _ in range(200):
        sizes = {"steps": 1024, "type/Food": int(rng.normal(9000, 100)), "tiles/64": int(rng.normal(190, 5))}
        capacity = known.fit(sizes)
        seen.add(capacity)
        assert all(
            size <= room <= 1.3 * size for size, (_, room) in zip(sizes.values(), capacity, strict=True)
        )
    assert len(seen) <= 3
    nothing = dict(known.fit({"steps": 1000, "type/Food": 0, "tiles/64": 190}))
    assert nothing["type/Food"] == 0
    assert dict(known.fit({"steps": 20, "type/Food": 90, "tiles/64": 1}))["type/Food"] < 200
    assert dict(known.fit({"steps": 20, "type/Food": 90, "tiles/64": 1, "tiles/128": 1}))["tiles/128"] <= 2
    for size in range(1, 3000):
        assert size <= rounded_up(size) <= 1.2 * size + 8


def test_only_what_capacities_used_last_have_is_kept() -> None:
    recent = Recent[int]()
    for size in range(200):
        recent[(("steps", size),)] = size
        assert recent[(("steps", 0),)] == 0
    assert (("steps", 199),) in recent and (("steps", 1),) not in recent and len(recent) < 100


@pytest.mark.parametrize("part", ["value_net", "action_heads", "normalization", "value_head"])
def test_graphs_see_where_every_tensor_is(
    part: str, make_space: Any, random_batch: Any, make_net: Any
) -> None:
    space = make_space()
    net = make_net(space, random_batch(space), separate_value_net=True)
    form = StaticForm(net)
    before = form.token()
    moved = getattr(net, part)
    for tensor in (*moved.parameters(), *moved.buffers()):
        tensor.data = tensor.data.clone()
    assert form.token() != before


def test_packed_arrays_are_those_that_were_written() -> None:
    rng = np.random.default_rng(0)
    arrays = {
        "floats": rng.standard_normal((3, 5)).astype(np.float32),
        "flags": rng.random((7, 1)) < 0.5,
        "none": np.zeros((0, 4), np.float32),
        "numbers": rng.integers(-9, 9, (5,)),
    }
    packing = Packing({name: Field(array.shape, array.dtype) for name, array in arrays.items()})
    staging = Staging(CPU)

    def write(views: dict[str, np.ndarray]) -> None:
        for name, view in views.items():
            view[...] = arrays[name]

    with staging.sent(packing, write) as first, staging.sent(packing, lambda views: None) as second:
        assert len(first) == packing.num_bytes and first.data_ptr() != second.data_ptr()
        for name, tensor in packing.tensors(first).items():
            np.testing.assert_array_equal(tensor.numpy(), arrays[name])
            assert tensor.numpy().dtype == arrays[name].dtype


class FakeGraphs:
    """Stands in for CUDA: a capture runs nothing, a replay reads and writes the memory of the capture."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
        self.captures = self.replays = 0
        self.size = size
        monkeypatch.setattr(cuda, "aside", lambda function, device: function())
        monkeypatch.setattr(cuda, "capture", self.capture)

    def capture(self, function: Any, device: torch.device, pool: Any) -> Any:
        self.captures += 1
        result = torch.zeros(self.size)

        def replay() -> None:
            self.replays += 1
            result.copy_(function())

        return result, replay, pool


def test_a_capacity_is_captured_once_and_again_when_the_parameters_moved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake, state = FakeGraphs(monkeypatch, 2), {"token": 0}
    graphs = Graphs(lambda capacity, block: block[:2].float() * capacity[0][1], CPU, lambda: state["token"])
    graphs.captures = True
    results = []
    for i in range(10):
        for size in (3, 5):
            block = torch.full((4,), i, dtype=torch.uint8)
            results.append((graphs.run((("steps", size),), block), float(i * size)))
    assert all(result.tolist() == [wanted, wanted] for result, wanted in results)  # results stay as they were
    assert fake.captures == 2 and fake.replays == 2 * (10 - WARM_UP)
    state["token"] = 1
    for _ in range(WARM_UP + 1):
        graphs.run((("steps", 3),), torch.ones(4, dtype=torch.uint8))
    assert fake.captures == 3


def test_what_has_no_static_form_says_why(make_space: Any, make_net: Any) -> None:
    space = make_space()
    for options, why in (
        ({"pooling": "mean"}, "pooling"),
        ({"dropout": 0.1}, "dropout"),
        ({"squash": True}, "squashed"),
    ):
        net = make_net(space, **options)
        with raises(ValueError, why):
            net.static_form()
