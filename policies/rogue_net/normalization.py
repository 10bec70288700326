"""Input normalization by running statistics, updated only by an explicit call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..inputs.moments import FeatureColumns, Moments, shift_and_scale
from ..kernels.embedding_kernels import CLIP


class InputNorm(nn.Module):
    """x -> clip((x - mean) / std, ±5) per feature, with mean and standard deviation of all rows so far.

    Two sets A and B are joined as in Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for
    computing sample variances" (1979): with δ = mean_B - mean_A and n = n_A + n_B,

        mean = mean_A + δ n_B / n,    S = S_A + S_B + δ² n_A n_B / n,    variance = S / (n - 1).

    The statistics are float64 buffers (`count`, `mean`, `squares_sum`) and travel with the state dict, in
    networks of 16 bits as well. A feature that never changed is only centred; before two rows were seen,
    features are only clipped.

    Where several processes train together, each sets `share`, which returns the moments that all of them
    gave: they update at the same time, and have the same statistics afterwards.
    """

    share: Callable[[Moments | None], list[Moments | None]] | None = None

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
        self.take_in(self.moments([FeatureColumns(values)]) if len(values) else None)
        self.refresh()

    def take_in(self, rows: Moments | None) -> None:
        """Take in rows, None for none, and those that other processes share."""
        for part in [rows] if self.share is None else self.share(rows):
            if part is not None:
                self.join(part)

    def moments(self, parts: Sequence[FeatureColumns]) -> Moments:
        """Of the rows whose features are those of `parts`, one after the other: in one pass over each part.

        Every part has as many rows that count, at least one.
        """
        known = bool(self.count > 0)
        old_mean = self.mean.double().cpu().numpy()
        means, squares, start = [], [], 0
        for part in parts:
            end = start + part.values.shape[1]
            mean, squares_sum = part.moments(old_mean[start:end] if known else part.first())
            means.append(mean)
            squares.append(squares_sum)
            start = end
        return Moments(parts[0].count, np.concatenate(means), np.concatenate(squares))

    def statistics(self) -> Moments | None:
        """Return what was seen so far; None: nothing."""
        if not self.count:
            return None
        return Moments(int(self.count), *self._sums())

    def _sums(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        mean, squares_sum = (tensor.double().cpu().numpy() for tensor in (self.mean, self.squares_sum))
        return mean, squares_sum

    def join(self, rows: Moments) -> None:
        """Take in rows; `forward` computes the same until `refresh`."""
        count, (mean, squares) = float(self.count), self._sums()
        total = count + rows.count
        delta = rows.mean - mean
        added = rows.squares_sum + np.square(delta) * (count * rows.count / total)
        self.count.fill_(total)
        self.squares_sum.copy_(torch.from_numpy(squares + added))
        self.mean.copy_(torch.from_numpy(mean + delta * (rows.count / total)))

    def refresh(self) -> None:
        """Derive shift and scale of `forward` from the statistics."""
        shift, scale = shift_and_scale(float(self.count), *self._sums())
        self.shift.copy_(torch.from_numpy(shift))
        self.scale.copy_(torch.from_numpy(scale))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> InputNorm:
        """Leave the statistics as they are in `half()` and `bfloat16()`: their sums exceed 16 bits."""
        before = {name: getattr(self, name) for name in ("count", "mean", "squares_sum")}
        super()._apply(fn, recurse)
        for name, statistic in before.items():
            converted = getattr(self, name)
            if converted.dtype.itemsize == 2:
                setattr(self, name, statistic.to(converted.device))
        return self

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        super()._load_from_state_dict(*args, **kwargs)
        self.refresh()


def take_in(
    norms: Mapping[str, InputNorm],
    batch: Mapping[str, Sequence[FeatureColumns]],
    features: Mapping[str, Sequence[str]],
) -> None:
    """Update the statistics of each type by its rows in `batch`; `forward` computes the same until `refresh`.

    Args:
        norms: by type.
        batch: by type that occurs, see `InputNorm.moments`.
        features: their names, by type.

    Raises:
        ValueError: a feature is NaN or infinite; no statistic has moved.
    """
    moments = {name: norms[name].moments(parts) for name, parts in batch.items() if name in norms}
    for name, rows in moments.items():
        culprit = rows.first_not_finite()
        if culprit is not None:
            raise ValueError(f"{name}: feature {features[name][culprit]!r} is NaN or infinite in the batch")
    for name, norm in norms.items():
        norm.take_in(moments.get(name))
