"""`targets="entities"`: attacks, harvests and returns that are aimed at an entity, not at a cell."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...envs import (
    ActionMask,
    EntityActionSpace,
    EntityBatch,
    EntitySpace,
    MultiCategorical,
    SelectEntity,
    validate_actions,
)
from ...envs.batch.batch_actions import are_ragged
from ...envs.vector.vector_env import Actions
from ...ragged import RaggedArray
from .java.engine import ORDER_SIZE, MicroRTSEngine
from .kernels.order_kernels import place_orders
from .kernels.target_kernels import (
    UNTARGETED_COMPONENTS,
    UNTARGETED_KINDS,
    Selection,
    fill_target_masks,
    find_targets,
    place_targets,
    widen_orders,
)
from .perspective import Perspective


def entity_actions(order: MultiCategorical) -> EntityActionSpace:
    """The actions `order`, with the kinds that are not aimed at an entity, and `target`.

    Args:
        order: the whole order, as the engine takes it.
    """
    components = {order.names[k]: order.components[order.names[k]] for k in UNTARGETED_COMPONENTS}
    kinds = tuple(order.kinds[k] for k in UNTARGETED_KINDS)
    components[order.names[0]] = kinds
    short = MultiCategorical(components, {kind: order.uses[kind] for kind in kinds})
    return EntityActionSpace({"order": short, "target": SelectEntity()}, optional=True)


class EntityTargets:
    """Makes the two actions of an engine's units out of their orders, and orders out of the two actions.

    Args:
        space: what a lane sees, with the actions of `entity_actions(order)`.
        order: the whole order, as the engine takes it.
        perspective: turns the orders that are given; None: they are as on the board.
    """

    def __init__(
        self,
        engine: MicroRTSEngine,
        space: EntitySpace,
        order: MultiCategorical,
        perspective: Perspective | None = None,
    ) -> None:
        self._perspective = perspective
        self._engine = engine
        self._space = space
        self._width = engine.width
        bounds = order.offsets
        columns = [np.arange(bounds[k], bounds[k + 1]) for k in UNTARGETED_COMPONENTS]
        columns[0] = np.array(UNTARGETED_KINDS)
        self._columns = np.concatenate(columns)
        self._cells = np.zeros(0, np.int64)
        self._masks = np.zeros((0, order.num_choices), bool)
        self._selection: Selection | None = None

    def actions(
        self,
        order: ActionMask,
        cells: NDArray[np.int64],
        units: NDArray[np.int64],
        offsets: NDArray[np.int64],
    ) -> dict[str, ActionMask]:
        """The two actions, in fresh arrays; `place` reads actions for the last ones made.

        Args:
            order: the whole order's actors and masks (A, 78).
            cells: the actors' cells (A,).
            units, offsets: what `sort_units` has filled.
        """
        actors, masks, width = order.actors.values, order.mask.values, self._width
        num_seen = int(offsets[:3, -1].sum())
        rows, actees = np.empty(len(actors), np.int64), np.empty(num_seen, np.int64)
        actee_cells, starts = np.empty(num_seen, np.int64), np.empty((3, offsets.shape[1]), np.int64)
        records = self._engine.records
        find_targets(records, units, offsets, actors, cells, masks, width, rows, actees, actee_cells, starts)
        num_rows, num_actees, num_pairs = starts[:, -1].tolist()
        rows, actees, actee_cells = rows[:num_rows], actees[:num_actees], actee_cells[:num_actees]
        allowed = np.empty(num_pairs, bool)
        fill_target_masks(cells, masks, width, rows, actee_cells, starts, allowed)
        self._cells, self._masks = cells, masks
        self._selection = Selection(rows, actees, actee_cells, starts, allowed)
        target = ActionMask(
            RaggedArray.unchecked(actors[rows], starts[0].copy()),
            RaggedArray.unchecked(allowed, starts[2].copy()),
            RaggedArray.unchecked(actees, starts[1].copy()),
        )
        return {
            "order": ActionMask(order.actors, order.mask.with_values(masks.take(self._columns, 1))),
            "target": target,
        }

    def place(self, before: EntityBatch, actions: Actions) -> None:
        """Check actions for the last batch, `before`, and put them where the engine reads them.

        Raises:
            ActionError: an action that the masks forbid.
        """
        space = self._space.actions
        are_all = are_ragged(actions, space, len(before)) and len(actions) == len(space.spaces)
        if not (are_all and self._write(before, actions)):
            self._write(before, validate_actions(self._space, before, actions))

    def _write(self, before: EntityBatch, actions: Actions) -> bool:
        """Write the actions into the engine's orders if all are legal; return true if they are."""
        order, target = actions["order"], actions["target"]
        if self._perspective is not None:
            order = self._perspective.turn_orders(order)
        wide = np.zeros((order.num_items, ORDER_SIZE), np.int64)
        widen_orders(order.values, wide)
        order_rows, cells, masks = self._engine.orders, self._cells, self._masks
        starts, width = before.actions["order"].actors.offsets, self._width
        chosen, lanes = target.values, target.offsets
        return bool(
            place_orders(wide, order.offsets, starts, cells, masks, order_rows)
            and place_targets(chosen, lanes, cells, masks, width, self._selection, starts, order_rows)
        )
