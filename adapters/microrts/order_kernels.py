"""Orders, checked and put where the engine reads them."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

_kernel: Any = numba.njit(cache=True, error_model="numpy")


@_kernel
def place_orders(
    orders: NDArray[np.int64],
    offsets: NDArray[np.int64],
    actor_offsets: NDArray[np.int64],
    cells: NDArray[np.int64],
    masks: NDArray[np.bool_],
    components: NDArray[np.int64],
    used: NDArray[np.bool_],
    board: NDArray[np.int32],
) -> bool:
    """Write each lane's orders (n, 7) into `board` (L, height * width, 7), at the actors' cells.

    A lane with no orders orders nothing.

    Args:
        orders, offsets: as they were given, of any number of lanes; all else is the environment's own.
        masks: what the actors may do (A, 78).
        components: where each component's columns start in a mask (8,).
        used: which components count for a kind (6, 7).
        board: all actors' cells are written, and no others.

    Returns:
        whether all orders are allowed; where one is not, `board` is half written.
    """
    if len(offsets) != len(actor_offsets):
        return False
    for lane in range(len(offsets) - 1):
        given = offsets[lane + 1] - offsets[lane]
        num_actors = actor_offsets[lane + 1] - actor_offsets[lane]
        if given and given != num_actors:
            return False
        for k in range(num_actors):
            actor = actor_offsets[lane] + k
            row = board[lane, cells[actor]]
            if not given:
                row[:] = 0
                continue
            order = orders[offsets[lane] + k]
            for component in range(len(row)):
                choice, first = order[component], components[component]
                if not 0 <= choice < components[component + 1] - first:
                    return False
                # The first component is the kind, which has been found to be one before it is looked up.
                if used[order[0], component] and not masks[actor, first + choice]:
                    return False
                row[component] = choice
    return True
