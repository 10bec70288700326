"""The layout of a batch's rows: one flat list for all steps, shared by every layer of the network.

Shape alphabet: B steps, N rows (the entities of all steps, and each step's global row if there is one).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...ragged import RaggedArray
from ..kernels.gather_kernels import find_rows, longest_step

_T = TypeVar("_T")
_S = TypeVar("_S", bound=np.generic)
_NONE = np.zeros(0, np.int64)


def plain(array: NDArray[_S]) -> NDArray[_S]:
    """Return `array`, or a copy where it is read-only or not contiguous.

    torch warns of read-only memory, and Numba would compile every kernel once more for it.
    """
    return array if array.flags.writeable and array.flags.c_contiguous else array.copy()


class RowLayout:
    """The offsets of B steps in the flat list of rows, and what is derived from them, each computed once."""

    def __init__(
        self,
        offsets: NDArray[np.int64],
        entity_offsets: NDArray[np.int64],
        row_of_entity: NDArray[np.int64] | None = None,
    ) -> None:
        """`offsets` (B + 1,): where each step's rows start. `entity_offsets` (B + 1,): where each step's
        entities start in the batch's list of all entities. `row_of_entity`: the row of each entity of that
        list, -1 for none; None where entity i of a step is row i of that step.
        """
        self.offsets = offsets
        self.entity_offsets = entity_offsets
        self.row_of_entity = row_of_entity
        self._cache: dict[Hashable, Any] = {}

    def cached(self, key: Hashable, make: Callable[[], _T]) -> _T:
        """Return what `make` gave when `key` was first used."""
        if key not in self._cache:
            self._cache[key] = make()
        return self._cache[key]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def num_rows(self) -> int:
        return int(self.offsets[-1])

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """Rows per step (B,)."""
        return np.diff(self.offsets)

    @cached_property
    def longest(self) -> int:
        return int(longest_step(self.offsets))

    def of_entities(self, indices: RaggedArray, what: str) -> NDArray[np.int64]:
        """Return the row of each entity, given by its index within its step (A,).

        Raises:
            ValueError: a step has no such entity, or it has no row: it is hidden or of an unknown type.
        """
        rows = np.empty(indices.num_items, np.int64)
        found = self.row_of_entity if self.row_of_entity is not None else _NONE
        if len(indices) == len(self) and find_rows(
            self.offsets, self.entity_offsets, found, plain(indices.offsets), plain(indices.values), rows
        ):
            return rows
        raise self._unknown(indices, what)

    def _unknown(self, indices: RaggedArray, what: str) -> ValueError:
        """Return the error for entities without a row."""
        if len(indices) != len(self):
            return ValueError(f"{what}: expected {len(self)} steps, got {len(indices)}")
        owners = indices.sequence_indices()
        limits = np.diff(self.entity_offsets)[owners]
        bad = (indices.values < 0) | (indices.values >= limits)
        if bad.any():
            i = int(np.flatnonzero(bad)[0])
            return ValueError(
                f"{what}: step {owners[i]}: expected one of {limits[i]} entities, got {indices.values[i]}"
            )
        assert self.row_of_entity is not None
        rows = self.row_of_entity[indices.values + self.entity_offsets[owners]]
        i = int(np.flatnonzero(rows < 0)[0])
        return ValueError(
            f"{what}: step {owners[i]}: expected visible entities of types that the network knows, got entity"
            f" {indices.values[i]}, which is hidden from the policy or of another type"
        )

    def keep(self, kept: NDArray[np.bool_]) -> RowLayout:
        """Return the layout of only those rows where `kept` (N,) is set."""
        position = np.zeros(len(kept) + 1, np.int64)
        np.cumsum(kept, out=position[1:])
        new_row = np.where(kept, position[:-1], -1)
        entities = self.row_of_entity
        if entities is None:
            starts = self.offsets[:-1] - self.entity_offsets[:-1]
            entities = np.arange(self.entity_offsets[-1]) + np.repeat(starts, np.diff(self.entity_offsets))
        known = entities >= 0
        rows = np.full(len(entities), -1)
        rows[known] = new_row[entities[known]]
        return RowLayout(position[self.offsets], self.entity_offsets, rows)
