"""Actions that an observation does not allow, for checking that environments refuse them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..ragged import RaggedArray
from .batch import ActionMask, EntityBatch
from .spaces import ActionSpace, Categorical, EntitySpace


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
        longer = [list(sequence) for sequence in order]
        longer[0].append(longer[0][0] if longer[0] else 0)
        yield (
            f"action {name!r} with a choice more than there are actors",
            {**legal, name: RaggedArray.from_arrays(longer, dtype=np.int64)},
        )
        if not order.num_items:
            continue
        beyond = order.values.copy()
        beyond[0] = action.num_choices if isinstance(action, Categorical) else batch.num_entities
        yield f"action {name!r} with a choice that does not exist", {**legal, name: order.with_values(beyond)}
        barred = _barred_choice(action, part)
        if barred is not None:
            values = order.values.copy()
            values[barred[0]] = barred[1]
            yield f"action {name!r} with a masked choice", {**legal, name: order.with_values(values)}


def _barred_choice(action: ActionSpace, part: ActionMask) -> tuple[int, int] | None:
    """An actor (by its place in the flat list) and a choice that its mask bars."""
    if isinstance(action, Categorical):
        barred = np.argwhere(~part.mask.values)
        return None if not len(barred) else (int(barred[0][0]), int(barred[0][1]))
    assert part.actees is not None
    for step, mask in enumerate(part.mask):
        actees = part.actees[step]
        if not mask.all():
            row, column = divmod(int(mask.argmin()), len(actees))
            return int(part.actors.offsets[step]) + row, int(actees[column])
    return None
