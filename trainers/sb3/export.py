"""Networks out of Stable-Baselines3 into safetensors, which nobody has to trust."""

from __future__ import annotations

from pathlib import Path

from stable_baselines3.common.base_class import BaseAlgorithm

from ...envs.spaces.space_schema import space_schema
from ..runs.checkpoint import write_checkpoint
from .sb3_policy import RogueNetPolicy


def export_policy(model: BaseAlgorithm | RogueNetPolicy, folder: str | Path) -> Path:
    """Write the network of `model` as safetensors and JSON, to be read by `entitize.load_policy(folder)`.

    Unlike the zip files of Stable-Baselines3 it holds no code that reading it would run. It is the network
    alone: to go on with training, use `model.save`.

    Args:
        model: a model with a `RogueNetPolicy`, or that policy.
        folder: where to put `checkpoints/step_<steps>`; an export of the same step is replaced.

    Returns:
        the path of the checkpoint.

    Raises:
        TypeError: `model` has another policy.
        CheckpointError: the system refused to write.
    """
    policy = model.policy if isinstance(model, BaseAlgorithm) else model
    if not isinstance(policy, RogueNetPolicy):
        raise TypeError(f"export_policy: expected a model with a RogueNetPolicy, got {type(policy).__name__}")
    network = policy.network
    metadata = {
        "spaces": space_schema(network.observation_space),
        "policy": {"class": type(network).__name__, "config": network.config},
    }
    step = model.num_timesteps if isinstance(model, BaseAlgorithm) else 0
    tensors = {name: tensor.cpu() for name, tensor in network.state_dict().items()}
    return write_checkpoint(Path(folder) / "checkpoints", step, {"policy": tensors}, metadata)
