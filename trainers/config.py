"""`PPOConfig`: every hyper-parameter of the trainer, with the names that CleanRL and the ENN trainer use."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from ..envs.errors import one_of
from ..suggestions import KnownOptions

_POSITIVE = (
    *("total_timesteps", "num_steps", "minibatch_size", "microbatch_size", "update_epochs", "learning_rate"),
    *("adam_eps", "clip_coef", "max_grad_norm", "target_kl", "checkpoint_interval", "keep_checkpoints"),
    *("num_threads", "start_kl_share"),
)
_NOT_NEGATIVE = ("seed", "weight_decay", "ent_coef", "vf_coef", "value_warmup_steps", "start_kl_coef")
_DEVICE = re.compile(r"auto|cpu|cuda(:\d+)?")
_PRECISIONS = ("float32", "tf32")
_FRACTIONS = ("gamma", "gae_lambda", "start_kl_share")


@dataclass(frozen=True)
class PPOConfig(KnownOptions):
    """Hyper-parameters of `PPO`; the vector environment defines the number of environments.

    The defaults are those of the reference trainer (enn-trainer's TrainConfig, version 4), except
    rollouts of 128 steps instead of 16 and an entropy bonus of 0.01 instead of 0.1, for larger games.

    Raises:
        TypeError, ValueError: a field has the wrong type or is out of its range; the message names it.
    """

    total_timesteps: int = 1_000_000
    """Environment steps to train for, over all environments together."""
    seed: int = 1
    """Seeds the environments, the sampling of actions and the shuffling of minibatches."""

    num_steps: int = 128
    """Steps of each environment per rollout."""
    gamma: float = 0.99
    """Discount factor γ."""
    gae_lambda: float = 0.95
    """λ of generalized advantage estimation."""
    normalize_rewards: bool = False
    """Learn from rewards divided by the running standard deviation of their discounted sum, clipped to ±10;
    logged returns are not divided."""

    learning_rate: float = 1e-3
    """Step size of AdamW."""
    anneal_lr: bool = True
    """Lower the learning rate linearly to 0 over total_timesteps, or the time limit if that is nearer."""
    adam_eps: float = 1e-5
    """ε of AdamW."""
    weight_decay: float = 0.0
    """Decoupled weight decay of AdamW."""
    max_grad_norm: float | None = 2.0
    """Gradients are scaled down to this global norm; None: not at all."""

    minibatch_size: int = 1024
    """Environment steps per gradient step, at most: a rollout is split into equal minibatches."""
    microbatch_size: int | None = None
    """Environment steps per backward pass; gradients of a minibatch add up to the same. None: all at once."""
    update_epochs: int = 3
    """Passes over each rollout."""
    target_kl: float | None = None
    """Stop the passes over a rollout once an epoch's mean approximate KL divergence exceeds this."""

    norm_adv: bool = True
    """Give the advantages of each minibatch mean 0 and standard deviation 1."""
    clip_coef: float = 0.2
    """Probability ratios are clipped to 1 ± this."""
    clip_vloss: bool = True
    """Clip the change of the value estimate to ± clip_coef as well."""
    joint_log_prob: bool = False
    """One ratio per step from the joint log-probability of all its actors, instead of one per actor."""
    ent_coef: float = 0.01
    """Weight of the entropy bonus."""
    anneal_entropy: bool = True
    """Lower the entropy bonus likewise."""
    vf_coef: float = 0.5
    """Weight of the value loss."""

    value_warmup_steps: int = 0
    """Environment steps at the start in which only the value is trained, for a trained policy whose value is
    not. Input statistics stay as they are meanwhile."""
    start_kl_coef: float = 0.0
    """Weight of the penalty for leaving the policy that training starts from."""
    start_kl_share: float = 1.0
    """Share of training over which that weight is annealed linearly to 0."""

    checkpoint_interval: int = 100_000
    """Environment steps between checkpoints; one more is written at the end."""
    keep_checkpoints: int = 3
    """Number of the newest checkpoints to keep."""
    reset_at_checkpoint: bool = False
    """Start new episodes at every checkpoint, which makes a resumed run bit-equal to an uninterrupted one
    even where the environments can't save their state."""
    num_threads: int | None = 1
    """Threads of torch and Numba while collecting and updating; None: as many as this process has cores."""

    device: str = "auto"
    """Device to train on: "cpu", "cuda" or "cuda:1" (the policy is moved there), or "auto": where it is."""
    precision: str = "float32"
    """Of matrix products on a GPU: "float32", or "tf32", which rounds their inputs to 10 bits of mantissa."""

    def __post_init__(self) -> None:
        check_options(self, _POSITIVE, _NOT_NEGATIVE, _FRACTIONS)
        if self.norm_adv and self.minibatch_size == 1:
            raise ValueError(
                "minibatch_size: expected at least 2 with norm_adv, got 1: a single advantage is normalized"
                " to 0. Use norm_adv=False"
            )
        one_of("precision", self.precision, _PRECISIONS)


def check_options(
    config: Any, positive: Iterable[str], not_negative: Iterable[str], fractions: Iterable[str]
) -> None:
    """Check the plain types of a dataclass of hyper-parameters, ranges by their names, and the device.

    Raises:
        TypeError, ValueError: a value is of the wrong type or out of range.
    """
    for field in fields(config):
        value = getattr(config, field.name)
        if isinstance(value, np.generic):  # a number of NumPy, which no configuration file holds
            object.__setattr__(config, field.name, value.item())
        _check_type(field.name, getattr(config, field.name), str(field.type))
    for name in positive:
        value = getattr(config, name)
        if value is not None and not value > 0:
            raise ValueError(f"{name}: expected a number above 0, got {value}")
    for name in not_negative:
        if not getattr(config, name) >= 0:
            raise ValueError(f"{name}: expected no number below 0, got {getattr(config, name)}")
    for name in fractions:
        if not 0 <= getattr(config, name) <= 1:
            raise ValueError(f"{name}: expected a number from 0 to 1, got {getattr(config, name)}")
    if not _DEVICE.fullmatch(config.device):
        raise ValueError(f"device: expected 'auto', 'cpu', 'cuda' or 'cuda:<number>', got {config.device!r}")


def _check_type(name: str, value: Any, annotation: str) -> None:
    """`annotation` is the field's type as written in the class: bool, int, float or str, perhaps `| None`."""
    kind = annotation.removesuffix(" | None")
    if value is None and kind != annotation:
        return
    if kind == "bool":
        right = isinstance(value, bool)
    elif kind == "str":
        right = isinstance(value, str)
    elif kind == "int":
        right = isinstance(value, int) and not isinstance(value, bool)
    elif kind != "float":  # a Literal
        return
    else:
        right = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if kind == "float" and isinstance(value, float) and not right:
        raise ValueError(f"{name}: expected a finite number, got {value}")
    if not right:
        raise TypeError(f"{name}: expected {annotation}, got {value!r} ({type(value).__name__})")
