"""The engine's six rewards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from .names import unknown

#: Name -> Java class, in the engine's order. Win and loss are +1 and -1 (-1 for both when they wipe out each
#: other); the others count orders as they are issued: harvesting and returning, producing, attacking.
REWARDS = {
    "win_loss": "WinLoss",
    "gather": "ResourceGather",
    "worker": "ProduceWorker",
    "building": "ProduceBuilding",
    "attack": "Attack",
    "combat_unit": "ProduceCombatUnit",
}

#: The weights of Huang et al. 2021 (Gym-μRTS) and of Zwingenberger 2023.
SHAPED = {"win_loss": 10.0, "gather": 1.0, "worker": 1.0, "building": 0.2, "attack": 1.0, "combat_unit": 4.0}


def weights_array(weights: Mapping[str, float] | Sequence[float] | None) -> NDArray[np.float64]:
    """Weights (6,), in the order of `REWARDS`; None: `SHAPED`; a name that is left out weighs nothing.

    Raises:
        ValueError: an unknown name, another number of weights, or one that is not finite.
    """
    if weights is None:
        weights = SHAPED
    if isinstance(weights, Mapping):
        for name in weights:
            if name not in REWARDS:
                raise ValueError(unknown("reward", name, REWARDS))
        weights = [weights.get(name, 0.0) for name in REWARDS]
    array = np.asarray(weights, np.float64)
    if array.shape != (len(REWARDS),) or not np.isfinite(array).all():
        raise ValueError(
            f"reward_weights must be {len(REWARDS)} finite numbers ({', '.join(REWARDS)}), not {weights!r}"
        )
    return array
