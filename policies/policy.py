"""`Policy`: what a trainer asks of a network.

Shape alphabet: B steps, A actors of one action at all steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from ..envs import EntityActionSpace, EntityBatch, EntitySpace
from ..ragged import RaggedArray


@dataclass(frozen=True, eq=False)
class ActResult:
    """The actions chosen at B steps.

    Sequence b of every ragged array belongs to step b and has one item per actor, in the order of
    `batch.actions[name].actors`.
    """

    actions: dict[str, RaggedArray]  # per action (A,) int64: the choice, or the chosen actee's index
    log_probs: dict[str, RaggedArray]  # per action (A,) float32: log-probability of each actor's choice
    values: NDArray[np.float32]  # (B,)


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Given actions under the current parameters, with gradients."""

    log_probs: dict[str, Tensor]  # per action (A,), flat in the order of the actors
    entropies: dict[str, Tensor]  # per action (A,), in nats, over the allowed choices
    values: Tensor  # (B,)


@runtime_checkable
class Policy(Protocol):
    """An `nn.Module` that acts on entity batches; any object with these members can be trained."""

    observation_space: EntitySpace
    action_space: EntityActionSpace
    config: dict[str, Any]  # constructor options, JSON-able, for checkpoints

    def act(self, batch: EntityBatch, rng: np.random.Generator, deterministic: bool = False) -> ActResult:
        """Choose an action for every actor, without gradients.

        All randomness comes from `rng`, so equal generators give equal actions; `deterministic` takes the
        most probable choice (the first of equals) and draws nothing.
        """
        ...

    def value(self, batch: EntityBatch) -> NDArray[np.float32]:
        """Predicted return of each step (B,), without gradients."""
        ...

    def evaluate(self, batch: EntityBatch, actions: Mapping[str, RaggedArray]) -> Evaluation:
        """Log-probabilities, entropies and values of `actions` taken at `batch`, with gradients."""
        ...

    def update_normalization(self, batch: EntityBatch) -> None:
        """Move the input statistics by `batch`: once per collected batch, by the trainer; never elsewhere."""
        ...

    # What a trainer uses of `nn.Module`.
    def parameters(self, recurse: bool = True) -> Iterator[nn.Parameter]: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> Any: ...
    def train(self, mode: bool = True) -> Any: ...
