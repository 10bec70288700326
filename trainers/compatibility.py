"""Checks that a policy can be trained in an environment."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
from torch import nn

from ..envs import EntityVectorEnv, space_schema
from ..envs.errors import named_kind
from ..envs.spaces.changes import action_changes
from ..envs.vector.vector_checks import POLICY_FIRST, check_autoreset, check_fits, check_vector_env
from ..envs.vector.wrapper import evolving_layer
from ..policies import Policy, check_members
from .config import PPOConfig
from .ranks import Ranks
from .rollout import Samples
from .rollout_source import RolloutSource
from .runs.guard import check_batch


def checked_config(config: PPOConfig | None) -> PPOConfig:
    """Return `config`; the defaults if it is None.

    Raises:
        TypeError: it is no `PPOConfig`.
    """
    if config is None:
        return PPOConfig()
    if not isinstance(config, PPOConfig):
        raise TypeError(f"PPO: config: expected a PPOConfig, got {config!r}. Use PPOConfig(**options)")
    return config


def checked_ranks(
    ranks: Ranks, policy: Policy, venv: EntityVectorEnv | RolloutSource, config: PPOConfig
) -> tuple[slice, int]:
    """Return the lanes of this rank among those of all ranks, and their number.

    Raises:
        ValueError: the ranks differ in configuration, spaces, network or versions; or `venv` can't be split.
    """
    if ranks.size == 1:
        return slice(0, venv.num_envs), venv.num_envs
    if isinstance(venv, RolloutSource):
        raise ValueError(
            f"{type(venv).__name__}: expected one process that learns, got {ranks.size} ranks. Start it"
            " without torchrun"
        )
    if evolving_layer(venv) is not None:
        raise ValueError(
            f"{type(venv).__name__}: expected one process, got {ranks.size}. Its opponents are not shared"
        )
    options = {name: value for name, value in asdict(config).items() if name != "device"}
    network = {f"policy.{name}": value for name, value in policy.config.items()}
    spaces = {"spaces": space_schema(policy.observation_space)}
    ranks.check_alike({**options, "policy": type(policy).__name__, **network, **spaces})
    counts = ranks.gather(venv.num_envs)
    first = sum(counts[: ranks.rank])
    return slice(first, first + venv.num_envs), sum(counts)


def check_samples(samples: Samples, policy: Policy) -> None:
    """Check that a rollout from elsewhere is one that `policy` can learn from; an empty one is.

    Raises:
        TypeError: they are no `Samples`.
        ValueError: they are of other entity types or actions, or an array has another shape.
        NonFiniteError: a feature is NaN or infinite.
    """
    if not isinstance(samples, Samples):
        raise TypeError(
            f"update: samples: expected Samples, as collect returns them, got {named_kind(samples)}"
        )
    space = getattr(policy, "reads", policy.observation_space)  # of the batches that it takes
    expected = {name: (len(features),) for name, features in space.entities.items()}
    found = {name: rows.inner_shape for name, rows in samples.observations.entities.items()}
    for what, own, other in (
        ("entity types, with their numbers of features", expected, found),
        ("actions", list(policy.action_space), list(samples.actions)),
    ):
        if len(samples) and own != other:
            raise ValueError(f"update: samples: {what}: expected those of the policy, {own}, got {other}")
    for name in ("values", "advantages", "returns"):
        array = getattr(samples, name)
        if np.shape(array) != (len(samples.observations),):
            wanted = f"one number for each of {len(samples.observations)} steps"
            raise ValueError(f"update: samples: {name}: expected {wanted}, got shape {np.shape(array)}")
    check_batch(samples.observations, None)  # its steps may be of any environments


def checked_module(policy: Policy, venv: EntityVectorEnv | RolloutSource) -> nn.Module:
    """`policy` as a module, once it is sure that it fits `venv`.

    Raises:
        TypeError: it is no module or no `Policy`, or `venv` no entity vector environment.
        ValueError: its actions or features are not those of `venv`, it is not the learner of `venv`'s pool of
            opponents, or `venv` doesn't reset in the step that ends an episode.
    """
    if not isinstance(policy, nn.Module):
        hint = POLICY_FIRST if isinstance(policy, EntityVectorEnv) else ""
        raise TypeError(f"policy: expected an nn.Module, got {named_kind(policy)}{hint}")
    check_members("policy", policy)
    if not isinstance(venv, RolloutSource):
        check_vector_env("venv", venv, POLICY_FIRST)
    learner = getattr(getattr(evolving_layer(venv), "pool", None), "learner", policy)
    if learner is not policy:
        raise ValueError(
            "policy: expected the learner of the environments' pool, whose snapshots are its opponents, got"
            " another policy. Use pool.learner"
        )
    if policy.action_space != venv.single_action_space:
        difference = action_changes(venv.single_action_space, policy.action_space)
        raise ValueError(f"the policy's actions are not those of the environments: {difference}")
    if not isinstance(venv, RolloutSource):
        check_fits("PPO", policy, venv)
        check_autoreset("PPO", venv)
    return policy
