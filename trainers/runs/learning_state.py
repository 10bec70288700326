"""The state in a checkpoint that every trainer has: policy, optimizer, generator."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from torch import Tensor, nn
from torch.optim import Adam, Optimizer

from ...envs.spaces.space_schema import schema_difference, space_schema
from ...policies.checkpoint import check_weights
from ...policies.policy import Policy
from ...policies.rogue_net import RogueNet
from ...policies.rogue_net.config import RogueNetConfig, engine_of
from .checkpoint import Checkpoint, CheckpointError

#: What Adam and AdamW, which is a subclass, keep for each parameter.
_ADAM = {"step", "exp_avg", "exp_avg_sq"}
_NOT_NEGATIVE = {"step", "exp_avg_sq"}


class Learning(Protocol):
    """Interface of what moves the parameters of a policy: `PPO`, `BehaviorCloning`."""

    policy: Policy
    module: nn.Module

    @property
    def optimizer(self) -> Optimizer:
        """The optimizer of the policy's parameters."""
        ...


def check_policy(trainer: Learning, checkpoint: Checkpoint) -> None:
    """Check that a checkpoint is of the policy of `trainer`.

    Raises:
        CheckpointError: it is of another network or other spaces.
    """
    theirs = checkpoint.metadata["spaces"]
    difference = schema_difference(space_schema(trainer.policy.observation_space), theirs)
    if difference:
        raise CheckpointError(f"checkpoint {checkpoint.path} is for other spaces: {difference}")
    saved = checkpoint.metadata["policy"]
    ours = {"class": type(trainer.policy).__name__, **json.loads(json.dumps(trainer.policy.config))}
    # A checkpoint lacks options that were added after it was written: they have their defaults.
    defaults = RogueNetConfig().to_dict() if isinstance(trainer.policy, RogueNet) else {}
    theirs = {"class": saved["class"], **defaults, **saved["config"]}
    if "engine" in theirs:
        theirs["engine"] = engine_of(theirs)
    if "attention" in theirs:
        theirs["attention"] = "auto"
    for name in [*ours, *(n for n in theirs if n not in ours)]:
        here, there = (side.get(name, "absent") for side in (ours, theirs))
        if here != there:
            raise CheckpointError(
                f"checkpoint {checkpoint.path} is of another network: {name} is {here} here, {there} there"
            )
    check_weights(trainer.module.state_dict(), checkpoint)


def optimizer_state(trainer: Learning, checkpoint: Checkpoint) -> dict[str, Any]:
    """Return the state of the optimizer in a checkpoint, for its `load_state_dict`.

    Raises:
        CheckpointError: it is of other parameters, or not one of an optimizer.
    """
    where = f"checkpoint {checkpoint.path}: optimizer state"
    parameters = list(trainer.module.parameters())
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in checkpoint.tensors["optimizer"].items():
        index, _, name = key.partition("/")
        if not index.isdecimal() or int(index) >= len(parameters):
            raise CheckpointError(
                f"checkpoint {checkpoint.path} has {key!r:.100} for {len(parameters)} parameters"
            )
        wanted = () if name == "step" else tuple(parameters[int(index)].shape)
        if value.shape != wanted:
            raise CheckpointError(f"{where} {key!r} has shape {tuple(value.shape)}, the parameter {wanted}")
        if not value.isfinite().all() or (name in _NOT_NEGATIVE and (value < 0).any()):
            least = ", not below 0" if name in _NOT_NEGATIVE else ""
            raise CheckpointError(f"{where} {key!r}: expected finite numbers{least}")
        state.setdefault(int(index), {})[name] = value.clone()  # the optimizer works in place
    if isinstance(trainer.optimizer, Adam) and not any(g["amsgrad"] for g in trainer.optimizer.param_groups):
        for number, entry in state.items():
            if entry.keys() != _ADAM:
                names = " and ".join(sorted(_ADAM))
                raise CheckpointError(
                    f"{where} of parameter {number}: expected {names}, got {', '.join(entry)}"
                )
    return {"state": state, "param_groups": trainer.optimizer.state_dict()["param_groups"]}


def rng_of(state: Mapping[str, Any]) -> np.random.Generator:
    """Return a generator in the state that a checkpoint holds.

    Raises:
        ValueError, TypeError, KeyError, OverflowError: it is no state of NumPy's default generator.
    """
    for name, value in (*state.items(), *state["state"].items()):
        if isinstance(value, int) and value < 0:
            raise ValueError(f"rng: {name}: expected no number below 0, got {value}")
    rng = np.random.default_rng()
    rng.bit_generator.state = state
    return rng
