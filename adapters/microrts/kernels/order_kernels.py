"""Layout of an order (the engine's word for an action); checking orders and writing them for the engine."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ....envs import MultiCategorical
from ....ragged.compiled import compiled
from ..features import ATTACKED, DIRECTIONS
from ..java.engine import COMPONENT_SIZES
from ..java.records import ACTIONS, UNIT_TYPES


def order_space() -> MultiCategorical:
    """A unit's order: its kind, and what the kind needs to know."""
    space = MultiCategorical(
        {
            "kind": ACTIONS,
            "move": DIRECTIONS,
            "harvest": DIRECTIONS,
            "return": DIRECTIONS,
            "produce": DIRECTIONS,
            "produce_type": UNIT_TYPES,
            "attack": ATTACKED,
        },
        uses={
            "move": ["move"],
            "harvest": ["harvest"],
            "return": ["return"],
            "produce": ["produce", "produce_type"],
            "attack": ["attack"],
        },
    )
    assert tuple(space.sizes) == COMPONENT_SIZES
    return space


# Constants of the kernel, which cost nothing at a call: where each component's columns start in a mask (8,),
# and which components count for a kind (6, 7).
_COMPONENTS, _USED = order_space().offsets, order_space().used


@compiled
def place_orders(
    orders: NDArray[np.int64],
    offsets: NDArray[np.int64],
    actor_offsets: NDArray[np.int64],
    cells: NDArray[np.int64],
    masks: NDArray[np.bool_],
    rows: NDArray[np.int32],
) -> bool:
    """Write each lane's orders (n, 7) where the engine reads them.

    A lane with no orders lets all its actors wait.

    Args:
        orders, offsets: as they were given, of any number of lanes; all else is the environment's own.
        masks: what the actors may do (A, 78).
        rows: int32 (L, 1 + height * width, 8), of which a lane's first begins with the number of its actors,
            and each of the next has an actor's cell and order.

    Returns:
        whether all orders are allowed; where one is not, `rows` is half written.
    """
    if len(offsets) != len(actor_offsets):
        return False
    for lane in range(len(offsets) - 1):
        given = offsets[lane + 1] - offsets[lane]
        num_actors = actor_offsets[lane + 1] - actor_offsets[lane]
        if given and given != num_actors:
            return False
        rows[lane, 0, 0] = num_actors
        for k in range(num_actors):
            actor = actor_offsets[lane] + k
            row = rows[lane, 1 + k]
            row[0] = cells[actor]
            if not given:
                row[1:] = 0
                continue
            order = orders[offsets[lane] + k]
            for component in range(len(row) - 1):
                choice, first = order[component], _COMPONENTS[component]
                if not 0 <= choice < _COMPONENTS[component + 1] - first:
                    return False
                # The first component is the kind, which has been found to be one before it is looked up.
                if _USED[order[0], component] and not masks[actor, first + choice]:
                    return False
                row[1 + component] = choice
    return True
