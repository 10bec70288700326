"""Each network against a second version in the papers' layout: grids and padded sequences, in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import entitize as ez
import numpy as np
import pytest
import torch
from entitize.envs import EntityBatch, sample_actions
from entitize.ragged import RaggedArray
from torch import Tensor, nn
from torch.nn import functional

SIZES = [6, 4, 4, 4, 4, 7, 49]
#: The components that each kind uses, by their places.
USED = {0: [], 1: [1], 2: [2], 3: [3], 4: [4, 5], 5: [6]}
Weights = dict[str, Tensor]


def randomized(net: nn.Module, seed: int = 0) -> Any:
    """`net` with all parameters random, in eval mode."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.05)
    return net.eval()


def weights_of(net: nn.Module) -> Weights:
    return {name: value.double() for name, value in net.state_dict().items()}


# -- the second versions: observations (B, H, W, 27) to logits (B, H, W, 78) and values (B,) -----------------


def slow_transformer(
    net: ez.baselines.TransformerNet, grids: Tensor, padded_means: bool = False
) -> tuple[Tensor, Tensor]:
    """Zwingenberger's feature map, padding and masks around torch's own TransformerEncoder."""
    w, (b, height, width, planes) = weights_of(net), grids.shape
    cells = grids.view(b, height * width, planes)
    places = [[torch.nonzero(cells[i, :, p])[:, 0] for p in (11, 12, 14)] for i in range(b)]
    counts = torch.tensor([[len(part) for part in row] for row in places])
    longest = int(counts.sum(1).max())
    x = torch.zeros(longest, b, net.d_model, dtype=torch.float64)
    padding = torch.ones(b, longest, dtype=torch.bool)
    for i in range(b):
        cell = torch.cat(places[i])
        table = torch.eye(height * width).double() if net.positions is None else w["positions.weight"]
        x[: len(cell), i] = torch.cat([table[cell], cells[i, cell]], 1)
        padding[i, : len(cell)] = False
    layer = nn.TransformerEncoderLayer(net.d_model, net.settings.n_head, net.settings.d_hidden)
    encoder = nn.TransformerEncoder(layer, net.settings.n_layer, enable_nested_tensor=False).double().eval()
    names = {
        "self_attn.in_proj_": "qkv.",
        "self_attn.out_proj.": "proj.",
        "linear1.": "hidden.",
        "linear2.": "out.",
        "norm1.": "norm1.",
        "norm2.": "norm2.",
    }
    encoder.load_state_dict(
        {
            f"layers.{i}.{theirs}{part}": w[f"layers.{i}.{ours}{part}"]
            for i in range(net.settings.n_layer)
            for theirs, ours in names.items()
            for part in ("weight", "bias")
        }
    )
    there = torch.nonzero(counts.sum(1))[:, 0]  # torch's attention gives NaN where all is padding
    x[:, there] = encoder(x[:, there], src_key_padding_mask=padding[there]).detach()
    logits = torch.zeros(b, height * width, 78, dtype=torch.float64)
    numbers = torch.zeros(b, 6, dtype=torch.float64)
    for i in range(b):
        own = int(counts[i, 0])
        logits[i, places[i][0]] = x[:own, i] @ w["actor.weight"].T + w["actor.bias"]
        worth = (x[: int(counts[i].sum()), i] @ w["critic.worth.weight"].T + w["critic.worth.bias"])[:, 0]
        for kind, part in enumerate(worth.split(counts[i].tolist())):
            numbers[i, 2 * kind] = part.sum()
            numbers[i, 2 * kind + 1] = part.sum() / (longest if padded_means else max(len(part), 1))
    values = numbers @ w["critic.combine.weight"].T + w["critic.combine.bias"]
    return logits.view(b, height, width, 78), values[:, 0]


def slow_gridnet(net: ez.baselines.GridNet, grids: Tensor) -> tuple[Tensor, Tensor]:
    w, (_, height, width, _) = weights_of(net), grids.shape
    x = functional.pad(grids.permute(0, 3, 1, 2), (0, -width % 16, 0, -height % 16))
    for i, layer in enumerate((0, 3, 6, 9)):
        x = functional.conv2d(x, w[f"encoder.{layer}.weight"], w[f"encoder.{layer}.bias"], padding=1)
        x = functional.max_pool2d(x, 3, 2, 1)
        x = x if i == 3 else torch.relu(x)
    hidden = torch.relu(x.flatten(1) @ w["critic.1.weight"].T + w["critic.1.bias"])
    values = hidden @ w["critic.3.weight"].T + w["critic.3.bias"]
    for i, layer in enumerate((0, 2, 4, 6)):
        x = functional.conv_transpose2d(
            x, w[f"decoder.{layer}.weight"], w[f"decoder.{layer}.bias"], 2, padding=1, output_padding=1
        )
        x = x if i == 3 else torch.relu(x)
    return x.permute(0, 2, 3, 1)[:, :height, :width], values[:, 0]


def slow_impala(w: Weights, grids: Tensor) -> Tensor:
    """(B, H, W, 27) to (B, 256)."""

    def conv(x: Tensor, name: str) -> Tensor:
        return functional.conv2d(x, w[f"{name}.weight"], w[f"{name}.bias"], padding=1)

    x = grids.permute(0, 3, 1, 2)
    for i in range(3):
        place = f"encoder.sequences.{i}"
        x = functional.max_pool2d(conv(x, f"{place}.conv"), 3, 2, 1)
        for block in (f"{place}.block0", f"{place}.block1"):
            x = conv(conv(x.relu(), f"{block}.conv0").relu(), f"{block}.conv1") + x
    x = x.flatten(1).relu()
    return (x @ w["encoder.linear.weight"].T + w["encoder.linear.bias"]).relu()


def slow_impala_grid(net: ez.baselines.ImpalaGridNet, grids: Tensor) -> tuple[Tensor, Tensor]:
    w, (b, height, width, _) = weights_of(net), grids.shape
    x = slow_impala(w, grids)
    values = x @ w["critic.weight"].T + w["critic.bias"]
    return (x @ w["actor.weight"].T + w["actor.bias"]).view(b, height, width, 78), values[:, 0]


def slow_order(logits: Tensor, mask: np.ndarray, order: np.ndarray, everything: bool) -> tuple[float, float]:
    """Log-probability and entropy of one unit's order, component by component."""
    parts = [
        torch.where(torch.as_tensor(allowed), part, -1e8)
        for part, allowed in zip(logits.split(SIZES), np.split(mask, np.cumsum(SIZES)[:-1]), strict=True)
    ]
    somewhere = [bool((part > -1e7).any()) for part in parts]
    log_ps = [torch.log_softmax(part, 0) for part in parts]
    entropies = [float(torch.distributions.Categorical(logits=part).entropy()) for part in parts]
    if everything:
        counted = [m for m in range(7) if somewhere[m]]
        return sum(float(log_ps[m][order[m]]) for m in counted), sum(entropies[m] for m in counted)
    counted = [0, *USED[int(order[0])]]
    entropy = entropies[0]
    for kind, used in USED.items():
        if parts[0][kind] > -1e7:
            entropy += math.exp(float(log_ps[0][kind])) * sum(entropies[m] for m in used)
    return sum(float(log_ps[m][order[m]]) for m in counted), entropy


def own_cells(batch: EntityBatch, step: int) -> list[tuple[int, int]]:
    """(y, x) of each actor."""
    own = batch.entities["Own"][step]
    return [(int(own[a, 1]), int(own[a, 0])) for a in batch.actions["order"].actors[step]]


CASES = [
    (ez.baselines.TransformerNet, slow_transformer, 8, 8, {}),
    (ez.baselines.TransformerNet, slow_transformer, 16, 16, {"n_layer": 2}),
    (
        ez.baselines.TransformerNet,
        slow_transformer,
        5,
        3,
        {"n_head": 3, "d_hidden": 40, "position": "one_hot"},
    ),
    (ez.baselines.GridNet, slow_gridnet, 16, 16, {}),
    (ez.baselines.GridNet, slow_gridnet, 10, 18, {}),
    (ez.baselines.ImpalaGridNet, slow_impala_grid, 8, 8, {}),
    (ez.baselines.ImpalaGridNet, slow_impala_grid, 5, 7, {}),
]


@pytest.mark.parametrize(("kind", "slow", "height", "width", "options"), CASES)
@pytest.mark.parametrize("composite", ["used", "all"])
def test_log_probabilities_entropies_and_values_are_those_of_the_papers_layout(
    kind: Any,
    slow: Callable[..., tuple[Tensor, Tensor]],
    height: int,
    width: int,
    options: dict[str, Any],
    composite: str,
    rts_space: Any,
    map_batch: Any,
    grid_of: Any,
) -> None:
    space = rts_space()
    batch = map_batch(space, height, width)
    net = randomized(kind(space, space.actions, height=height, width=width, composite=composite, **options))
    acted = net.act(batch, np.random.default_rng(0))
    evaluation = net.evaluate(batch, acted.actions)
    grids = torch.as_tensor(np.stack([grid_of(batch, i, height, width) for i in range(len(batch))]))
    logits, values = slow(net, grids)
    mask = batch.actions["order"].mask
    expected = []
    for step in range(len(batch)):
        for (y, x), allowed, order in zip(
            own_cells(batch, step), mask[step], acted.actions["order"][step], strict=True
        ):
            expected.append(slow_order(logits[step, y, x], allowed, order, composite == "all"))
    log_probs, entropies = np.array(expected).T
    np.testing.assert_allclose(evaluation.log_probs["order"].detach(), log_probs, rtol=2e-4, atol=2e-4)
    np.testing.assert_allclose(evaluation.entropies["order"].detach(), entropies, rtol=2e-4, atol=2e-4)
    np.testing.assert_allclose(evaluation.values.detach(), values, rtol=2e-4, atol=2e-4)
    np.testing.assert_allclose(acted.log_probs["order"].values, log_probs, rtol=2e-4, atol=2e-4)
    np.testing.assert_allclose(acted.values, values, rtol=2e-4, atol=2e-4)
    np.testing.assert_allclose(net.value(batch), values, rtol=2e-4, atol=2e-4)


def papers_joint_log_prob(logits: Tensor, mask: np.ndarray, orders: np.ndarray) -> float:
    """Sum over all cells and components of a step, where forbidden logits are -1e8: (H · W, …)."""
    masked = torch.where(torch.as_tensor(mask), logits, -1e8)
    total = 0.0
    for m, part in enumerate(masked.split(SIZES, 1)):
        chosen = torch.as_tensor(orders[:, m : m + 1])
        total += float(torch.log_softmax(part, 1).gather(1, chosen).sum())
    return total


def test_ratios_with_composite_all_are_those_of_the_papers(
    rts_space: Any, map_batch: Any, grid_of: Any
) -> None:
    """Cells without a unit add a constant to the papers' joint log-probability, which cancels."""
    space = rts_space()
    batch = map_batch(space, 8, 8)
    nets = [
        randomized(ez.baselines.GridNet(space, space.actions, height=8, width=8, composite="all"), seed)
        for seed in (1, 2)
    ]
    orders = nets[0].act(batch, np.random.default_rng(0)).actions
    ours = [net.evaluate(batch, orders).log_probs["order"].detach().numpy() for net in nets]
    grids = torch.as_tensor(np.stack([grid_of(batch, i, 8, 8) for i in range(len(batch))]))
    logits = [slow_gridnet(net, grids)[0] for net in nets]
    per_step = orders["order"].with_values(ours[1] - ours[0])
    assert max(map(len, per_step)) > 2
    for step in range(len(batch)):
        mask, chosen = np.zeros((8, 8, 78), bool), np.zeros((8, 8, 7), np.int64)
        for (y, x), allowed, order in zip(
            own_cells(batch, step), batch.actions["order"].mask[step], orders["order"][step], strict=True
        ):
            mask[y, x], chosen[y, x] = allowed, order
        before, after = (
            papers_joint_log_prob(rows[step].reshape(64, 78), mask.reshape(64, 78), chosen.reshape(64, 7))
            for rows in logits
        )
        assert per_step[step].sum() == pytest.approx(after - before, rel=1e-3, abs=1e-3)


def test_the_critics_means_over_padding_depend_on_the_batch_and_the_others_do_not(
    rts_space: Any, map_batch: Any, grid_of: Any
) -> None:
    space = rts_space()
    batch = map_batch(space, 8, 8)
    grids = torch.as_tensor(np.stack([grid_of(batch, i, 8, 8) for i in range(len(batch))]))
    torch.manual_seed(0)
    fair, faulty = (
        randomized(
            ez.baselines.TransformerNet(space, space.actions, height=8, width=8, mean_over_padding=flag)
        )
        for flag in (False, True)
    )
    np.testing.assert_allclose(
        faulty.value(batch), slow_transformer(faulty, grids, True)[1], rtol=2e-4, atol=2e-4
    )
    alone = [net.value(batch.gather([1])) for net in (fair, faulty)]
    np.testing.assert_allclose(fair.value(batch)[1], alone[0][0], rtol=1e-4)
    assert abs(faulty.value(batch)[1] - alone[1][0]) > 1e-3


@pytest.mark.parametrize("composite", ["used", "all"])
def test_unit_action_simulation_equals_asking_the_network_unit_by_unit(
    composite: str, rts_space: Any, map_batch: Any, grid_of: Any
) -> None:
    space, height, width = rts_space(), 6, 5
    batch = map_batch(space, height, width)
    net = randomized(
        ez.baselines.UnitActionNet(space, space.actions, height=height, width=width, composite=composite)
    )
    acted = net.act(batch, np.random.default_rng(3))
    w = weights_of(net)
    log_probs, entropies, values = [], [], []
    for step in range(len(batch)):
        drawn, cells = acted.raw["order"][step], own_cells(batch, step)
        mask = batch.actions["order"].mask[step]
        assert sorted(drawn[:, 7]) == list(range(len(cells)))
        grid = grid_of(batch, step, height, width)
        values.append(
            float(slow_impala(w, torch.as_tensor(grid)[None]) @ w["critic.weight"][0])
            + float(w["critic.bias"])
        )
        found = {}
        waiting = set(range(len(cells)))
        for actor in np.argsort(drawn[:, 7]):
            logits = slow_impala(w, torch.as_tensor(grid)[None])[0] @ w["actor.weight"].T + w["actor.bias"]
            source = torch.full((height * width,), -1e8, dtype=torch.float64)
            for i in waiting:
                place = cells[i][0] * width + cells[i][1]
                source[place] = logits[place]
            y, x = cells[actor]
            unit = torch.distributions.Categorical(logits=source)
            log_p, entropy = slow_order(
                logits[height * width :], mask[actor], drawn[actor, :7], composite == "all"
            )
            place = torch.tensor(y * width + x)
            found[actor] = (log_p + float(unit.log_prob(place)), entropy + float(unit.entropy()))
            grid[y, x, 21:] = np.arange(6) == drawn[actor, 0]
            waiting.remove(int(actor))
        log_probs += [found[i][0] for i in range(len(cells))]
        entropies += [found[i][1] for i in range(len(cells))]
    evaluation = net.evaluate(batch, acted.raw)
    np.testing.assert_allclose(acted.log_probs["order"].values, log_probs, rtol=2e-4, atol=2e-4)
    np.testing.assert_allclose(evaluation.log_probs["order"].detach(), log_probs, rtol=2e-4, atol=2e-4)
    np.testing.assert_allclose(evaluation.entropies["order"].detach(), entropies, rtol=2e-4, atol=2e-4)
    for numbers in (evaluation.values.detach(), acted.values, net.value(batch)):
        np.testing.assert_allclose(numbers, values, rtol=2e-4, atol=2e-4)


def test_gradients_are_those_of_the_slow_network(rts_space: Any, map_batch: Any) -> None:
    """By finite differences in float64, through attention, critic and orders."""
    space = rts_space()
    batch = map_batch(space, 4, 4, steps=3)
    net = randomized(
        ez.baselines.TransformerNet(space, space.actions, height=4, width=4, n_layer=1, n_head=1, d_hidden=8)
    ).double()
    orders = sample_actions(space.actions, batch, np.random.default_rng(0))

    def loss() -> Tensor:
        evaluation = net.evaluate(batch, orders)
        return evaluation.log_probs["order"].sum() + (evaluation.values**2).sum()

    loss().backward()
    generator = torch.Generator().manual_seed(0)
    for name, parameter in net.named_parameters():
        direction = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        with torch.no_grad():
            parameter.add_(1e-5 * direction)
            up = loss()
            parameter.sub_(2e-5 * direction)
            down = loss()
            parameter.add_(1e-5 * direction)
        slope = float(up - down) / 2e-5
        assert float((parameter.grad * direction).sum()) == pytest.approx(slope, rel=1e-3, abs=1e-5), name


def test_orders_without_turns_are_taken_in_the_order_of_the_batch(rts_space: Any, map_batch: Any) -> None:
    space = rts_space()
    batch = map_batch(space, 4, 4)
    net = randomized(ez.baselines.UnitActionNet(space, space.actions, height=4, width=4))
    orders = sample_actions(space.actions, batch, np.random.default_rng(0))
    turns = orders["order"].item_indices()
    with_turns = {
        "order": RaggedArray(np.column_stack([orders["order"].values, turns]), orders["order"].offsets)
    }
    one, other = net.evaluate(batch, orders), net.evaluate(batch, with_turns)
    assert torch.equal(one.log_probs["order"], other.log_probs["order"])
