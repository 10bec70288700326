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
from ..policies import Policy, check_members, space_read_by
from ..ragged import RaggedArray
from .config import PPOConfig
from .ranks import Ranks
from .rollout import Samples
from .rollout_source import RolloutSource
from .runs.guard import NonFiniteError, check_batch


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
        TypeError: they are no `Samples`, or one of their arrays is none of float32 or float64.
        ValueError: they are of other entity types or actions, or an array has another shape.
        NonFiniteError: a feature or another number is NaN or infinite.
    """
    if not isinstance(samples, Samples):
        raise TypeError(
            f"update: samples: expected Samples, as collect returns them, got {named_kind(samples)}"
        )
    space = space_read_by(policy)  # of the batches that it takes
    expected = {name: (len(features),) for name, features in space.entities.items()}
    found = {name: rows.inner_shape for name, rows in samples.observations.entities.items()}
    for what, own, other in (
        ("entity types, with their numbers of features", expected, found),
        ("actions", list(policy.action_space), list(samples.actions)),
    ):
        if len(samples) and own != other:
            raise ValueError(f"update: samples: {what}: expected those of the policy, {own}, got {other}")
    check_batch(samples.observations, space, None)  # its steps may be of any environments
    steps = len(samples.observations)
    for name in ("values", "advantages", "returns"):
        _check_numbers(name, getattr(samples, name), (steps,), f"one number for each of {steps} steps")
    for name in samples.actions if steps else ():
        actors = samples.observations.actions[name].actors
        for what, given in (("actions", samples.actions), ("log_probs", samples.log_probs)):
            _check_items(f"update: samples: {what}: {name!r}", given.get(name), actors)
        wanted = f"one number for each of {actors.num_items} actors"
        _check_numbers(f"log_probs: {name!r}", samples.log_probs[name].values, (actors.num_items,), wanted)


def _check_items(where: str, given: object, actors: RaggedArray) -> None:
    """Check that there is an item for each of the actors."""
    if not isinstance(given, RaggedArray):
        got = "none" if given is None else named_kind(given)
        raise ValueError(f"{where}: expected a RaggedArray, got {got}")
    if len(given) != len(actors):
        raise ValueError(f"{where}: expected {len(actors)} steps, got {len(given)}")
    differing = given.lengths != actors.lengths
    if differing.any():
        step = int(differing.argmax())
        wanted, got = actors.lengths[step], given.lengths[step]
        raise ValueError(f"{where}: step {step}: expected {wanted} items, one for each actor, got {got}")


def _check_numbers(name: str, numbers: object, shape: tuple[int, ...], wanted: str) -> None:
    where = f"update: samples: {name}"
    if not isinstance(numbers, np.ndarray) or numbers.dtype not in (np.float32, np.float64):
        got = f"an array of {numbers.dtype}" if isinstance(numbers, np.ndarray) else named_kind(numbers)
        raise TypeError(f"{where}: expected an array of float32, got {got}")
    if numbers.shape != shape:
        raise ValueError(f"{where}: expected {wanted}, got shape {numbers.shape}")
    if not np.isfinite(numbers).all():
        at = int(np.argmin(np.isfinite(numbers)))
        raise NonFiniteError(f"{where}: number {at} is {numbers[at]}")


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
