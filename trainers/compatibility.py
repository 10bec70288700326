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
        raise TypeError(f"policy: expected an nn.Module, got {type(policy).__name__}")
    if not isinstance(policy, Policy):
        raise TypeError(f"policy: {type(policy).__name__} lacks methods or attributes of Policy")
    if policy.action_space != venv.single_action_space:
        raise ValueError(
            f"the policy's actions: expected those of the environments, {venv.single_action_space},"
            f" got {policy.action_space}"
        )
    mode = venv.metadata.get("autoreset_mode")
    if mode != AutoresetMode.SAME_STEP:
        raise ValueError(
            f"PPO: autoreset mode of {type(venv).__name__}: expected SAME_STEP, got {mode}. The mode of a"
            " native vector environment cannot be changed. Wrap single environments: ez.wrap_vec("
            "gymnasium.make_vec(…, vectorization_mode='sync')), or 'async' (AsyncVectorEnv, with shared"
            " memory)."
        )
    return policy
