"""Input normalisation by running statistics, which move only when told to."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray
from torch import Tensor, nn

from .embedding_kernels import CLIP
from .moments import shift_and_scale


@njit(cache=True, nogil=True)
def _moments(
    values: NDArray[np.floating[Any]], near: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Sums over the rows of values - near, and of its squares, each (F,): one pass, no copy of `values`."""
    sums = np.zeros(values.shape[1])
    sums_of_squares = np.zeros(values.shape[1])
    for row in range(values.shape[0]):
        for feature in range(values.shape[1]):
            deviation = values[row, feature] - near[feature]
            sums[feature] += deviation
            sums_of_squares[feature] += deviation * deviation
    return sums, sums_of_squares


class InputNorm(nn.Module):
    """x -> clip((x - mean) / std, ±5) per feature, with the mean and the deviation of all rows seen so far.

    Two sets A and B are joined as in Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for
    computing sample variances" (1979): with δ = mean_B - mean_A and n = n_A + n_B,

        mean = mean_A + δ n_B / n,    S = S_A + S_B + δ² n_A n_B / n,    variance = S / (n - 1).

    The statistics are float64 buffers (`count`, `mean`, `squares_sum`) and travel with the state dict. A
    feature that never changed is only centred; before two rows were seen, features are only clipped.
    """

    count: Tensor  # () float64
    mean: Tensor  # (F,) float64
    squares_sum: Tensor  # (F,) float64: sum of squared deviations from the mean
    shift: Tensor  # (F,) in the network's dtype
    scale: Tensor  # (F,) in the network's dtype

    def __init__(self, num_features: int) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(num_features, dtype=torch.float64))
        self.register_buffer("squares_sum", torch.zeros(num_features, dtype=torch.float64))
        self.register_buffer("shift", torch.zeros(num_features), persistent=False)
        self.register_buffer("scale", torch.ones(num_features), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """(N, F) to (N, F); no gradient flows to the input."""
        return (x - self.shift).mul_(self.scale).clamp_(-CLIP, CLIP)

    def update(self, values: NDArray[np.floating[Any]]) -> None:
        """Take in the rows of `values` (N, F), which must be finite."""
        self.accumulate(values)
        self.refresh()

    def accumulate(self, values: NDArray[np.floating[Any]]) -> None:
        """As `update`, but what `forward` does stays the same until `refresh`."""
        if not len(values):
            return
        count, mean = float(self.count), self.mean.double().cpu().numpy()
        squares = self.squares_sum.double().cpu().numpy()
        # Deviations from a number near the mean lose nothing to rounding when they are squared.
        near = mean if count else values[0].astype(np.float64)
        sums, sums_of_squares = _moments(np.ascontiguousarray(values), near)
        total = count + len(values)
        rows_mean = near + sums / len(values)
        delta = rows_mean - mean
        squares += np.maximum(sums_of_squares - np.square(sums) / len(values), 0.0)
        squares += np.square(delta) * (count * len(values) / total)
        mean = mean + delta * (len(values) / total)
        count = total
        self.count.fill_(count)
        self.mean.copy_(torch.from_numpy(mean))
        self.squares_sum.copy_(torch.from_numpy(squares))

    def refresh(self) -> None:
        """Derive what `forward` uses from the statistics."""
        mean, squares_sum = (tensor.double().cpu().numpy() for tensor in (self.mean, self.squares_sum))
        shift, scale = shift_and_scale(float(self.count), mean, squares_sum)
        self.shift.copy_(torch.from_numpy(shift))
        self.scale.copy_(torch.from_numpy(scale))

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        super()._load_from_state_dict(*args, **kwargs)
        self.refresh()
