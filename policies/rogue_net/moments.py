"""From running statistics to what normalises inputs; no torch."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

#: A standard deviation below this part of the mean is rounding of a constant: float32 resolves 6e-8.
_RESOLUTION = 1e-6


def shift_and_scale(
    count: float, mean: NDArray[Any], squares_sum: NDArray[Any]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """s and k, each (F,), of x -> (x - s) k: mean and 1 / standard deviation of `count` rows.

    A feature that never changed is only centred; before two rows were seen, nothing is done.
    """
    if count <= 1:
        return np.zeros(len(mean)), np.ones(len(mean))
    deviation = np.sqrt(squares_sum.astype(np.float64) / (count - 1))
    constant = deviation <= _RESOLUTION * np.abs(mean) + 1e-12
    return mean.astype(np.float64), 1.0 / np.where(constant, 1.0, deviation)
