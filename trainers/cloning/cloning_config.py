"""`BehaviorCloningConfig`: the hyper-parameters of behaviour cloning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from ...envs.errors import one_of
from ...suggestions import KnownOptions
from ..config import check_options

Illegal = Literal["raise", "drop"]
_POSITIVE = (
    "epochs",
    "minibatch_size",
    "learning_rate",
    "adam_eps",
    "max_grad_norm",
    "patience",
    "num_threads",
)
_NOT_NEGATIVE = ("ent_coef", "vf_coef", "weight_decay", "seed")


@dataclass(frozen=True)
class BehaviorCloningConfig(KnownOptions):
    """The hyper-parameters of `BehaviorCloning`.

    Raises:
        TypeError, ValueError: a value is of the wrong type or out of range.
    """

    epochs: int = 20
    """Passes over the steps to learn from, at most."""
    patience: int | None = 3
    """Stop after so many epochs without a better likelihood of held-out steps; None: never."""
    held_out: float = 0.1
    """Share of the episodes that is held out: not learned from, but evaluated after each epoch."""
    min_return: float | None = None
    """Learn only from episodes with at least this total reward, and hold out only such; None: from all."""
    minibatch_size: int = 2048
    """Steps per gradient step."""
    learning_rate: float = 0.003
    """Of AdamW."""
    anneal_lr: bool = True
    """Lower the learning rate linearly to 0 over all epochs."""
    ent_coef: float = 0.0
    """Weight of the entropy bonus, which keeps a policy from becoming deterministic."""
    vf_coef: float = 0.0
    """Weight of the regression of values on the discounted rewards that followed; 0: none. Squared errors
    count in units of these rewards' variance, so the weight means the same for rewards of any size."""
    gamma: float = 0.99
    """Discount of these rewards."""
    adam_eps: float = 1e-5
    """Of AdamW."""
    weight_decay: float = 0.0
    """Of AdamW."""
    max_grad_norm: float | None = 0.5
    """Gradients are scaled down to this norm; None: not at all."""
    illegal: Illegal = "raise"
    """Handling of recorded actions that are masked: "raise", or "drop" their steps."""
    seed: int = 1
    """Chooses the held-out episodes and the order of steps."""
    num_threads: int | None = 1
    """Threads of torch and Numba; None: as many as this process has cores."""
    device: str = "auto"
    """Device to train on: "cpu", "cuda" or "cuda:1" (the policy is moved there), or "auto": where it is."""

    def __post_init__(self) -> None:
        check_options(self, _POSITIVE, _NOT_NEGATIVE, ("held_out", "gamma"))
        if self.held_out == 1:
            raise ValueError("held_out: expected less than 1, got 1: nothing would be left to learn from")
        one_of("illegal", self.illegal, get_args(Illegal))
