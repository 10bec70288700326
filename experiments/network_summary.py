"""Size and cost of networks, for `entitize info`; they need torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..envs import EntitySpace, EntityVectorEnv
from ..policies.rogue_net import RogueNetConfig
from .config import EnvChoice, TrainConfig, UnknownEnvError, read_agent_config
from .environments import LISTEN, EnvConfig, make_whole_games, with_lanes
from .errors import user_errors
from .networks import load_network, make_policy
from .reports import count_entities


def describe_run(run: Path, env: str | None) -> tuple[str, EntitySpace, str]:
    """Return a title, the space and the summary of a run's network.

    Without its cost if the environment is not known, or games must connect for it.
    """
    try:
        config = read_agent_config(run, EnvChoice(env))
    except UnknownEnvError:
        policy = load_network(run)
        title = f"{run}: in an environment that the run folder does not name"
        return title, policy.observation_space, _summary(policy)
    if config.env.id == LISTEN:  # to make it would wait for games
        policy = load_network(run)
        title = f"{run}: games that connect to {config.env.kwargs.get('address')}"
        return title, policy.observation_space, _summary(policy)
    with make_whole_games(with_lanes(config.env, 8), config.env) as venv:
        policy = load_network(run, venv.single_observation_space)
        known = policy.observation_space.entities  # the game may have got others since the training
        counts = {name: count for name, count in mean_entities(venv).items() if name in known}
        summary = _summary(policy, counts)
        return f"{run}: {config.env.id}", policy.observation_space, summary


def describe_network(
    env: EnvConfig, network: str, net: RogueNetConfig, baseline: Mapping[str, Any], venv: EntityVectorEnv
) -> str:
    """Describe a network with these options for `venv`, the environments `env`."""
    with user_errors(ValueError):
        config = TrainConfig(env, network, net, baseline=dict(baseline))
    return _summary(make_policy(config, venv), mean_entities(venv))


def _summary(policy: Any, entities: Mapping[str, float] | None = None) -> str:
    """Return the network's own summary; of one of the user that has none, what torch says of it."""
    return str(policy.summary(entities) if hasattr(policy, "summary") else policy)


def mean_entities(venv: EntityVectorEnv) -> dict[str, float]:
    """Return the mean number of entities per step and type, over 100 steps of the random policy."""
    return {name: round(mean, 1) for name, mean in count_entities(venv, steps=100).by_type.items()}
