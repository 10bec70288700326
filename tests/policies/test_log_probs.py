"""`log_probs`: of every choice what `evaluate` says of it, and its gradients."""

from __future__ import annotations

from typing import Any

import entitize as ez
import numpy as np
import pytest
import torch
from entitize.envs import ActionMask, EntityActionSpace, EntityBatch, EntitySpace
from entitize.ragged import RaggedArray

ORDER = ez.MultiCategorical({"kind": ["wait", "move"], "way": ["north", "south", "west"]}, {"move": ["way"]})


def options_of(mask: ActionMask) -> tuple[list[list[Any]], list[list[int]]]:
    """Return each actor's allowed choices, and where each of them stands in the flat values of the mask."""
    choices: list[list[Any]] = []
    places: list[list[int]] = []
    start = 0
    for step in range(len(mask.actors)):
        count, allowed = len(mask.actors[step]), mask.mask[step]
        rows = allowed.reshape(count, -1) if count else allowed.reshape(0, 1)
        values = np.arange(rows.shape[1]) if mask.actees is None else mask.actees[step]
        for row in rows:
            found = np.flatnonzero(row)
            choices.append(values[found].tolist())
            places.append((found + start).tolist())
            start += len(row)
    return choices, places


@pytest.mark.parametrize("path", ["fused", "torch", "float64"])
def test_they_are_those_that_evaluate_gives_one_by_one(
    make_space: Any, random_batch: Any, make_net: Any, path: str
) -> None:
    space = make_space(hidden=True)
    batch = random_batch(space, steps=8, most=5, seed=1)
    net = make_net(space, batch, path=path)
    log_probs = net.log_probs(batch)
    assert list(log_probs) == ["move", "fire", "mode"]
    chosen = net.act(batch, np.random.default_rng(0)).raw
    for name, found in log_probs.items():
        mask = batch.actions[name]
        assert found.shape == mask.mask.values.shape
        assert (found == -torch.inf).numpy().tolist() == (~mask.mask.values).tolist()
        choices, places = options_of(mask)
        flat = found.detach().reshape(-1).double()
        assert max(map(len, choices)) > 1
        for k in range(max(map(len, choices))):  # the k-th allowed choice of each actor, or its last
            of_actor = [min(k, len(own) - 1) for own in choices]
            values = np.array([own[j] for own, j in zip(choices, of_actor, strict=True)], np.int64)
            given: dict[str, RaggedArray] = {**chosen, name: mask.actors.with_values(values)}
            expected = net.evaluate(batch, given).log_probs[name].detach().double()
            where = [own[j] for own, j in zip(places, of_actor, strict=True)]
            torch.testing.assert_close(flat[where], expected, rtol=1e-4, atol=1e-5)


def test_their_gradients_are_those_of_evaluate(make_space: Any, random_batch: Any, make_net: Any) -> None:
    space = make_space(continuous=False)
    batch = random_batch(space, steps=8, most=5, seed=2)
    net = make_net(space, batch, path="float64")
    actions = net.act(batch, np.random.default_rng(0)).raw
    log_probs = net.evaluate(batch, actions).log_probs.values()
    parameters = list(net.parameters())
    expected = torch.autograd.grad(sum(map(torch.sum, log_probs)), parameters, allow_unused=True)
    total = torch.zeros((), dtype=torch.float64)
    for name, found in net.log_probs(batch).items():
        choices, places = options_of(batch.actions[name])
        values = actions[name].values.tolist()
        where = [p[c.index(v)] for c, p, v in zip(choices, places, values, strict=True)]
        total = total + found.reshape(-1)[where].sum()
    given = torch.autograd.grad(total, parameters, allow_unused=True)
    assert any(gradient is not None and gradient.any() for gradient in given)
    for ours, theirs in zip(given, expected, strict=True):
        assert (ours is None) == (theirs is None)
        if ours is not None:
            torch.testing.assert_close(ours, theirs)


def test_those_of_components_and_of_steps_where_nobody_acts() -> None:
    space = EntitySpace({"Unit": ["x"]}, EntityActionSpace({"order": ORDER, "target": ez.SelectEntity()}))
    units = RaggedArray.from_lengths(np.ones((5, 1), np.float32), np.array([2, 0, 3]))
    actors = RaggedArray.from_lengths(np.array([0, 1, 1]), np.array([2, 0, 1]))
    allowed = np.array([[1, 1, 1, 0, 1], [1, 0, 0, 0, 0], [0, 1, 0, 1, 1]], bool)
    pairs = RaggedArray.from_lengths(np.array([1, 1, 0, 1, 1, 0, 1], bool), np.array([4, 0, 3]))
    actees = RaggedArray.from_lengths(np.array([0, 1, 0, 1, 2]), np.array([2, 0, 3]))
    batch = EntityBatch(
        {"Unit": units},
        np.zeros((3, 0), np.float32),
        {
            "order": ActionMask(actors, actors.with_values(allowed)),
            "target": ActionMask(actors, pairs, actees),
        },
    )
    torch.manual_seed(0)
    net = ez.RogueNet(space, space.actions, d_model=8)
    torch.nn.init.normal_(net.action_heads["order"].proj.weight)  # type: ignore[union-attr, arg-type]
    found = net.log_probs(batch)
    probabilities = found["order"].detach().exp().numpy()
    kinds, ways = probabilities[:, :2], probabilities[:, 2:]
    np.testing.assert_allclose(kinds.sum(1), 1, rtol=1e-6)
    np.testing.assert_allclose(ways.sum(1), [1, 0, 1], rtol=1e-6)  # the second may go no way
    assert np.array_equal(probabilities > 0, allowed)
    targets = found["target"].detach().exp().numpy()
    np.testing.assert_allclose([targets[:2].sum(), targets[2:4].sum(), targets[4:].sum()], 1, rtol=1e-6)
    nobody = net.log_probs(batch.gather([1]))
    assert [tuple(part.shape) for part in nobody.values()] == [(0, 5), (0,)]
    sum(part[part > -torch.inf].sum() for part in found.values()).backward()
    gradients = [parameter.grad for parameter in net.parameters() if parameter.grad is not None]
    assert all(gradient.isfinite().all() for gradient in gradients) and any(g.any() for g in gradients)
