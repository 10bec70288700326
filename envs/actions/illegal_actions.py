"""Actions that an observation does not allow, for checking that environments refuse them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...ragged import RaggedArray
from ..batch.entity_batch import ActionMask, EntityBatch
from ..spaces.entity_space import ActionSpace, Categorical, Continuous, EntitySpace, MultiCategorical


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
        for what, row, choice in _barred_choices(action, part):
            values = order.values.copy()
            values[row] = choice
            yield f"action {name!r} with a masked {what}", {**legal, name: order.with_values(values)}


def _beyond(action: ActionSpace, batch: EntityBatch) -> Any:
    """A choice that is never there."""
    if isinstance(action, Categorical):
        return action.num_choices
    if isinstance(action, MultiCategorical):
        return action.sizes
    return action.high + 1 if isinstance(action, Continuous) else batch.num_entities


def _barred_choices(action: ActionSpace, part: ActionMask) -> Iterator[tuple[str, int, Any]]:
    """What is barred, an actor (by its place in the flat list) and a choice or order that its mask bars."""
    if isinstance(action, MultiCategorical):
        yield from _barred_orders(action, part.mask.values)
    elif isinstance(action, Categorical):
        barred = np.argwhere(~part.mask.values)
        if len(barred):
            yield "choice", int(barred[0][0]), int(barred[0][1])
    elif part.actees is not None:
        for step, mask in enumerate(part.mask):
            actees = part.actees[step]
            if not mask.all():
                row, column = divmod(int(mask.argmin()), len(actees))
                yield "choice", int(part.actors.offsets[step]) + row, int(actees[column])
                return


def _barred_orders(action: MultiCategorical, mask: NDArray[np.bool_]) -> Iterator[tuple[str, int, Any]]:
    """For each component an order (M,) of which the mask (A, C) bars that choice and no other."""
    kinds = mask[:, : action.sizes[0]]
    for component, name in enumerate(action.names):
        columns = slice(action.offsets[component], action.offsets[component + 1])
        used = kinds & action.used[:, component]  # (A, K): the allowed kinds that use it
        barred = np.argwhere(~mask[:, columns] & used.any(1)[:, None])
        if len(barred):
            row, choice = (int(place) for place in barred[0])
            order = np.zeros(len(action.names), np.int64)
            order[0] = used[row].argmax()
            order = action.mended(order[None], mask[row : row + 1])[0]
            order[component] = choice
            yield f"choice of component {name!r}", row, order
