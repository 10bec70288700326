"""`Rows`: a table in which each row is an entity."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from ....envs import ObservationError
from ....ragged import RaggedArray
from .batches import join, stack
from .scope import (
    EntityEncoder,
    Scope,
    View,
    ViewError,
    channel_order,
    group,
    imported,
    slot_finder,
    slot_of_bits,
)
from .tables import suggested_views

Column = str | int
Predicate = Callable[[NDArray[Any]], NDArray[np.bool_]]
#: A function that says which rows are there, in a batched observation: (N, f) -> bool (N,).
Presence = Column | Predicate
Table = tuple[NDArray[Any], NDArray[np.int64]]  # rows (N, f) and offsets (B + 1,)


@dataclass(frozen=True, repr=False)
class Rows(View):
    """Each row of a table is an entity.

    Reads a Box (n, f), a flat Box (n * f,) when the number of columns is known, and `Sequence(Box (f,))`,
    stacked or not, where n differs from step to step.

    Args:
        features: names of the columns; numbered when left out.
        name: the type of the rows that no other option names.
        columns: the number of columns f of a flat Box; the length of `features` when left out.
        presence: a column (dropped from the features) that is zero where a row is absent, or a predicate from
            rows (N, f) to bool (N,), or where to import one from, as "module:function".
        type: the column of type ids, or the columns of a one-hot type, which are dropped from the features;
            a row without any type bit is absent.
        types: names of the types, in the order of the ids 0, 1, … or of the one-hot columns, or a mapping
            from name to id. One-hot columns name their types themselves when it is left out.
        first: the type of row 0, where it stands for the observer and the order of the rows says so.
        index: adds the position of the row as a feature, where it says which entity the row is.
    """

    features: Sequence[str] | None = None
    name: str | None = None
    columns: int | None = None
    presence: Presence | None = None
    type: Column | Sequence[Column] | None = None
    types: Sequence[str] | Mapping[str, float] | None = None
    first: str | None = None
    index: bool = False

    def bind(self, space: spaces.Space[Any], scope: Scope) -> EntityEncoder:
        width, read = self._table(space, scope)
        names = scope.names(None if self.features is None else tuple(self.features), width)
        type_columns = self._type_columns(names, scope)
        present, presence_column = self._presence(names, scope)
        kept = [i for i in range(width) if i not in type_columns and i != presence_column]
        features = tuple(names[i] for i in kept) + (("row",) if self.index else ())
        types = self._type_names(names, type_columns, scope)
        classify = _classifier(self, type_columns, types, scope)
        shifted = self.first is not None and self.first not in types
        if self.first is not None and shifted:
            types = (self.first, *types)
        first_slot = types.index(self.first) if self.first is not None else -1
        kept_columns = slice(None) if kept == list(range(width)) else np.array(kept, np.int64)

        def encode(observation: Any, batch_size: int) -> dict[str, RaggedArray]:
            rows, offsets = read(observation, batch_size)
            lengths = np.diff(offsets)
            slots = classify(rows)
            if shifted:
                slots = np.where(slots >= 0, slots + 1, -1)
            if first_slot >= 0:
                slots[offsets[:-1][lengths > 0]] = first_slot
            keep = slots >= 0
            if present is not None:
                keep &= present(rows)
            values = rows[:, kept_columns].astype(np.float32)
            if self.index:
                position = np.arange(len(rows)) - np.repeat(offsets[:-1], lengths)
                values = np.column_stack([values, position.astype(np.float32)])
            if not keep.all():
                values, slots = values[keep], slots[keep]
                lengths = np.diff(np.concatenate([[0], np.cumsum(keep)])[offsets])
            if len(types) == 1:
                return {types[0]: RaggedArray.from_lengths(values, lengths)}
            steps = np.repeat(np.arange(batch_size), lengths)
            return dict(zip(types, group(values, steps, slots, len(types), batch_size), strict=True))

        counts = self._counts(types, space, width)
        return EntityEncoder(dict.fromkeys(types, features), encode, counts=counts)

    def _counts(self, types: tuple[str, ...], space: spaces.Space[Any], width: int) -> dict[str, int]:
        """Return the number of rows of the only type, where it is known."""
        known = self.presence is None or self.index  # absent rows keep their numbers
        if space.shape is None or self.type is not None or len(types) > 1 or not width or not known:
            return {}
        return {types[0]: math.prod(space.shape) // width}

    def _table(self, space: spaces.Space[Any], scope: Scope) -> tuple[int, Callable[[Any, int], Table]]:
        """The number of columns, and how a batched observation becomes a table."""
        if isinstance(space, spaces.Sequence):
            return self._sequence(space, scope)
        if not isinstance(space, spaces.Box | spaces.MultiBinary | spaces.MultiDiscrete):
            arrays = suggested_views(space)
            hint = f" (arrays of equal length are a table: {arrays})" if arrays else ""
            needs = f"a table: Box (n, f), a flat Box with columns=, or Sequence(Box (f,)){hint}"
            raise scope.refuse(self, space, needs)
        shape = space.shape
        width = self.columns or (None if self.features is None else len(self.features))
        if width is not None and width < 1:
            raise ViewError(f"{scope.place}: expected at least 1 column in a row, got columns={width}")
        if len(shape) == 2:
            if self.columns is not None and self.columns != shape[1]:
                raise ViewError(
                    f"{scope.place}: expected columns={shape[1]}, the {shape[1]} columns of the table,"
                    f" got columns={self.columns}"
                )
            count, width = shape
        elif len(shape) == 1 and width is not None:
            count, rest = divmod(shape[0], width)
            if rest:
                raise ViewError(
                    f"{scope.place}: expected a multiple of {width} numbers for rows of {width} columns,"
                    f" got {shape[0]} numbers"
                )
        elif len(shape) == 1:
            raise ViewError(
                f"{scope.place}: expected the number of columns for a flat space of {shape[0]} numbers,"
                " got none. Pass columns="
            )
        else:
            raise scope.refuse(self, space, "a table: Box (n, f)")

        def read(observation: Any, batch_size: int) -> Table:
            array = scope.array(observation, (batch_size, *shape))
            return array.reshape(batch_size * count, width), np.arange(batch_size + 1) * count

        return width, read

    def _sequence(self, space: spaces.Sequence, scope: Scope) -> tuple[int, Callable[[Any, int], Table]]:
        element = space.feature_space
        if not isinstance(element, spaces.Box | spaces.MultiBinary) or len(element.shape) != 1:
            raise scope.refuse(self, space, "a Sequence of flat Boxes")
        width = element.shape[0]

        def read(observation: Any, batch_size: int) -> Table:
            lengths = np.array([len(part) for part in observation], np.int64)
            parts = observation if space.stack else [stack(element, part) for part in observation]
            rows = scope.array(join(element, parts), (int(lengths.sum()), width))
            return rows, np.concatenate([[0], np.cumsum(lengths)])

        return width, read

    def _presence(self, names: tuple[str, ...], scope: Scope) -> tuple[Predicate | None, int | None]:
        """Return what finds the rows that are there, and the column that only says so."""
        if self.presence is None:
            return None, None
        if callable(self.presence) or (isinstance(self.presence, str) and ":" in self.presence):
            predicate = imported(self.presence)
            return lambda rows: _flags_of(predicate, rows, scope), None
        column = _column(self.presence, names, scope)
        return lambda rows: rows[:, column] != 0, column

    def _type_columns(self, names: tuple[str, ...], scope: Scope) -> list[int]:
        if self.type is None:
            return []
        chosen = [self.type] if isinstance(self.type, str | int) else list(self.type)
        return [_column(column, names, scope) for column in chosen]

    def _type_names(self, names: tuple[str, ...], columns: list[int], scope: Scope) -> tuple[str, ...]:
        if not columns:
            return (scope.type_name(self.name, "Row"),)
        if self.types is None and len(columns) == 1:
            raise ViewError(
                f"{scope.place}: type={self.type!r}: expected names for the ids in this column, got none."
                " Pass types="
            )
        types = tuple(names[c] for c in columns) if self.types is None else tuple(self.types)
        if len(columns) > 1 and len(types) != len(columns):
            raise ViewError(
                f"{scope.place}: types: expected {len(columns)} for {len(columns)} type columns, got"
                f" {len(types)}: {list(types)}"
            )
        if len(set(types)) < len(types):
            raise ViewError(f"{scope.place}: expected distinct type names, got {list(types)}")
        return types


def _flags_of(predicate: Predicate, rows: NDArray[Any], scope: Scope) -> NDArray[np.bool_]:
    flags = np.asarray(predicate(rows), bool)
    if flags.shape != (len(rows),):
        raise ObservationError(
            f"{scope.place}: the presence predicate: expected shape ({len(rows)},) for rows of shape"
            f" {rows.shape}, got {flags.shape}"
        )
    return flags


def _column(column: Column, names: tuple[str, ...], scope: Scope) -> int:
    if isinstance(column, str):
        if column not in names:
            raise ViewError(
                f"{scope.place}: expected one of the columns {list(names)}, got column {column!r}. Name"
                " columns by features="
            )
        return names.index(column)
    if not -len(names) <= column < len(names):
        raise ViewError(
            f"{scope.place}: expected one of {len(names)} columns, from {-len(names)} to"
            f" {len(names) - 1}, got column {column}"
        )
    return column % len(names)


def _classifier(
    view: Rows, columns: list[int], types: tuple[str, ...], scope: Scope
) -> Callable[[NDArray[Any]], NDArray[np.int64]]:
    """Return a function from rows (N, f) to the index of each row's type (N,); -1 for a row without one."""
    if not columns:
        return lambda rows: np.zeros(len(rows), np.int64)
    ids = list(view.types.values()) if isinstance(view.types, Mapping) else list(range(len(types)))
    by_name = dict(zip(types, ids, strict=True))
    if len(columns) > 1:
        slots = channel_order(by_name, f"{scope.place}: types")
        return lambda rows: slot_of_bits(rows[:, columns] != 0, slots)
    expected = f"{scope.place}: column {view.type!r}: expected a type of {by_name}"
    find = slot_finder(ids, range(len(ids)), expected, "type")
    return lambda rows: find(rows[:, columns[0]])
