"""The engine's six rewards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ....suggestions import nearest_or_known

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


#: By name, or six in the order of `REWARDS`; a name that is left out weighs nothing.
Weights = Mapping[str, float] | Sequence[float]


def weights_array(weights: Weights | None, option: str = "reward_weights") -> NDArray[np.float64]:
    """Weights (6,), in the order of `REWARDS`; None: `SHAPED`. `option` is what an error calls them.

    Raises:
        ValueError: an unknown name, another number of weights, or one that is not finite.
    """
    if weights is None:
        weights = SHAPED
    if isinstance(weights, Mapping):
        for name in weights:
            if name not in REWARDS:
                raise ValueError(f"MicroRTS has no reward {name!r}{nearest_or_known(name, REWARDS)}")
        weights = [weights.get(name, 0.0) for name in REWARDS]
    try:
        array = np.asarray(weights, np.float64)
    except (TypeError, ValueError):
        array = np.empty(0)
    if array.shape != (len(REWARDS),) or not np.isfinite(array).all():
        raise ValueError(
            f"{option}: expected {len(REWARDS)} finite numbers ({', '.join(REWARDS)}), got {weights!r}"
        )
    return array


def weights_at(fraction: float, first: NDArray[np.float64], last: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weights (6,) that go from `first` to `last` in proportion to the progress of training, 0 to 1.

    Raises:
        ValueError: `fraction` does not lie between 0 and 1.
    """
    if not 0 <= fraction <= 1:
        raise ValueError(f"progress: expected a number from 0 to 1, got {fraction!r}")
    return first + fraction * (last - first)
