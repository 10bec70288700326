"""Whole orders, which the engine takes as they are."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...envs import EntityBatch, validate_actions
from ...envs.vector.vector_env import Actions
from ...ragged import RaggedArray
from .java.engine import ORDER_SIZE, MicroRTSEngine
from .kernels.order_kernels import place_orders
from .observe import Observer

_INT64 = np.dtype(np.int64)


class Orders:
    """Takes the actions of an engine's units, where these are their whole orders.

    Args:
        observer: of the engine.
    """

    def __init__(self, engine: MicroRTSEngine, observer: Observer) -> None:
        self._rows, self._observer = engine.orders, observer

    def place(self, before: EntityBatch, actions: Actions) -> None:
        """Check actions for the last batch, `before`, and put them where the engine reads them.

        Raises:
            ActionError: an action that the masks forbid.
        """
        observer, turn = self._observer, self._observer.perspective
        actor_offsets = before.actions["order"].actors.offsets
        arrays = actor_offsets, observer.cells, observer.masks, self._rows
        order: Any = actions.get("order") if isinstance(actions, dict) and len(actions) == 1 else None
        if (
            isinstance(order, RaggedArray)
            and order.values.dtype == _INT64
            and order.values.shape[1:] == (ORDER_SIZE,)
        ):
            given = order if turn is None else turn.turn_orders(order)
            if place_orders(given.values, given.offsets, *arrays):
                return  # the usual case, in one pass
        checked = validate_actions(observer.space, before, actions)["order"]
        checked = checked if turn is None else turn.turn_orders(checked)
        place_orders(checked.values, checked.offsets, *arrays)
