"""Actions that an observation does not allow, for checking that environments refuse them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...ragged import RaggedArray
from ..spaces.entity_space import EntitySpace
from .entity_batch import EntityBatch


def illegal_actions(
    space: EntitySpace, batch: EntityBatch, legal: dict[str, RaggedArray]
) -> Iterator[tuple[str, dict[str, RaggedArray]]]:
    """Actions that `batch` does not allow, and what is wrong with each."""
    unknown = "+".join(space.actions.spaces) + "+"
    yield (
        f"an action with the unknown name {unknown!r}",
        {**legal, unknown: RaggedArray.empty(len(batch), (), np.int64)},
    )
    for name, action in space.actions.items():
        given, part = legal[name], batch.actions[name]
        extra = given.values[:1] if len(given[0]) else np.zeros((1, *given.inner_shape), given.dtype)
        offsets = given.offsets + (np.arange(len(given.offsets)) > 0)
        longer = RaggedArray(np.concatenate([extra, given.values]), offsets)
        yield f"action {name!r} with more choices than actors", {**legal, name: longer}
        if not given.num_items:
            continue
        if not space.actions.optional:
            yield f"a step without action {name!r}", {n: a for n, a in legal.items() if n != name}
        beyond = given.values.copy()
        beyond[0] = action.nonexistent(batch.num_entities)
        yield f"action {name!r} with a choice that does not exist", {**legal, name: given.with_values(beyond)}
        for what, row, item in action.masked_items(part):
            values = given.values.copy()
            values[row] = item
            yield f"action {name!r} with a masked {what}", {**legal, name: given.with_values(values)}
