"""`Columns`: arrays of equal length, which together are a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from ....ragged import RaggedArray
from .batches import components
from .rows import Column, Presence, Rows
from .scope import EntityEncoder, Scope, View, ViewError
from .tables import array_length, suggested_views
from .values import FlatValues, flat_values


@dataclass(frozen=True, repr=False)
class Columns(View):
    """The components of a Dict or Tuple are arrays of equal length: one entity per index.

    A component (n,) is a column of its name, a component (n, k) is k columns. A MultiDiscrete (n,) with the
    same choices everywhere is one-hot. For some components of a Dict use `Items({"a,b": Columns()})`.

    Args:
        name, presence, type, types, first, index: as for `Rows`.
    """

    name: str | None = None
    presence: Presence | None = None
    type: Column | Sequence[Column] | None = None
    types: Sequence[str] | Mapping[str, float] | None = None
    first: str | None = None
    index: bool = False

    def bind(self, space: spaces.Space[Any], scope: Scope) -> EntityEncoder:
        if not isinstance(space, spaces.Dict | spaces.Tuple):
            raise scope.refuse(self, space, "a Dict or Tuple of arrays of equal length")
        parts = components(space)
        lengths = {name: array_length(part) for _, name, part in parts}
        count = next(iter(lengths.values()), None)
        if count is None or len({*lengths.values()}) > 1:
            tables = suggested_views(space)
            raise ViewError(
                f"{scope.place}: view Columns: expected arrays of equal length, got lengths {lengths}"
                + (f". Use {tables}" if tables else "")
            )
        columns = [(key, *_column(part, scope.at(name))) for key, name, part in parts]
        names = [name for _, column, _ in columns for name in column.names]
        table = Rows(
            names, self.name, None, self.presence, self.type, self.types, self.first, self.index
        ).bind(spaces.Box(-np.inf, np.inf, (count, len(names)), np.float32), scope)

        def encode(observation: Any, batch_size: int) -> dict[str, RaggedArray]:
            values = [
                column.encode(rows(observation[key], batch_size), batch_size * count)
                for key, column, rows in columns
            ]
            return table.encode(np.concatenate(values, 1).reshape(batch_size, count, len(names)), batch_size)

        return EntityEncoder(table.entities, encode, counts=table.counts)


def _column(space: spaces.Space[Any], scope: Scope) -> tuple[FlatValues, Callable[[Any, int], NDArray[Any]]]:
    """Return how rows of a component become numbers, and how its batches become rows."""
    shape = space.shape
    assert shape is not None
    row: spaces.Space[Any] = spaces.Box(-np.inf, np.inf, shape[1:], np.float32)
    if isinstance(space, spaces.MultiDiscrete) and len(shape) == 1:
        choices = set(zip(space.nvec.tolist(), space.start.tolist(), strict=True))
        if len(choices) == 1:
            ((n, start),) = choices
            row = spaces.Discrete(n, start=start)
    flat = flat_values(row, scope)
    assert flat is not None

    def rows(observation: Any, batch_size: int) -> NDArray[Any]:
        return scope.array(observation, (batch_size, *shape)).reshape(batch_size * shape[0], *shape[1:])

    return flat, rows
