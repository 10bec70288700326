"""Positions, headings and types of the rows of a batch, for relative positions.

Shape alphabet: N rows, P position features.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..rogue_net.config import RelativePosition
from .prepare import GLOBAL, Prepared
from .translation import columns_of


class RowPlaces(NamedTuple):
    """Positions of the rows."""

    position: NDArray[np.float32]  # (N, P)
    heading: NDArray[np.float32]  # (N,) radians
    kind: NDArray[np.int64]  # (N,) index of the type
    known: NDArray[np.bool_]  # (N,): takes part in the encoding


class PlaceReader:
    """Reads positions, headings and types from the features of a batch."""

    def __init__(self, config: RelativePosition, features: Mapping[str, tuple[str, ...]]) -> None:
        """`features`: the names of each type's features in the order of the columns.

        Raises:
            ValueError: `exclude` names a type that `features` lacks, or no type has the features that the
                configuration names.
        """
        excluded = _excluded(config, features)
        self._axes = len(config.position)
        self._columns = {
            name: columns
            for name, names in features.items()
            if name not in excluded and (columns := columns_of(config.position, names)) is not None
        }
        if not self._columns:
            raise ValueError(
                f"relative_position: no entity type has the features {', '.join(config.position)}"
            )
        heading = config.heading
        self._heading = {
            name: [names.index(f) for f in heading]
            for name, names in features.items()
            if heading and name in self._columns and all(f in names for f in heading)
        }
        if heading and not self._heading:
            raise ValueError(f"relative_position: no entity type has the features {', '.join(heading)}")
        self._kinds = {name: i for i, name in enumerate(features)}

    def read(self, prepared: Prepared) -> RowPlaces:
        """Return the place of each row of a batch, from its raw (translated) features."""
        if not prepared.features:
            nothing = np.zeros(0, np.float32)
            return RowPlaces(
                np.zeros((0, self._axes), np.float32), nothing, np.zeros(0, np.int64), np.zeros(0, np.bool_)
            )
        positions, headings, kinds, known = [], [], [], []
        for name, values in prepared.features.items():
            columns, n = self._columns.get(name), len(values)
            positions.append(np.zeros((n, self._axes), np.float32) if columns is None else values[:, columns])
            headings.append(self._headings(name, values))
            kinds.append(np.full(n, self._kinds[name]))
            known.append(np.full(n, columns is not None))
        return RowPlaces(*map(prepared.by_row, (positions, headings, kinds, known)))  # type: ignore[arg-type]

    def _headings(self, name: str, values: NDArray[np.float32]) -> NDArray[np.float32]:
        columns = self._heading.get(name)
        if columns is None:
            return np.zeros(len(values), np.float32)
        if len(columns) == 1:
            return values[:, columns[0]]
        return np.arctan2(values[:, columns[1]], values[:, columns[0]])


def _excluded(config: RelativePosition, features: Mapping[str, tuple[str, ...]]) -> set[str]:
    """Return the types that take no part in the encoding.

    Raises:
        ValueError: `exclude` names a type that `features` lacks.
    """
    excluded = {*config.exclude, GLOBAL}
    unknown = sorted(excluded - {*features, GLOBAL})
    if unknown:
        known = ", ".join(name for name in features if name != GLOBAL)
        raise ValueError(
            f"relative_position: exclude: unknown entity type {unknown[0]!r}: expected some of {known}"
        )
    return excluded
