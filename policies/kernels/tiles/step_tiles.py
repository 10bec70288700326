"""Runs of whole steps that fit in a tile, side by side.

Attention is within steps, so a tile always holds whole ones; a step that is longer than a tile has a wider
tile of its own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .matrices import up_to_16
from .simd import LANES, inlined, larger


class StepRange(NamedTuple):
    """Steps first to last of a batch, to be done in tiles of up to `capacity` rows."""

    offsets: NDArray[np.int64]  # (B + 1,): where the rows of each step start
    first: int
    last: int  # behind the last step
    capacity: int


class StepTile(NamedTuple):
    """Steps whose rows are the columns of feature-major tiles."""

    offsets: NDArray[np.int64]  # (B + 1,): where the rows of each step start
    first: int  # the first step
    end: int  # behind the last step
    row: int  # the row of the first column
    rows: int
    columns: int  # rows, rounded up to a multiple of 16
    stride: int  # from one line of a tile to the next


def tile_capacity(longest: int, d_model: int) -> int:
    """Return the rows of a tile: enough for the longest step, and small enough for the L2 cache."""
    wanted = 256 if d_model <= 32 else 128
    return max(wanted, int(up_to_16(longest)))


@inlined
def step_tile(steps: Any, first: int) -> StepTile:
    """Return the longest run of steps from `first` that fits in a tile; at least one step."""
    offsets = steps.offsets
    end = first + 1
    while end < steps.last and offsets[end + 1] - offsets[first] <= steps.capacity:
        end += 1
    rows = offsets[end] - offsets[first]
    columns = up_to_16(rows)
    stride = larger(steps.capacity, columns) + LANES
    return StepTile(offsets, first, end, offsets[first], rows, columns, stride)
