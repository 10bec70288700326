"""Numba kernels that all action heads share: rows of actors into tiles, and gradients back to these rows.

Tiles are feature-major, see `tiles`; here their columns are the actors of one action, `TILE` at a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ragged.compiled import compiled
from ...inputs.actors import FORBIDDEN
from .simd import kernel, splat, where_positive
from .tile_kernels import copy_floats, rows_to_tile, tile_to_rows

_ONE = np.float32(1.0)
_FORBIDDEN = np.float32(-FORBIDDEN)

#: Actors of a tile.
TILE = 128


def up_to_4(number: int) -> int:
    """The next multiple of 4: the rows that `outer_sums` touches."""
    return -(-number // 4) * 4


@compiled(cache=False, forceinline=True)
def lowered(flag: Any, logit: Any) -> Any:
    """`logit` where `flag` is 1 and -1e9 where it is 0, per lane.

    Two selections, because of a sum of products LLVM may make (logit + 1e9) flag - 1e9, which rounds.
    """
    return where_positive(flag, logit) - where_positive(splat(_ONE) - flag, splat(_FORBIDDEN))


@kernel
def take_rows(
    x: Any, rows: Any, start: int, count: int, d: int, s: Any, line: int, tile: int, stride: int
) -> None:
    """tile[:, i] = x[rows[start + i]] for i < count, of rows (N * d,); `line`: scratch of count * d."""
    for i in range(count):
        copy_floats(x, rows[start + i] * d, s, line + i * d, d)
    rows_to_tile(s[line:], 0, count, d, s, tile, stride)


@kernel
def give_rows(
    x: Any, rows: Any, start: int, count: int, d: int, s: Any, line: int, tile: int, stride: int
) -> None:
    """x[rows[start + i]] += tile[:, i] for i < count; arguments as in `take_rows`."""
    tile_to_rows(s, tile, stride, s[line:], 0, count, d)
    for i in range(count):
        row, place = rows[start + i] * d, line + i * d
        for m in range(d):
            x[row + m] += s[place + m]
