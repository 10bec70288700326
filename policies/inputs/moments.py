"""Mean and standard deviation of a batch's features, and from running statistics shift and scale; no torch.

Shape alphabet: N rows, F features.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...ragged.compiled import compiled

#: A standard deviation below this part of the mean is rounding of a constant: float32 resolves 6e-8.
_RESOLUTION = 1e-6


@dataclass(frozen=True, eq=False)
class FeatureColumns:
    """Neighbouring features of N rows, as they lie in a batch."""

    values: NDArray[np.floating[Any]]  # (N, F)
    times: NDArray[np.int64] | None = None  # (N,), how often each row counts; None: once

    @property
    def count(self) -> int:
        return len(self.values) if self.times is None else int(self.times.sum())

    def first(self) -> NDArray[np.float64]:
        """Return the first row that counts (F,)."""
        row = 0 if self.times is None else int(np.argmax(self.times > 0))
        return self.values[row].astype(np.float64)

    def moments(self, near: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return mean and sum of squared deviations from it, each (F,), by deviations from `near` (F,).

        Deviations from numbers near the mean lose nothing to rounding when they are squared.
        """
        values = np.ascontiguousarray(self.values)  # no copy, but where features were selected by name
        if self.times is None:
            return _moments(values, near)
        return _repeated_moments(values, self.times, near)


@dataclass(frozen=True, eq=False)
class Moments:
    """Count, mean and sum of squared deviations from the mean of some rows, each (F,) float64."""

    count: int
    mean: NDArray[np.float64]
    squares_sum: NDArray[np.float64]

    def first_not_finite(self) -> int | None:
        """Return the first feature that is NaN or infinite in any of the rows; None: all are finite.

        float64 can hold the sum of squares of any float32.
        """
        finite = np.isfinite(self.mean) & np.isfinite(self.squares_sum)
        return None if finite.all() else int(np.argmin(finite))


@compiled(nogil=True)
def _moments(values, near):  # type: ignore[no-untyped-def]
    count, num_features = values.shape
    sums = np.zeros(num_features)
    squares = np.zeros(num_features)
    for row in range(count):
        for feature in range(num_features):
            deviation = values[row, feature] - near[feature]
            sums[feature] += deviation
            squares[feature] += deviation * deviation
    return _centred(count, sums, squares, near)


@compiled(nogil=True)
def _repeated_moments(values, times, near):  # type: ignore[no-untyped-def]
    num_features = values.shape[1]
    count = 0
    sums = np.zeros(num_features)
    squares = np.zeros(num_features)
    for row in range(values.shape[0]):
        if times[row] == 0:
            continue
        count += times[row]
        for feature in range(num_features):
            deviation = values[row, feature] - near[feature]
            sums[feature] += times[row] * deviation
            squares[feature] += times[row] * (deviation * deviation)
    return _centred(count, sums, squares, near)


@compiled(nogil=True)
def _centred(count, sums, squares, near):  # type: ignore[no-untyped-def]
    mean = np.empty_like(near)
    for feature in range(len(near)):
        mean[feature] = near[feature] + sums[feature] / count
        squares[feature] -= sums[feature] * sums[feature] / count
        if squares[feature] < 0.0:  # by rounding
            squares[feature] = 0.0
    return mean, squares


def shift_and_scale(
    count: float, mean: NDArray[Any], squares_sum: NDArray[Any]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return s and k, each (F,), of x -> (x - s) k: mean and 1 / standard deviation of `count` rows.

    A feature that never changed is only centred; before two rows were seen, nothing is done.
    """
    if count <= 1:
        return np.zeros(len(mean)), np.ones(len(mean))
    deviation = np.sqrt(squares_sum.astype(np.float64) / (count - 1))
    constant = deviation <= _RESOLUTION * np.abs(mean) + 1e-12
    return mean.astype(np.float64), 1.0 / np.where(constant, 1.0, deviation)
