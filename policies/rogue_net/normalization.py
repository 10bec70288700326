"""Input normalisation by running statistics, which move only when told to."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

#: Normalised features are clipped to this many standard deviations.
CLIP = 5.0

#: Rows that `update` takes at a time, to keep its float64 copy small.
_CHUNK = 1 << 16

#: A standard deviation below this part of the mean is rounding of a constant: float32 resolves 6e-8.
_RESOLUTION = 1e-6


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
        count, mean = float(self.count), self.mean.double().cpu().numpy()
        squares = self.squares_sum.double().cpu().numpy()
        for start in range(0, len(values), _CHUNK):
            rows = values[start : start + _CHUNK].astype(np.float64)
            rows_mean = rows.mean(0)
            total = count + len(rows)
            delta = rows_mean - mean
            squares = (
                squares + np.square(rows - rows_mean).sum(0) + np.square(delta) * (count * len(rows) / total)
            )
            mean = mean + delta * (len(rows) / total)
            count = total
        self.count.fill_(count)
        self.mean.copy_(torch.from_numpy(mean))
        self.squares_sum.copy_(torch.from_numpy(squares))
        self._refresh()

    def _refresh(self) -> None:
        """Derive what `forward` uses from the statistics."""
        if self.count <= 1:
            self.shift.zero_()
            self.scale.fill_(1.0)
            return
        deviation = torch.sqrt(self.squares_sum / (self.count - 1))
        constant = deviation <= _RESOLUTION * self.mean.abs() + 1e-12
        self.shift.copy_(self.mean)
        self.scale.copy_(torch.where(constant, torch.ones_like(deviation), 1.0 / deviation))

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        super()._load_from_state_dict(*args, **kwargs)
        self._refresh()
