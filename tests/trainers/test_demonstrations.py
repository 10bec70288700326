"""`Demonstrations`: which recorded steps are learned from, and the rewards that followed them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import entitize as ez
import numpy as np
import pytest
from entitize.datasets import DatasetError, DatasetWriter, EntityDataset, Steps
from entitize.envs import ActionMask, EntityBatch, batch_observations
from entitize.ragged import RaggedArray
from entitize.trainers.cloning import Demonstrations

from facts import raises
from recorded_steps import DECISIONS, random_dataset


def test_only_episodes_with_the_least_return_are_learned_from_and_held_out(tmp_path: Path) -> None:
    dataset = random_dataset(tmp_path / "plays", 100, seed=2)
    totals = dataset.column("reward").reshape(-1, 5).sum(1, dtype=np.float64)
    least = float(np.sort(totals)[-7])  # of 20 episodes
    parts = Demonstrations(dataset, held_out=0.3, min_return=least)
    used = np.concatenate([parts.learned, parts.held_out])
    assert sorted(used.tolist()) == np.flatnonzero(np.repeat(totals >= least, 5)).tolist()
    assert len(parts.held_out) == 2 * 5
    everything = Demonstrations(dataset, held_out=0.3)
    np.testing.assert_array_equal(
        parts.gather(parts.learned).returns, everything.gather(parts.learned).returns
    )
    with raises(DatasetError, dataset.path, "min_return", f"{totals.max():g}"):
        Demonstrations(dataset, min_return=totals.max() + 1.0)
    with raises(TypeError, "min_return"):
        ez.BehaviorCloningConfig(min_return="10")  # type: ignore[arg-type]


@pytest.mark.parametrize(("reward", "least"), [(0.9, 0.9), (0.7, 3.5), (-0.1, -0.5)])
def test_a_return_that_is_reached_but_for_rounding_counts(
    reward: float, least: float, tmp_path: Path
) -> None:
    """Rewards are recorded in float32."""
    steps = random_dataset(tmp_path / "plays", 10).gather(np.arange(10))
    rewards = np.full(10, reward if least != reward else reward / 5, np.float32)
    rewards[5:] -= 0.01
    with DatasetWriter(tmp_path / "even", DECISIONS) as writer:
        writer.append(replace(steps, reward=rewards))
    parts = Demonstrations(EntityDataset(tmp_path / "even"), held_out=0.0, min_return=least)
    assert parts.learned.tolist() == [0, 1, 2, 3, 4]


def test_a_clone_of_good_episodes_alone_plays_as_these(tmp_path: Path) -> None:
    """Half of the episodes say the contrary of the other half, and get nothing for it."""
    space = ez.EntitySpace({"A": ["x"]}, ez.EntityActionSpace({"Go": ez.Categorical(["l", "r"])}))
    count = 200
    x = np.where(np.random.default_rng(0).random(count) < 0.5, -1.0, 1.0).astype(np.float32)
    acting = {"Go": {"actors": np.array([0]), "mask": np.ones((1, 2), np.int8)}}
    batch = batch_observations(
        space, [{"entities": {"A": np.array([[value]], np.float32)}, "actions": acting} for value in x]
    )
    is_good = np.arange(count) % 2 == 0
    chosen = np.where(is_good, x > 0, x < 0).astype(np.int64)
    no = np.zeros(count, bool)
    with DatasetWriter(tmp_path / "plays", space) as writer:
        writer.append(
            Steps(
                batch,
                {"Go": RaggedArray.from_lengths(chosen, np.ones(count, np.int64))},
                lane=np.zeros(count, np.int32),
                episode=np.arange(count),
                step=np.zeros(count, np.int32),
                reward=is_good.astype(np.float32),
                terminated=~no,
                truncated=no,
                final=no,
                inactive=no,
            )
        )
    net = ez.RogueNet(space, space.actions, d_model=8, n_layer=1, n_head=1)
    config = ez.BehaviorCloningConfig(epochs=20, minibatch_size=10, min_return=1.0)
    metrics = ez.BehaviorCloning(net, EntityDataset(tmp_path / "plays"), config).train()
    assert metrics["held_out/accuracy/Go"] == 1.0


def test_returns_are_discounted_to_the_end_of_the_episode(tmp_path: Path) -> None:
    dataset = random_dataset(tmp_path / "plays", 15)
    found = Demonstrations(dataset, held_out=0.0, gamma=0.5).gather(np.arange(15))
    rewards = dataset.column("reward").reshape(3, 5).astype(np.float64)
    expected = [[sum(r[t + k] * 0.5**k for k in range(5 - t)) for t in range(5)] for r in rewards]
    np.testing.assert_allclose(found.returns.reshape(3, 5), expected, rtol=1e-5)


def test_rewards_that_come_while_a_lane_is_inactive_are_not_discounted(tmp_path: Path) -> None:
    dataset = random_dataset(tmp_path / "plays", 15)
    steps = dataset.gather(np.arange(5))
    steps.inactive[[1, 2, 4]] = True
    writer = ez.datasets.DatasetWriter(tmp_path / "waiting", DECISIONS)
    writer.append(steps)
    writer.close()
    demonstrations = Demonstrations(EntityDataset(tmp_path / "waiting"), held_out=0.0, gamma=0.5)
    first, second = steps.reward[:3].sum(), steps.reward[3:].sum()
    returns = demonstrations.gather([0, 3]).returns
    np.testing.assert_allclose(returns, [first + 0.5 * second, second], rtol=1e-5)


def test_actions_that_masks_forbid_are_counted_and_may_be_dropped(tmp_path: Path) -> None:
    space = ez.EntitySpace({"A": ["x"]}, ez.EntityActionSpace({"Go": ez.Categorical(["l", "r"])}))
    count = 10
    batch = batch_observations(
        space,
        [
            {
                "entities": {"A": np.ones((1, 1), np.float32)},
                "actions": {"Go": {"actors": np.array([0]), "mask": np.array([[1, step % 2]], np.int8)}},
            }
            for step in range(count)
        ],
    )
    ones, no = np.ones(count, bool), np.zeros(count, bool)
    chosen = RaggedArray.from_lengths(np.ones(count, np.int64), np.ones(count, np.int64))
    with DatasetWriter(tmp_path / "plays", space) as writer:
        writer.append(
            Steps(
                batch,
                {"Go": chosen},
                lane=np.zeros(count, np.int32),
                episode=np.arange(count),
                step=np.zeros(count, np.int32),
                reward=np.zeros(count, np.float32),
                terminated=ones,
                truncated=no,
                final=no,
                inactive=no,
            )
        )
    dataset = EntityDataset(tmp_path / "plays")
    steps = dataset.gather(np.arange(count))
    twice = RaggedArray.from_lengths(np.ones(count + 1, np.int64), 1 + (np.arange(count) == 1))
    with DatasetWriter(tmp_path / "twice", space) as writer:  # step 1 has a choice too many
        writer.append(replace(steps, actions={"Go": twice}))
    others = Demonstrations(EntityDataset(tmp_path / "twice"), illegal="drop", held_out=0.0)
    assert others.dropped == {"Go": 6} and others.learned.tolist() == [3, 5, 7, 9]
    with raises(DatasetError, 5, "'Go'", "illegal='drop'"):
        Demonstrations(dataset)
    parts = Demonstrations(dataset, illegal="drop", held_out=0.0)
    assert parts.dropped == {"Go": 5}
    assert parts.learned.tolist() == [1, 3, 5, 7, 9]


@pytest.mark.parametrize("name", ["Move", "Attack", "Order", "End"])
def test_actors_that_may_do_nothing_are_illegal(name: str, tmp_path: Path) -> None:
    """A choice of 0 looks like the first allowed one where none is."""
    dataset = random_dataset(tmp_path / "plays")
    steps = dataset.gather(np.arange(len(dataset)))
    part, chosen = steps.observations.actions[name], steps.actions[name]
    mask = part.mask.with_values(part.mask.values.copy())
    rows = np.flatnonzero(part.actors.lengths)[2:5]
    for row in rows[1:]:  # for `Attack` the choice has to be an entity that was there to be selected
        mask[row][:] = False
    choices = chosen.with_values(chosen.values.copy())
    for row in rows[1:]:
        choices[row][:] = part.actees[row][0] if part.actees is not None else 0
    actions = {**steps.observations.actions, name: ActionMask(part.actors, mask, part.actees)}
    observations = EntityBatch(steps.observations.entities, steps.observations.globals, actions)
    with DatasetWriter(tmp_path / "broken", DECISIONS) as writer:
        writer.append(replace(steps, observations=observations, actions={**steps.actions, name: choices}))
    broken = EntityDataset(tmp_path / "broken")
    first = int(rows[1])
    facts = (
        str(broken.path),
        f"2 of '{name}'",
        f"step {first % 5} of episode {first // 5}",
        "illegal='drop'",
    )
    with raises(DatasetError, *facts):
        Demonstrations(broken)
    usable = Demonstrations(broken, illegal="drop", held_out=0.0)
    assert usable.dropped == {name: 2}
    whole = Demonstrations(dataset, held_out=0.0)
    assert usable.learned.tolist() == [row for row in whole.learned.tolist() if row not in rows[1:]]
    net = ez.RogueNet(DECISIONS, DECISIONS.actions, d_model=8, n_layer=1, n_head=1)
    minibatch = usable.gather(usable.learned)
    log_probs = net.evaluate(minibatch.observations, minibatch.actions).log_probs
    assert all(bool(values.isfinite().all()) for values in log_probs.values())
