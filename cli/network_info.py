"""The network part of `entitize info`: size and cost, which need torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..envs import EntityVectorEnv, sample_actions
from ..experiments.agents import load_agent
from ..experiments.config import TrainConfig
from ..experiments.env_config import EnvConfig
from ..experiments.environments import make_environments
from ..experiments.errors import UserError
from ..experiments.microrts.microrts_lanes import with_lanes
from ..experiments.network_options import Network
from ..experiments.networks import make_policy
from ..experiments.run_config import EnvChoice, UnknownEnvError, read_run_config
from ..policies.rogue_net import RogueNetConfig
from .space_text import describe_space


def describe_run(run: Path, env: str | None) -> str:
    """Describe the network of a run; without its cost if the environment is not known."""
    try:
        config = read_run_config(run, EnvChoice(env))
    except UnknownEnvError:
        policy = load_agent(run)
        title = f"{run}: in an environment that the run folder does not name"
        return "\n\n".join([title, describe_space(policy.observation_space), str(policy.summary())])
    with make_environments(with_lanes(config.env, 8)) as venv:
        policy = load_agent(run, venv.single_observation_space)
        summary = str(policy.summary(mean_entities(venv)))
        return "\n\n".join([f"{run}: {config.env.id}", describe_space(policy.observation_space), summary])


def describe_network(
    env: EnvConfig, network: Network, net: RogueNetConfig, baseline: Mapping[str, Any], venv: EntityVectorEnv
) -> str:
    """Describe a network with these options for `venv`, the environments `env`."""
    try:
        config = TrainConfig(env, network, net, baseline=dict(baseline))
    except ValueError as error:
        raise UserError(str(error)) from error
    return str(make_policy(config, venv).summary(mean_entities(venv)))


def mean_entities(venv: EntityVectorEnv, steps: int = 100) -> dict[str, float]:
    """Return the mean number of entities per step and type, over `steps` steps of the random policy."""
    rng = np.random.default_rng(0)
    batch, _ = venv.reset(seed=0)
    totals = dict.fromkeys(batch.entities, 0)
    for _ in range(steps):
        for name, rows in batch.entities.items():
            totals[name] += rows.num_items
        batch = venv.step(sample_actions(venv.single_action_space, batch, rng))[0]
    return {name: round(total / (steps * venv.num_envs), 1) for name, total in totals.items()}
