"""`PPO`: Stable-Baselines3's PPO, with the arguments that ragged observations need filled in; its export."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import stable_baselines3
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import (
    VecEnv,
    VecEnvWrapper,
    VecFrameStack,
    VecNormalize,
    VecTransposeImage,
)

from ...envs import EntityVectorEnv
from ...envs.errors import whole_number
from ...policies.rogue_net import RogueNet
from ..runs.checkpoint import (
    CheckpointError,
    checkpoint_paths,
    delete_checkpoint,
    network_metadata,
    write_checkpoint,
)
from .buffer import RaggedRolloutBuffer
from .sb3_policy import RogueNetPolicy
from .vec_env import RaggedVecEnv, make_vec, why_not_ragged

#: The largest minibatch that `PPO` chooses by itself.
_BATCH_SIZE = 2048


def PPO(
    env: VecEnv | EntityVectorEnv,
    *,
    network: RogueNet | None = None,
    n_steps: int = 256,
    batch_size: int | None = None,
    policy_kwargs: dict[str, Any] | None = None,
    device: str = "cpu",
    **options: Any,
) -> stable_baselines3.PPO:
    """`stable_baselines3.PPO` with a `RogueNetPolicy` and a `RaggedRolloutBuffer`.

        model = ez.sb3.PPO(ez.sb3.make_vec("Procgen/bigfish", num_envs=64), policy_kwargs=dict(d_model=32))
        model.learn(1_000_000)

    What comes back is the class of Stable-Baselines3 itself, whose `load` reads what it saves.

    Args:
        env: of `make_vec` or `vec_env`, in wrappers or not; an entity vector environment is put into
            `make_vec`.
        network: the weights and options to start from, copied; of `entitize.PPO`, say.
        n_steps: steps of each environment per rollout.
        batch_size: environment steps per minibatch; None: the most, up to 2,048, that divide a rollout into
            equal parts (nearly equal ones if these had 1,024 steps or less).
        policy_kwargs: options of `RogueNet`, and `optimizer_class` and `optimizer_kwargs`.
        device: of the network. Observations and actions are arrays on the CPU, to which a network of usual
            size is best kept near.
        options: the other arguments of `stable_baselines3.PPO`.

    Raises:
        TypeError: no environment of `make_vec` or `vec_env`, or a wrapper that changes its observations; or
            an unknown option of the network.
        ValueError: options of the network besides `network`, or see `stable_baselines3.PPO`.
    """
    whole_number("PPO: n_steps", n_steps)
    venv = make_vec(env) if isinstance(env, EntityVectorEnv) else _checked_env(env)
    if network is not None:
        if not isinstance(network, RogueNet):
            hint = ""
            if isinstance(network, RogueNetPolicy):
                hint = ". Use its attribute network"
            elif isinstance(network, str | Path):
                hint = ". Load it: entitize.load_policy(folder)"
            raise TypeError(f"PPO: network: expected a RogueNet, got a {type(network).__name__}{hint}")
        given = {name: value for name, value in (policy_kwargs or {}).items() if name in network.config}
        if given:
            raise ValueError(f"network has its own options: remove {', '.join(given)} from policy_kwargs")
        policy_kwargs = {**(policy_kwargs or {}), **network.config}
    model = stable_baselines3.PPO(
        RogueNetPolicy,  # type: ignore[arg-type] # an actor-critic policy in all but its class
        venv,
        n_steps=n_steps,
        batch_size=_minibatch_size(n_steps * venv.num_envs) if batch_size is None else batch_size,
        policy_kwargs=policy_kwargs,
        device=device,
        **{"rollout_buffer_class": RaggedRolloutBuffer, **options},
    )
    if network is not None:
        assert isinstance(model.policy, RogueNetPolicy)
        model.policy.load_network(network)
    return model


def _minibatch_size(rows: int) -> int:
    """Return the size of equal minibatches up to `_BATCH_SIZE`; of nearly equal ones if those are small."""
    count = -(-rows // _BATCH_SIZE)
    equal = next(size for size in range(min(rows, _BATCH_SIZE), 0, -1) if rows % size == 0)
    return equal if 2 * equal > _BATCH_SIZE or count == 1 else -(-rows // count)


def _checked_env(env: Any) -> VecEnv:
    """`env`, once it is sure that a `RogueNetPolicy` can read what it shows."""
    inner = env
    while isinstance(inner, VecEnvWrapper):
        name = type(inner).__name__
        if isinstance(inner, VecNormalize) and inner.norm_obs:
            raise TypeError("RogueNet normalizes its inputs itself: use VecNormalize(venv, norm_obs=False)")
        if isinstance(inner, VecTransposeImage):
            raise TypeError(f"remove {name}: entity environments have no image observations")
        if isinstance(inner, VecFrameStack):
            raise TypeError(
                f"remove {name}: it needs fixed shapes. Give entities features of past steps instead."
            )
        inner = inner.venv
    if isinstance(inner, RaggedVecEnv):
        return env
    hint = ""
    if isinstance(inner, VecEnv) or hasattr(inner, "num_envs"):  # of SuperSuit, say
        hint = f". {why_not_ragged(inner)}"
    elif isinstance(inner, gymnasium.Env):
        lanes = "entitize.vector.ListVectorEnv([make_env] * num_envs)"
        hint = f"; use entitize.sb3.make_vec({lanes}), without a Monitor"
    elif isinstance(inner, str):
        hint = f"; use entitize.sb3.make_vec({inner!r}, num_envs)"
    elif callable(inner):
        hint = f"; use entitize.sb3.make_vec({getattr(inner, '__name__', 'make_env')}, num_envs)"
    raise TypeError(f"PPO needs an environment of entitize.sb3.make_vec or vec_env, got {inner!r}{hint}")


def export_policy(model: BaseAlgorithm | RogueNetPolicy, folder: str | Path) -> Path:
    """Write the network of `model` as safetensors and JSON, to be read by `entitize.load_policy(folder)`.

    Unlike the zip files of Stable-Baselines3 it holds no code that reading it would run. It is the network
    alone: to continue training, use `model.save`.

    Args:
        model: a model with a `RogueNetPolicy`, or that policy.
        folder: where to put `checkpoints/step_<steps>`. Earlier exports in it are deleted: `learn` counts
            steps from 0 again, so the newest export may have fewer steps than they.

    Returns:
        the path of the checkpoint.

    Raises:
        TypeError: `model` has another policy.
        CheckpointError: the system refused to write, or `folder` has checkpoints of a training.
    """
    policy = model.policy if isinstance(model, BaseAlgorithm) else model
    if not isinstance(policy, RogueNetPolicy):
        raise TypeError(f"export_policy: expected a model with a RogueNetPolicy, got {type(policy).__name__}")
    network = policy.network
    step = model.num_timesteps if isinstance(model, BaseAlgorithm) else 0
    tensors = {name: tensor.cpu() for name, tensor in network.state_dict().items()}
    metadata = network_metadata(network)
    folder = Path(folder) / "checkpoints"
    old = checkpoint_paths(folder)
    if any((path / "optimizer.safetensors").exists() for path in old):
        raise CheckpointError(f"export_policy: {folder} has checkpoints of a training. Choose another folder")
    exported = write_checkpoint(folder, step, {"policy": tensors}, metadata)
    for path in old:
        if path != exported:
            delete_checkpoint(path)
    return exported
