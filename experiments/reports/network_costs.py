"""How big the networks of runs are and what a step costs them, counted with the entities that they see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...envs import EntityVectorEnv, sample_actions
from ..config import TrainConfig
from ..env_config import EnvConfig
from ..environments import make_environments
from ..errors import UserError
from ..microrts.microrts_lanes import with_lanes
from ..networks import make_policy


@dataclass(frozen=True)
class EntityCounts:
    """Entities that there are in a step while the random policy plays."""

    by_type: Mapping[str, float]  # mean
    actors: Mapping[str, float]  # mean, by action
    mean: float  # of all types
    largest: int  # of all types, in any step


@dataclass(frozen=True)
class NetworkCost:
    """Size of a network, and multiply-adds of a step with the mean number of entities."""

    parameters: int
    blog_parameters: int | None  # by the blog's formula; None: it is not about this network
    multiply_adds: float
    blog_multiply_adds: float | None
    entities: EntityCounts


def count_entities(venv: EntityVectorEnv, steps: int = 200, seed: int = 0) -> EntityCounts:
    """Let the random policy take `steps` steps in each environment, and count what it is shown."""
    rng = np.random.default_rng(seed)
    batch, _ = venv.reset(seed=seed)
    by_type = dict.fromkeys(batch.entities, 0)
    actors = dict.fromkeys(batch.actions, 0)
    shown = largest = 0
    for _ in range(steps):
        totals = np.zeros(len(batch), np.int64)
        for name, rows in batch.entities.items():
            by_type[name] += rows.num_items
            totals += rows.lengths
        for name, mask in batch.actions.items():
            actors[name] += mask.actors.num_items
        shown += len(batch)
        largest = max(largest, int(totals.max(initial=0)))
        batch = venv.step(sample_actions(venv.single_action_space, batch, rng))[0]
    means = {name: total / shown for name, total in by_type.items()}
    acting = {name: total / shown for name, total in actors.items()}
    return EntityCounts(means, acting, sum(means.values()), largest)


class CostCounter:
    """Counts for configurations; environments with the same options are played in once."""

    def __init__(self) -> None:
        self._known: dict[str, NetworkCost | str] = {}

    def of(self, config: TrainConfig) -> NetworkCost | str:
        """What a network costs, or why that can't be found out here."""
        key = repr((config.env, config.network, config.net, config.baseline))
        if key not in self._known:
            try:
                self._known[key] = network_cost(config)
            except UserError as error:  # an engine that isn't installed, say: the rest of a report stands
                self._known[key] = str(error)
        return self._known[key]


def network_cost(config: TrainConfig, lanes: int = 8) -> NetworkCost:
    """The cost of the network of a run, with entities as the random policy sees them in `lanes` lanes.

    Raises:
        UserError: the environment or the network can't be made.
    """
    with make_environments(with_lanes(config.env, lanes)) as venv:
        policy = make_policy(config, venv)
        entities = count_entities(venv)
    summary = policy.summary(entities.by_type, entities.actors)
    cost = summary.cost
    assert cost is not None  # entity counts were given
    return NetworkCost(summary.total, summary.blog_parameters, cost.total, cost.blog, entities)


def impala_config(env: EnvConfig) -> TrainConfig:
    """IMPALA on the pixels of a Procgen environment, whatever it shows in `env`."""
    kwargs: dict[str, Any] = {"features": "pixels"}
    kwargs |= {name: env.kwargs[name] for name in ("distribution_mode", "num_levels") if name in env.kwargs}
    return TrainConfig(replace(env, kwargs=kwargs), network="ImpalaNet")
