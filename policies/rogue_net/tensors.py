"""Arrays and layouts of batches as tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..inputs.actors import FORBIDDEN
from ..inputs.rows import RowLayout, plain

#: `FORBIDDEN` in float16, as of `torch.autocast`: differences to other logits are finite as well.
_FORBIDDEN_HALF = -3e4


def as_tensor(array: NDArray[Any], like: Tensor | None = None, dtype: torch.dtype | None = None) -> Tensor:
    """`array` as a tensor on the device of `like`, without a copy where that is possible."""
    return torch.from_numpy(plain(array)).to(device=None if like is None else like.device, dtype=dtype)


def forbid(logits: Tensor, forbidden: Tensor) -> Tensor:
    """Return `logits` with those that are `forbidden` (bool) so low that their probability is exactly 0."""
    return logits.masked_fill(forbidden, _FORBIDDEN_HALF if logits.dtype == torch.float16 else FORBIDDEN)


def runs_kernels(x: Tensor) -> bool:
    """Return True if Numba kernels can read this tensor's memory."""
    return x.device.type == "cpu" and x.dtype == torch.float32


def steps_of(rows: RowLayout, like: Tensor) -> Tensor:
    """The step of each row (N,) int64, on the device of `like`."""
    return rows.cached(
        ("steps", like.device), lambda: as_tensor(np.repeat(np.arange(len(rows)), rows.lengths), like)
    )


def inverse_lengths(rows: RowLayout, like: Tensor) -> Tensor:
    """1 / rows per step (B,); 1 for a step without rows."""
    return rows.cached(
        ("inverse_lengths", like.device, like.dtype),
        lambda: as_tensor(1.0 / np.maximum(rows.lengths, 1), like, like.dtype),
    )


class PlaceRows(torch.autograd.Function):
    """A permutation of rows: row i of (N, D) goes to row `destination[i]`; backward is torch's gather."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, destination: Tensor) -> Tensor:
        ctx.save_for_backward(destination)
        return torch.empty_like(x).index_copy_(0, destination, x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (destination,) = ctx.saved_tensors
        return gradient.index_select(0, destination), None


def place_rows(x: Tensor, destination: Tensor) -> Tensor:
    return PlaceRows.apply(x, destination)
