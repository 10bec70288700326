"""Actions that an observation does not allow, for checking that environments refuse them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..ragged import RaggedArray
from .batch import ActionMask, EntityBatch
from .spaces import ActionSpace, Categorical, Continuous, EntitySpace


def illegal_actions(
    space: EntitySpace, batch: EntityBatch, legal: dict[str, RaggedArray]
) -> Iterator[tuple[str, dict[str, RaggedArray]]]:
    """Actions that `batch` does not allow, and what is wrong with each."""
    unknown = "+".join(space.actions.spaces) + "+"
    yield (
        f"an action of the unknown name {unknown!r}",
        {**legal, unknown: RaggedArray.empty(len(batch), (), np.int64)},
    )
    for name, action in space.actions.items():
        order, part = legal[name], batch.actions[name]
        extra = order.values[:1] if len(order[0]) else np.zeros((1, *order.inner_shape), order.dtype)
        offsets = order.offsets + (np.arange(len(order.offsets)) > 0)
        longer = RaggedArray(np.concatenate([extra, order.values]), offsets)
        yield f"action {name!r} with a choice more than there are actors", {**legal, name: longer}
        if not order.num_items:
            continue
        beyond = order.values.copy()
        beyond[0] = _beyond(action, batch)
        yield f"action {name!r} with a choice that does not exist", {**legal, name: order.with_values(beyond)}
        barred = _barred_choice(action, part)
        if barred is not None:
            values = order.values.copy()
            values[barred[0]] = barred[1]
            yield f"action {name!r} with a masked choice", {**legal, name: order.with_values(values)}


def _beyond(action: ActionSpace, batch: EntityBatch) -> Any:
    """A choice that is never there."""
    if isinstance(action, Categorical):
        return action.num_choices
    return action.high + 1 if isinstance(action, Continuous) else batch.num_entities


def _barred_choice(action: ActionSpace, part: ActionMask) -> tuple[int, int] | None:
    """An actor (by its place in the flat list) and a choice that its mask bars."""
    if isinstance(action, Categorical):
        barred = np.argwhere(~part.mask.values)
        return None if not len(barred) else (int(barred[0][0]), int(barred[0][1]))
    if part.actees is None:
        return None
    for step, mask in enumerate(part.mask):
        actees = part.actees[step]
        if not mask.all():
            row, column = divmod(int(mask.argmin()), len(actees))
            return int(part.actors.offsets[step]) + row, int(actees[column])
    return None
