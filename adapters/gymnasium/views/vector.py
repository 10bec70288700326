"""`Vector`: a flat observation as one entity, or named slices of it as several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from ....ragged import RaggedArray
from .scope import EntityEncoder, Scope, View, ViewError, one_per_observation
from .values import flat_values

Part = int | slice | Sequence[str]


@dataclass(frozen=True, repr=False)
class Vector(View):
    """A row of numbers: one entity, or one per part.

    Reads every space of fixed size: Box, Discrete (one-hot), MultiDiscrete, MultiBinary, and Dict and Tuple
    of those.

    Args:
        parts: which numbers make which entity, in order: `{"Ball": 4, "Paddle": ["x", "y"]}` gives the first
            four to a Ball and the next two, named, to a Paddle; a slice takes its numbers from where it says.
            As a list of pairs a type may come several times: `[("Ball", 2), ("Brick", 3), ("Brick", 3)]`.
            Numbers of no part are left out.
            Without parts everything is one entity.
        name: the type of the only entity, without parts.
        features: names of its numbers, without parts.
    """

    parts: Mapping[str, Part] | Sequence[tuple[str, Part]] | None = None
    name: str | None = None
    features: Sequence[str] | None = None

    def bind(self, space: spaces.Space[Any], scope: Scope) -> EntityEncoder:
        flat = flat_values(space, scope)
        if flat is None:
            raise scope.refuse(self, space, "a space of fixed size")
        if self.parts is None:
            name = scope.type_name(self.name, "Vector")
            features = (
                flat.names if self.features is None else scope.names(tuple(self.features), len(flat.names))
            )
            encode = flat.encode
            return EntityEncoder(
                {name: features},
                lambda observation, n: {name: one_per_observation(encode(observation, n))},
                single=True,
            )
        pairs: list[Any] = list(self.parts.items() if isinstance(self.parts, Mapping) else self.parts)
        wrong = [pair for pair in pairs if not (isinstance(pair, tuple | list) and len(pair) == 2)]
        if wrong:
            raise ViewError(
                f"{scope.place}: parts: expected a dict, or pairs of a type and its part, got {wrong[0]!r}."
                " Names of all numbers go into features=…"
            )
        entities, columns = _columns(pairs, flat.names, scope)

        def encode_parts(observation: Any, batch_size: int) -> dict[str, RaggedArray]:
            rows = flat.encode(observation, batch_size)
            return {name: _repeated(rows[:, where]) for name, where in columns.items()}

        counts = {name: len(where) for name, where in columns.items()}
        return EntityEncoder(entities, encode_parts, counts=counts)


def _columns(
    pairs: list[tuple[str, Part]], names: tuple[str, ...], scope: Scope
) -> tuple[dict[str, tuple[str, ...]], dict[str, NDArray[np.int64]]]:
    """For each type its feature names and the columns (K, F) of its K entities."""
    entities: dict[str, tuple[str, ...]] = {}
    columns: dict[str, list[list[int]]] = {}
    position = 0
    for name, part in pairs:
        if not isinstance(part, int | slice | list | tuple):
            raise ViewError(
                f"{scope.place}: part {name!r}: expected a number of features, their names or a slice, got"
                f" {part!r}"
            )
        if isinstance(part, slice):
            where = list(range(*part.indices(len(names))))
        else:
            count = part if isinstance(part, int) else len(part)
            where = list(range(position, position + count))
        if not where or where[-1] >= len(names):
            raise ViewError(
                f"{scope.place}: part {name!r}: expected a part of the {len(names)} numbers, got"
                f" {part!r} at {position}"
            )
        position = where[-1] + 1
        features = tuple(names[i] for i in where) if isinstance(part, int | slice) else tuple(part)
        if name in columns and len(entities[name]) != len(where):
            raise ViewError(
                f"{scope.place}: part {name!r}: expected {len(entities[name])} numbers as before, got"
                f" {len(where)} numbers"
            )
        entities.setdefault(name, features)
        columns.setdefault(name, []).append(where)
    return entities, {name: np.array(where) for name, where in columns.items()}


def _repeated(rows: NDArray[np.float32]) -> RaggedArray:
    """K entities in each of B observations, from (B, K, F)."""
    batch_size, count, width = rows.shape
    return RaggedArray(rows.reshape(batch_size * count, width), np.arange(batch_size + 1) * count)
