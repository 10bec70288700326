"""Checks that a policy can be trained in an environment."""

from __future__ import annotations

from gymnasium.vector import AutoresetMode
from torch import nn

from ..envs import EntityVectorEnv
from ..policies.policy import Policy


def checked_module(policy: Policy, venv: EntityVectorEnv) -> nn.Module:
    """`policy` as a module, once it is sure that it fits `venv`.

    Raises:
        TypeError: it is no module or no `Policy`.
        ValueError: its actions are not those of `venv`, or `venv` doesn't reset in the step that ends an
            episode.
    """
    if not isinstance(policy, nn.Module):
        raise TypeError(f"policy must be an nn.Module, got {type(policy).__name__}")
    if not isinstance(policy, Policy):
        raise TypeError(f"{type(policy).__name__} lacks methods or attributes of Policy")
    if policy.action_space != venv.single_action_space:
        raise ValueError(
            f"the policy's actions are {policy.action_space}, the environments' {venv.single_action_space}"
        )
    mode = venv.metadata.get("autoreset_mode")
    if mode != AutoresetMode.SAME_STEP:
        raise ValueError(
            f"PPO needs autoreset mode SAME_STEP, {type(venv).__name__} has {mode}: it holds an engine that"
            " resets by itself, as gymnasium.make_vec takes it where there is one. Make single environments"
            " for ez.wrap_vec: gymnasium.make_vec(…, vectorization_mode='sync'), or 'async' (AsyncVectorEnv,"
            " with shared memory)"
        )
    return policy
