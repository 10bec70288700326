"""Steps of spaces of every kind, for tests that write datasets."""

from __future__ import annotations

from pathlib import Path

import entitize as ez
import numpy as np
from entitize.datasets import DatasetWriter, EntityDataset, Steps
from entitize.envs import batch_observations, sample_actions

SPACES = {
    "every kind": ez.EntitySpace(
        {"Unit": ["x", "y", "health"], "Mine": ["x"], "Wall": []},
        ez.EntityActionSpace(
            {
                "Move": ez.Categorical(["up", "down", "wait"]),
                "Attack": ez.SelectEntity(),
                "Build": ez.MultiCategorical({"what": ["a", "b"], "where": ["n", "s", "e"]}),
                "Push": ez.Continuous([-1, -1], [1, 1]),
                "End": ez.GlobalCategorical(["no", "yes"]),
            }
        ),
        ["time", "gold"],
        hidden=True,
    ),
    "a picture and no entities": ez.EntitySpace(
        {}, ez.EntityActionSpace({"Go": ez.GlobalCategorical(["on", "off"])}), frame=(4, 3, 3)
    ),
    "entities alone": ez.EntitySpace({"Ball": ["x"]}, ez.EntityActionSpace({"Pick": ez.SelectEntity()})),
}

#: Without hidden entities, and with an action of several components of which a kind uses some.
DECISIONS = ez.EntitySpace(
    {"Unit": ["x", "y"], "Mine": ["x"]},
    ez.EntityActionSpace(
        {
            "Move": ez.Categorical(["up", "down", "wait"]),
            "Attack": ez.SelectEntity(),
            "Order": ez.MultiCategorical({"kind": ["wait", "go"], "where": 4}, uses={"go": ["where"]}),
            "Push": ez.Continuous([-1.0, 0.0], [1.0, 5.0]),
            "End": ez.GlobalCategorical(2),
        }
    ),
    ["time"],
)


def random_steps(space: ez.EntitySpace, count: int, seed: int) -> Steps:
    rng = np.random.default_rng(seed)
    space.seed(seed)
    batch = batch_observations(space, [space.sample() for _ in range(count)])
    return Steps(
        batch,
        sample_actions(space.actions, batch, rng),
        lane=(np.arange(count) % 4).astype(np.int32),
        episode=np.arange(count) // 3,
        step=(np.arange(count) % 3).astype(np.int32),
        reward=rng.normal(size=count).astype(np.float32),
        terminated=rng.random(count) < 0.3,
        truncated=rng.random(count) < 0.3,
        final=rng.random(count) < 0.2,
        inactive=rng.random(count) < 0.2,
    )


def assert_same(ours: Steps, theirs: Steps) -> None:
    assert ours.observations.equals(theirs.observations)
    assert all(ours.actions[name] == theirs.actions[name] for name in theirs.actions)
    for name, numbers in theirs.numbers().items():
        np.testing.assert_array_equal(ours.numbers()[name], numbers, err_msg=name)
        assert ours.numbers()[name].dtype == numbers.dtype


def random_dataset(path: Path, count: int = 60, seed: int = 0, scale: float = 1.0) -> EntityDataset:
    """Write `count` steps of `DECISIONS`: one lane, in episodes of five, with rewards of size `scale`."""
    rng = np.random.default_rng(seed)
    DECISIONS.seed(seed)
    batch = batch_observations(DECISIONS, [DECISIONS.sample() for _ in range(count)])
    ends = np.arange(count) % 5 == 4
    steps = Steps(
        batch,
        sample_actions(DECISIONS.actions, batch, rng),
        lane=np.zeros(count, np.int32),
        episode=np.arange(count) // 5,
        step=(np.arange(count) % 5).astype(np.int32),
        reward=(scale * rng.normal(size=count)).astype(np.float32),
        terminated=ends,
        truncated=np.zeros(count, bool),
        final=np.zeros(count, bool),
        inactive=np.zeros(count, bool),
    )
    with DatasetWriter(path, DECISIONS) as writer:
        writer.append(steps)
    return EntityDataset(path)
