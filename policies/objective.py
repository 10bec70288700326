"""`Objective`: a loss that a policy can be told of, to compute it with its gradients in one go.

Shape alphabet: B steps, A actors of one action.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ..envs import EntityBatch
from ..ragged import RaggedArray


@dataclass(frozen=True, eq=False)
class Objective:
    """PPO's loss where every actor is a unit, as `trainers.learners.losses.ppo_losses` has it."""

    log_probs: Mapping[str, RaggedArray]  # per action (A,), when the action was taken
    values: NDArray[np.float32]  # (B,), when the action was taken
    advantages: NDArray[np.float32]  # (B,)
    returns: NDArray[np.float32]  # (B,)
    clip_coef: float
    clips_values: bool
    ent_coef: float
    vf_coef: float
    units: int  # what means are taken over, which may be more than there is at hand
    steps: int


@runtime_checkable
class ObjectivePolicy(Protocol):
    """What a policy may offer besides: all of a gradient step but the optimizer's part."""

    def learn_arrays(
        self, batch: EntityBatch, actions: Mapping[str, RaggedArray], objective: Objective
    ) -> NDArray[np.float64] | None:
        """Add the gradients of the parameters to their `grad`; returns the sums (6,) of `loss_kernels`.

        None where it has not been done, and `evaluate_arrays` or `evaluate` are to be asked.

        Raises:
            ValueError: as `Policy.evaluate`; no `grad` has changed.
        """
        ...
