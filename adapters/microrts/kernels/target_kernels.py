"""From the engine's masks to the entities that orders may be aimed at, and back, for all lanes at once.

Shape alphabet: L lanes, A units that may be given orders, T of them that have a target, E actees.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....ragged.compiled import compiled
from ..java.engine import ATTACK_COMPONENT, COMPONENT_SIZES, REACH
from ..java.records import ACTIONS, UNIT

_X, _Y = UNIT.index("x"), UNIT.index("y")

_HARVEST, _RETURN, _ATTACK = (ACTIONS.index(name) for name in ("harvest", "return", "attack"))
#: Where the parameters of harvest, return and attack start in a mask.
_HARVESTS, _RETURNS, _ATTACKS = (
    sum(COMPONENT_SIZES[:place]) for place in (_HARVEST, _RETURN, ATTACK_COMPONENT)
)

#: The kinds of order that are not aimed at an entity, and the components of an order that they use.
UNTARGETED_KINDS = tuple(ACTIONS.index(name) for name in ("none", "move", "produce"))
UNTARGETED_COMPONENTS = (0, 1, 4, 5)
_KINDS = np.array(UNTARGETED_KINDS)
_COMPONENTS = np.array(UNTARGETED_COMPONENTS)


class Selection(NamedTuple):
    """The targets that each of T units may be aimed at, among E actees."""

    rows: NDArray[np.int64]  # the units' places among the actors (T,)
    actees: NDArray[np.int64]  # entity indices (E,)
    actee_cells: NDArray[np.int64]  # (E,)
    offsets: NDArray[np.int64]  # where each lane's rows, actees and pairs of both start (3, L + 1)
    allowed: NDArray[np.bool_]  # the pairs


@compiled
def targeted_order(mask: NDArray[np.bool_], width: int, at: int, target: int) -> tuple[int, int]:
    """Return the order of a unit in the cell `at` to the cell `target`: kind and parameter, or (0, 0).

    Attacking comes before harvesting, and that before returning, should more than one be allowed.

    Args:
        mask: the engine's mask of the unit (78,).
    """
    dx, dy = target % width - at % width, target // width - at // width
    if 0 < max(abs(dx), abs(dy)) <= REACH and mask[_ATTACK]:
        attacked = (dy + REACH) * (2 * REACH + 1) + dx + REACH
        if mask[_ATTACKS + attacked]:
            return _ATTACK, attacked
    if abs(dx) + abs(dy) == 1:
        direction = 2 - dx if dx else 1 + dy
        if mask[_HARVEST] and mask[_HARVESTS + direction]:
            return _HARVEST, direction
        if mask[_RETURN] and mask[_RETURNS + direction]:
            return _RETURN, direction
    return 0, 0


@compiled
def find_targets(
    records: NDArray[np.int32],
    units: NDArray[np.int64],
    unit_offsets: NDArray[np.int64],
    actors: NDArray[np.int64],
    cells: NDArray[np.int64],
    masks: NDArray[np.bool_],
    width: int,
    rows: NDArray[np.int64],
    actees: NDArray[np.int64],
    actee_cells: NDArray[np.int64],
    offsets: NDArray[np.int64],
) -> None:
    """Find the units that have targets, and the entities that are targets.

    Args:
        units: the places of the records of the units that the lanes see, lane by lane; a unit's place in its
            lane is its entity index.
        unit_offsets: what `sort_units` has filled (4, L + 1).
        actors, cells, masks: the units that may be given orders: entity indices (A,), cells (A,), and the
            engine's masks (A, 78).
        rows: room for A; filled with the places in `actors` of those that have a target (T,).
        actees, actee_cells: room for all units seen; filled with the entity indices and cells of the targets
            and of those that have one (E,), in order.
        offsets: filled with where each lane's rows, actees and pairs of both start (3, L + 1).
    """
    is_actee = np.zeros(unit_offsets[:3, -1].sum(), np.bool_)
    offsets[:, 0] = 0
    num_rows = num_actees = first = 0
    for lane in range(unit_offsets.shape[1] - 1):
        last = unit_offsets[:3, lane + 1].sum()
        for actor in range(unit_offsets[3, lane], unit_offsets[3, lane + 1]):
            mask = masks[actor]
            if not (mask[_HARVEST] or mask[_RETURN] or mask[_ATTACK]):
                continue
            has_target = False
            for place in range(first, last):
                cell = _cell(records, units[place], width)
                if targeted_order(mask, width, cells[actor], cell)[0]:
                    is_actee[place] = has_target = True
            if has_target:
                is_actee[first + actors[actor]] = True
                rows[num_rows] = actor
                num_rows += 1
        for place in range(first, last):
            if is_actee[place]:
                actees[num_actees] = place - first
                actee_cells[num_actees] = _cell(records, units[place], width)
                num_actees += 1
        offsets[0, lane + 1], offsets[1, lane + 1] = num_rows, num_actees
        pairs = (num_rows - offsets[0, lane]) * (num_actees - offsets[1, lane])
        offsets[2, lane + 1] = offsets[2, lane] + pairs
        first = last


@compiled
def _cell(records: NDArray[np.int32], unit: int, width: int) -> int:
    return records[unit + _Y] * width + records[unit + _X]


@compiled
def fill_target_masks(
    cells: NDArray[np.int64],
    masks: NDArray[np.bool_],
    width: int,
    rows: NDArray[np.int64],
    actee_cells: NDArray[np.int64],
    offsets: NDArray[np.int64],
    allowed: NDArray[np.bool_],
) -> None:
    """Write the allowed targets of each unit, itself included, into `allowed` (sum of T x E per lane,)."""
    pair = 0
    for lane in range(offsets.shape[1] - 1):
        for k in range(offsets[0, lane], offsets[0, lane + 1]):
            at, mask = cells[rows[k]], masks[rows[k]]
            for e in range(offsets[1, lane], offsets[1, lane + 1]):
                target = actee_cells[e]
                allowed[pair] = target == at or targeted_order(mask, width, at, target)[0] != 0
                pair += 1


@compiled
def widen_orders(orders: NDArray[np.int64], wide: NDArray[np.int64]) -> None:
    """Orders of the untargeted kinds (n, 4) as the engine takes them, into zeroed rows (n, 7).

    A kind that there is not becomes -1.
    """
    for k in range(len(orders)):
        for component in range(orders.shape[1]):
            wide[k, _COMPONENTS[component]] = orders[k, component]
        kind = orders[k, 0]
        wide[k, 0] = _KINDS[kind] if 0 <= kind < len(_KINDS) else -1


@compiled
def place_targets(
    targets: NDArray[np.int64],
    target_offsets: NDArray[np.int64],
    cells: NDArray[np.int64],
    masks: NDArray[np.bool_],
    width: int,
    selection: Selection,
    actor_offsets: NDArray[np.int64],
    order_rows: NDArray[np.int32],
) -> bool:
    """Write the orders that follow from the entities chosen over those in `order_rows`
    (L, 1 + height * width, 8), which `place_orders` has filled.

    Who chose itself keeps the order that is there, and so does a lane without choices.

    Returns:
        whether all choices are allowed; where one is not, `order_rows` is half written.
    """
    rows, actees, actee_cells, offsets, allowed = selection
    for lane in range(len(target_offsets) - 1):
        given = target_offsets[lane + 1] - target_offsets[lane]
        if given and given != offsets[0, lane + 1] - offsets[0, lane]:
            return False
        first, count = offsets[1, lane], offsets[1, lane + 1] - offsets[1, lane]
        for k in range(given):
            chosen, column = targets[target_offsets[lane] + k], 0
            while column < count and actees[first + column] != chosen:
                column += 1
            if column == count or not allowed[offsets[2, lane] + k * count + column]:
                return False
            actor = rows[offsets[0, lane] + k]
            kind, parameter = targeted_order(masks[actor], width, cells[actor], actee_cells[first + column])
            if kind:
                order = order_rows[lane, 1 + actor - actor_offsets[lane], 1:]
                order[:] = 0
                order[0] = kind
                order[ATTACK_COMPONENT if kind == _ATTACK else kind] = parameter
    return True
