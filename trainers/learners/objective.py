"""`Objective`: PPO's loss as the one-pass kernels read it. Shape alphabet: B steps, A actors of an action."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...ragged import RaggedArray


@dataclass(frozen=True, eq=False)
class Objective:
    """PPO's loss where every actor is a unit, as `losses.ppo_losses` defines it."""

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
