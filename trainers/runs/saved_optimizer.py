"""A trainer's optimizer and its state in checkpoints, also for one that is assigned after a restore."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor
from torch.optim import Adam, Optimizer

from ...policies import CheckpointError, Policy
from ..learners.optimizer import own_optimizer, set_rate
from .checkpoint import Checkpoint

if TYPE_CHECKING:
    from ..cloning.cloning_config import BehaviorCloningConfig
    from ..config import PPOConfig

#: What Adam and AdamW, which is a subclass, keep for each parameter.
_ADAM = {"step", "exp_avg", "exp_avg_sq"}
_NOT_NEGATIVE = {"step", "exp_avg_sq"}
#: Marks the name of a number that an optimizer keeps.
_NUMBER = ".number"
#: Key of the optimizer's class in a checkpoint's metadata.
OPTIMIZER = "optimizer"


#: The kind of an assigned Adam or AdamW: its state fits the trainer's own, its learning rate does not.
_ASSIGNED_ADAM = "assigned Adam"


def _kind(optimizer: Optimizer) -> str:
    return "Adam" if isinstance(optimizer, Adam) else type(optimizer).__name__


@dataclass(frozen=True, eq=False)
class SavedOptimizer:
    """The checked state of an optimizer in a checkpoint."""

    path: Path
    kind: str | None  # the class, "Adam" for AdamW too, or `_ASSIGNED_ADAM`; None: unknown
    tensors: dict[str, Tensor]  # by "<index of the parameter in the module>/<name>", see `_as_tensor`

    @classmethod
    def of(cls, checkpoint: Checkpoint, policy: Policy) -> SavedOptimizer:
        """Read the state in a checkpoint of `policy`.

        Raises:
            CheckpointError: it is of other parameters, or not one of an optimizer.
        """
        where = f"checkpoint {checkpoint.path}: optimizer state"
        parameters = list(policy.parameters())
        tensors = checkpoint.tensors["optimizer"]
        for key, value in tensors.items():
            index, _, name = key.partition("/")
            if not index.isdecimal() or int(index) >= len(parameters):
                raise CheckpointError(
                    f"checkpoint {checkpoint.path} has {key!r:.100} for {len(parameters)} parameters"
                )
            is_number = name.endswith(_NUMBER)
            wanted = () if is_number or name == "step" else tuple(parameters[int(index)].shape)
            if (is_number or name in _ADAM) and value.shape != wanted:
                raise CheckpointError(f"{where} {key!r}: expected shape {wanted}, got {tuple(value.shape)}")
            if not value.isfinite().all() or (name in _NOT_NEGATIVE and (value < 0).any()):
                least = ", not below 0" if name in _NOT_NEGATIVE else ""
                raise CheckpointError(f"{where} {key!r}: expected finite numbers{least}")
        # Checkpoints of earlier versions do not name the class.
        is_adam = {key.partition("/")[2] for key in tensors} == _ADAM
        kind = checkpoint.metadata.get(OPTIMIZER, "Adam" if is_adam else None)
        return cls(checkpoint.path, kind, tensors)

    def state_for(self, optimizer: Optimizer, policy: Policy, is_own: bool) -> dict[str, Any]:
        """Return the state for `optimizer.load_state_dict`.

        `is_own`: the user has assigned it.

        Raises:
            CheckpointError: it is of another class or of other parameters, or was one that the user assigned.
        """
        where = f"checkpoint {self.path}: optimizer state"
        kind = _kind(optimizer)
        if self.kind not in (None, kind, _ASSIGNED_ADAM if is_own and kind == "Adam" else kind):
            raise CheckpointError(
                f"{where} is of another optimizer: expected {self.kind!r:.50}, got {kind!r}."
                " Assign trainer.optimizer before training goes on"
            )
        groups = optimizer.param_groups
        places = {id(p): place for place, p in enumerate(p for group in groups for p in group["params"])}
        parameters = list(policy.parameters())
        state: dict[int, dict[str, Any]] = {}
        for key, value in self.tensors.items():
            index, _, name = key.partition("/")
            place = places.get(id(parameters[int(index)]))
            if place is None:
                raise CheckpointError(
                    f"{where} {key!r}: expected none, as the optimizer has no such parameter"
                )
            restored = value.item() if name.endswith(_NUMBER) else value.clone()  # which it changes in place
            state.setdefault(place, {})[name.removesuffix(_NUMBER)] = restored
        if isinstance(optimizer, Adam):
            amsgrad = [group["amsgrad"] for group in groups for _ in group["params"]]
            for place, entry in state.items():
                wanted = _ADAM | {"max_exp_avg_sq"} if amsgrad[place] else _ADAM
                if entry.keys() != wanted:
                    names = " and ".join(sorted(wanted))
                    raise CheckpointError(
                        f"{where} of parameter {place}: expected {names}, got {', '.join(entry)}"
                    )
        return {"state": state, "param_groups": optimizer.state_dict()["param_groups"]}


class _Learner(Protocol):
    optimizer: Optimizer


class OwnsOptimizer(ABC):
    """Base of trainers whose optimizer can be replaced, after a checkpoint was restored as well."""

    policy: Policy
    learner: _Learner
    _saved: SavedOptimizer | None = None  # of the restored checkpoint, until the first update
    _misfit: CheckpointError | None = None  # of the present optimizer
    _is_own: bool = False  # the user assigned the optimizer

    @property
    @abstractmethod
    def config(self) -> PPOConfig | BehaviorCloningConfig:
        """The hyper-parameters."""

    @property
    def optimizer(self) -> Optimizer:
        """The learner's optimizer. One that is assigned keeps its learning rates, lowered by `anneal_lr`; in
        another trainer those that it has then.

        To resume a run with an optimizer of your own, assign it before the first update: it gets the state
        in the checkpoint.

        Raises:
            ValueError: it is assigned, and moves no parameter of the policy, or needs a closure.
            CheckpointError: it is assigned, and the restored checkpoint is of another optimizer.
        """
        return self.learner.optimizer

    @optimizer.setter
    def optimizer(self, optimizer: Optimizer) -> None:
        own = optimizer
        if optimizer is not self.learner.optimizer:
            own = own_optimizer(optimizer, self.policy, self.config.learning_rate)
        if self._saved is not None and self._saved.tensors:
            own.load_state_dict(self._saved.state_for(own, self.policy, is_own=True))
        self.learner.optimizer, self._misfit, self._is_own = own, None, True

    def restore_optimizer(self, saved: SavedOptimizer) -> None:
        """Restore the state of the optimizer, or keep it for one that is assigned before the first update."""
        self._saved, self._misfit = saved, None
        try:
            state = saved.state_for(self.optimizer, self.policy, self._is_own)
        except CheckpointError as error:
            self._misfit = error
        else:
            self.optimizer.load_state_dict(state)

    def check_optimizer(self) -> None:
        """Check that training can go on.

        Raises:
            CheckpointError: the restored checkpoint is of another optimizer.
        """
        if self._misfit is not None:
            raise self._misfit

    def saved_optimizer(self) -> tuple[dict[str, Tensor], str | None]:
        """Return the tensors of `SavedOptimizer` at this moment, and its `kind`.

        Raises:
            TypeError: the optimizer keeps something else than tensors and numbers.
        """
        if self._misfit is not None and self._saved is not None:
            return self._saved.tensors, self._saved.kind
        state = self.optimizer.state
        tensors = dict(
            self._as_tensor(f"{index}/{name}", value)
            for index, parameter in enumerate(self.policy.parameters())
            for name, value in state.get(parameter, {}).items()
        )
        kind = _kind(self.optimizer)
        return tensors, _ASSIGNED_ADAM if self._is_own and kind == "Adam" else kind

    def _as_tensor(self, key: str, value: Any) -> tuple[str, Tensor]:
        """Return the name and the tensor of a value in a checkpoint, where a number is a tensor too."""
        if isinstance(value, Tensor):
            return key, value
        if not isinstance(value, bool | int | float):
            raise TypeError(
                f"optimizer: {type(self.optimizer).__name__} keeps {key!r}, a {type(value).__name__}: a"
                " checkpoint can hold tensors and numbers"
            )
        dtype = torch.float64 if isinstance(value, float) else None
        return f"{key}{_NUMBER}", torch.tensor(value, dtype=dtype)

    def learning_rates(self) -> list[float]:
        """Return the rate of each group of parameters at this moment."""
        return [float(group["lr"]) for group in self.optimizer.param_groups]

    def set_learning_rates(self, rates: list[float]) -> None:
        """Continue with the rates of a checkpoint, unless the optimizer has other groups of parameters."""
        if len(rates) == len(self.optimizer.param_groups):
            for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
                set_rate(group, rate)
