"""Numba kernels that all action heads share: rows of actors into tiles, and gradients back to these rows.

Tiles are feature-major (see `matrices.Tile`); here their columns are the actors of one action, `TILE` at a
time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...inputs.actors import FORBIDDEN
from .simd import inlined, kernel, splat, where_positive
from .tile_kernels import copy_floats, rows_to_tile, tile_to_rows

_ONE = np.float32(1.0)
_FORBIDDEN = np.float32(-FORBIDDEN)

#: Actors of a tile.
TILE = 128


@inlined
def masked_logit(flag: Any, logit: Any) -> Any:
    """Return `logit` where `flag` is 1 and -1e9 where it is 0, per lane.

    Two selections, because of a sum of products LLVM may make (logit + 1e9) flag - 1e9, which rounds.
    """
    return where_positive(flag, logit) - where_positive(splat(_ONE) - flag, splat(_FORBIDDEN))


@kernel
def gather_rows(x: Any, rows: Any, start: int, count: int, d: int, line: Any, tile: Any) -> None:
    """tile[:, i] = x[rows[start + i]] for i < count, of rows x (N * d,); `line`: scratch of count * d."""
    for i in range(count):
        copy_floats(x, rows[start + i] * d, line.data, line.start + i * d, d)
    rows_to_tile(line.data[line.start :], 0, count, d, tile)


@kernel
def scatter_add_rows(tile: Any, x: Any, rows: Any, start: int, count: int, d: int, line: Any) -> None:
    """x[rows[start + i]] += tile[:, i] for i < count; arguments as in `gather_rows`."""
    tile_to_rows(tile, line.data[line.start :], 0, count, d)
    for i in range(count):
        row, place = rows[start + i] * d, line.start + i * d
        for m in range(d):
            x[row + m] += line.data[place + m]


@inlined
def draw_one(
    allowed: Any, flag: int, next_flag: int, s: Any, score: int, probability: int, stride: int, size: int,
    draw: float,
) -> int:  # fmt: skip
    """Return which of `size` items `draw` in [0, 1) stands for; -1 where none is allowed.

    A negative draw stands for the most probable item, the first of equals.

    Item c is allowed if allowed[flag + c * next_flag] is above 0; its score is s[score + c * stride], and its
    probability s[probability + c * stride].
    """
    best = -1
    for c in range(size):
        if allowed[flag + c * next_flag] > 0 and (
            best < 0 or s[score + c * stride] > s[score + best * stride]
        ):
            best = c
    if draw < 0.0 or best < 0:
        return best
    reached = 0.0
    for c in range(size):
        if allowed[flag + c * next_flag] > 0:
            reached += s[probability + c * stride]
            if reached > draw:
                return c
    return best
