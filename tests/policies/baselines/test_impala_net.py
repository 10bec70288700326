"""`ImpalaNet` against a second implementation in NumPy; sizes, masks, refusals, training and checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import entitize as ez
import numpy as np
import pytest
import torch
from entitize import Policy, make_vec
from entitize.envs import (
    Categorical,
    EntityActionSpace,
    EntityBatch,
    EntitySpace,
    GlobalCategorical,
    batch_observations,
)
from entitize.ragged import RaggedArray
from entitize.trainers import PPO, PPOConfig, load_policy
from numpy.typing import NDArray

from facts import raises

Array = NDArray[np.float64]

ACTIONS = EntityActionSpace({"act": GlobalCategorical(15)})
PROCGEN = EntitySpace({}, ACTIONS, frame=(64, 64, 3))
SMALL = EntitySpace({}, ACTIONS, frame=(9, 6, 2))


def small(seed: int = 0) -> ez.baselines.ImpalaNet:
    torch.manual_seed(seed)
    net = ez.baselines.ImpalaNet(SMALL, ACTIONS, channels=(4, 6), hidden=16)
    with torch.no_grad():  # the actor's weights start so small that all choices are about as probable
        net.actor.weight.mul_(300)
        net.actor.bias.normal_()
    return net


def pictures(space: EntitySpace, count: int, seed: int = 0) -> EntityBatch:
    """Steps at which everything is allowed."""
    space.seed(seed)
    allowed = {"act": {"mask": np.ones((1, 15), np.int8)}}
    return batch_observations(space, [{**space.sample(), "actions": allowed} for _ in range(count)])


def chosen(choices: Any) -> dict[str, RaggedArray]:
    return {"act": RaggedArray.from_lengths(np.asarray(choices, np.int64), np.ones(len(choices), np.int64))}


# -- the second implementation: float64, images (H, W, C), loops over images and windows ---------------------


def convolved(image: Array, weight: Array, bias: Array) -> Array:
    """3 × 3, with a border of zeros; weight (C', C, 3, 3)."""
    height, width, _ = image.shape
    around = np.zeros((height + 2, width + 2, image.shape[2]))
    around[1:-1, 1:-1] = image
    out = np.zeros((height, width, len(weight))) + bias
    for row in range(height):
        for column in range(width):
            window = around[row : row + 3, column : column + 3]
            out[row, column] += np.tensordot(weight, window.transpose(2, 0, 1), 3)
    return out


def pooled(image: Array) -> Array:
    """The maximum around every second pixel; beyond the border there is nothing."""
    rows, columns = (range(0, size, 2) for size in image.shape[:2])
    return np.array(
        [[image[max(r - 1, 0) : r + 2, max(c - 1, 0) : c + 2].max((0, 1)) for c in columns] for r in rows]
    )


def impala(weights: Mapping[str, Array], picture: NDArray[np.uint8], sequences: int) -> tuple[Array, float]:
    """Logits (C,) and value of one picture."""

    def layer(name: str) -> tuple[Array, Array]:
        return weights[f"{name}.weight"], weights[f"{name}.bias"]

    x = picture / 255.0
    for s in range(sequences):
        at = f"encoder.sequences.{s}"
        x = pooled(convolved(x, *layer(f"{at}.conv")))
        for block in ("block0", "block1"):
            inner = convolved(x.clip(0), *layer(f"{at}.{block}.conv0"))
            x = x + convolved(inner.clip(0), *layer(f"{at}.{block}.conv1"))
    flat = x.clip(0).transpose(2, 0, 1).reshape(-1)
    weight, bias = layer("encoder.linear")
    hidden = (weight @ flat + bias).clip(0)
    weight, bias = layer("actor")
    logits = weight @ hidden + bias
    weight, bias = layer("critic")
    return logits, float((weight @ hidden + bias)[0])


@pytest.mark.parametrize("kind", ["small", "procgen"])
def test_logits_and_values_are_those_of_a_second_implementation(kind: str) -> None:
    torch.manual_seed(3)
    space, net, count = (
        (SMALL, small(), 6) if kind == "small" else (PROCGEN, ez.baselines.ImpalaNet(PROCGEN, ACTIONS), 1)
    )
    net = net.double()
    weights = {name: tensor.numpy() for name, tensor in net.state_dict().items()}
    batch = pictures(space, count)
    assert batch.frames is not None
    second = [impala(weights, picture, len(net.settings.channels)) for picture in batch.frames.values]
    values = np.array([value for _, value in second])
    np.testing.assert_allclose(net.value(batch), values, rtol=1e-5, atol=1e-6)  # float32 on the way out
    for choice in range(15):
        evaluation = net.evaluate(batch, chosen([choice] * count))
        for step, (logits, _) in enumerate(second):
            log_probs = logits - np.log(np.exp(logits).sum())
            assert evaluation.log_probs["act"][step].item() == pytest.approx(log_probs[choice], abs=1e-12)
            entropy = -(np.exp(log_probs) * log_probs).sum()
            assert evaluation.entropies["act"][step].item() == pytest.approx(entropy, abs=1e-12)
        np.testing.assert_allclose(evaluation.values.detach().numpy(), values, rtol=1e-12)


# -- sizes ---------------------------------------------------------------------------------------------------


def test_the_parameters_are_as_many_as_published() -> None:
    net = ez.baselines.ImpalaNet(PROCGEN, ACTIONS)
    summary = net.summary({})
    assert isinstance(net, Policy)
    assert sum(parameter.numel() for parameter in net.parameters()) == summary.total == 626_256
    assert summary.parameters["encoder weights"] == 621_488 == summary.impala[0]
    assert summary.cost is not None
    assert summary.cost.items["encoder"] == summary.impala[1] == 30_605_312
    assert "621,488" in str(summary) and "30,605,312" in str(summary)
    with raises(ValueError, "entity type 'Player'"):
        net.summary({"Player": 1})
    with raises(ValueError, "action 'jump'", "act"):
        net.summary({}, {"jump": 1})


# -- acting --------------------------------------------------------------------------------------------------


def test_what_is_drawn_is_as_probable_as_evaluate_says_and_follows_from_the_generator() -> None:
    net, batch = small(), pictures(SMALL, 40)
    drawn = net.act(batch, np.random.default_rng(1))
    again = net.act(batch, np.random.default_rng(1))
    assert drawn.actions["act"] == again.actions["act"]
    assert drawn.actions["act"] != net.act(batch, np.random.default_rng(2)).actions["act"]
    evaluation = net.evaluate(batch, drawn.actions)
    np.testing.assert_allclose(
        evaluation.log_probs["act"].detach().numpy(), drawn.log_probs["act"].values, atol=1e-5
    )
    np.testing.assert_allclose(evaluation.values.detach().numpy(), drawn.values, atol=1e-5)
    np.testing.assert_allclose(net.value(batch), drawn.values, atol=1e-6)
    best = net.act(batch, np.random.default_rng(1), deterministic=True)
    others = torch.stack([net.evaluate(batch, chosen([c] * 40)).log_probs["act"] for c in range(15)], 1)
    assert best.actions["act"].values.tolist() == others.argmax(1).tolist()


def test_forbidden_choices_are_never_drawn_and_absent_actions_not_taken() -> None:
    net = small()
    SMALL.seed(5)
    steps = [SMALL.sample() for _ in range(30)]
    masks = np.random.default_rng(0).random((30, 15)) < 0.2
    masks[:, 3] = True
    for step, (observation, mask) in enumerate(zip(steps, masks, strict=True)):
        observation["actions"] = {"act": {"mask": mask[None].astype(np.int8)[: step % 3]}}
    batch = batch_observations(SMALL, steps)
    acted = net.act(batch, np.random.default_rng(0))
    order = acted.actions["act"]
    assert order.lengths.tolist() == [min(step % 3, 1) for step in range(30)]
    assert all(masks[step, choice] for step in range(30) for choice in order[step])
    assert acted.values.shape == (30,)
    evaluation = net.evaluate(batch, {"act": order})
    np.testing.assert_allclose(
        evaluation.log_probs["act"].detach().numpy(), acted.log_probs["act"].values, atol=1e-5
    )
    forbidden = order.with_values(np.argmin(masks[batch.actions["act"].actors.sequence_indices()], 1))
    with raises(ValueError, "action 'act'", "not allowed"):
        net.evaluate(batch, {"act": forbidden})


# -- refusals ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("space", "facts"),
    [
        (EntitySpace({}, ACTIONS), ["frames"]),
        (EntitySpace({"Rock": ["x"]}, ACTIONS, frame=(8, 8, 3)), ["frames", "Rock"]),
        (EntitySpace({}, ACTIONS, ["time"], frame=(8, 8, 3)), ["frames", "global"]),
        (EntitySpace({}, EntityActionSpace({"a": Categorical(2)}), frame=(8, 8, 3)), ["GlobalCategorical"]),
    ],
)
def test_other_spaces_are_refused(space: EntitySpace, facts: list[str]) -> None:
    with raises(ValueError, *facts):
        ez.baselines.ImpalaNet(space, space.actions)


def test_other_options_actions_and_batches_are_refused() -> None:
    with raises(TypeError, "EntitySpace", "EntityActionSpace", "int"):
        ez.baselines.ImpalaNet(PROCGEN, 3)  # type: ignore[arg-type]
    with raises(TypeError, "depth"):
        ez.baselines.ImpalaNet(SMALL, ACTIONS, depth=3)
    for wrong in ({"channels": ()}, {"channels": (4, 0)}, {"hidden": 0}):
        with raises(ValueError, "channels", "hidden", "positive"):
            ez.baselines.ImpalaNet(SMALL, ACTIONS, **wrong)
    net, batch = small(), pictures(SMALL, 3)
    with raises(ValueError, "frames", "uint8", "(2, 9, 6, 2)", "(2, 64, 64, 3)"):
        net.value(pictures(PROCGEN, 2))
    with raises(ValueError, "frames", "none"):
        net.value(EntityBatch({}, batch.globals, batch.actions))
    with raises(ValueError, "action 'act'", "missing"):
        net.evaluate(batch, {})
    with raises(ValueError, "action 'act'", 3, 2):
        net.evaluate(batch, chosen([0, 1]))
    with raises(ValueError, "frames", "(64, 64, 3)", "(9, 6, 2)"):
        net.adapt_to(PROCGEN)
    with raises(ValueError, "actions", "act", "b"):
        net.adapt_to(EntitySpace({}, EntityActionSpace({"b": GlobalCategorical(2)}), frame=(9, 6, 2)))
    net.adapt_to(SMALL)


# -- training ------------------------------------------------------------------------------------------------


def test_two_updates_on_pixels_change_the_network_and_come_back_from_the_checkpoint(tmp_path: Path) -> None:
    config = PPOConfig(total_timesteps=64, num_steps=8, minibatch_size=16, microbatch_size=8, update_epochs=2)
    with make_vec("Procgen/bigfish", 4, features="pixels", num_threads=1) as venv:
        torch.manual_seed(1)
        net = ez.baselines.ImpalaNet(
            venv.single_observation_space, venv.single_action_space, channels=(4, 4), hidden=16
        )
        before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
        metrics = PPO(net, venv, config, tmp_path).train()
        batch = venv.reset(seed=5)[0]
    assert metrics["losses/grad_norm"] > 0
    assert all((tensor != before[name]).any() for name, tensor in net.state_dict().items())
    loaded = load_policy(tmp_path)
    assert type(loaded) is ez.baselines.ImpalaNet and loaded.config == {"channels": [4, 4], "hidden": 16}
    np.testing.assert_array_equal(loaded.value(batch), net.value(batch))


def test_parts_of_a_minibatch_give_the_gradients_of_the_whole() -> None:
    batch = pictures(SMALL, 6)
    orders = chosen([0, 3, 14, 2, 7, 7])

    def gradients(size: int) -> list[Any]:
        net = small().double()
        for start in range(0, 6, size):
            part = slice(start, start + size)
            evaluation = net.evaluate(batch[part], {"act": orders["act"][part]})
            (evaluation.log_probs["act"].sum() + evaluation.values.square().sum()).backward()  # type: ignore[no-untyped-call]
        return [parameter.grad for parameter in net.parameters()]

    for whole, parts in zip(gradients(6), gradients(2), strict=True):
        torch.testing.assert_close(whole, parts)
