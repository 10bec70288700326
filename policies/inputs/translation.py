"""Positions relative to a reference entity, before normalization."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ...envs.errors import ObservationError
from ...ragged import RaggedArray
from ..rogue_net.config import Translation

#: The name of the feature that `add_distance` appends.
DISTANCE = "distance to reference"


def columns_of(wanted: tuple[str, ...], features: tuple[str, ...]) -> list[int] | None:
    """Return the columns of the wanted features among `features`; None if one is missing."""
    columns = {feature: column for column, feature in enumerate(features)}
    return [columns[f] for f in wanted] if all(f in columns for f in wanted) else None


class Translator:
    """Applies a `Translation` to the features of a batch.

    With the reference at p and its heading (c, s), a position r of another type becomes R (r - p), where R
    rotates by minus the heading: the reference faces the first axis. At a step without a reference, or with a
    hidden one, which the policy must not observe, p is 0 and R the identity.
    """

    def __init__(self, config: Translation, entities: Mapping[str, tuple[str, ...]]) -> None:
        """`entities`: feature names by type, in the order of the columns."""
        if config.reference not in entities:
            raise ValueError(
                f"translation: reference: unknown entity type {config.reference!r}: expected one of"
                f" {', '.join(entities)}"
            )
        reference = entities[config.reference]
        heading = config.heading
        known = {feature: column for column, feature in enumerate(reference)}
        for feature in (*config.position, *heading):
            if feature not in known:
                raise ValueError(
                    f"translation: reference {config.reference!r}: unknown feature {feature!r}: expected"
                    f" one of {', '.join(reference)}"
                )
        self.config = config
        self._reference_columns = [known[f] for f in config.position]
        self._heading_columns = [known[f] for f in heading]
        self._columns = {
            name: columns
            for name, features in entities.items()
            if name != config.reference and (columns := columns_of(config.position, features)) is not None
        }
        self.entities = {
            name: (*features, DISTANCE) if config.add_distance and name in self._columns else features
            for name, features in entities.items()
        }

    def apply(
        self, entities: Mapping[str, RaggedArray], visible: Mapping[str, RaggedArray]
    ) -> dict[str, RaggedArray]:
        """Return the translated features of each type; the inputs are unchanged.

        Args:
            entities: the rows of each type.
            visible: flags for the rows of types that can be hidden.

        Raises:
            ObservationError: a step has more than one entity of the reference type.
        """
        result = dict(entities)
        name = self.config.reference
        if name not in entities or not entities[name].num_items:
            return {n: self._with_distance(n, rows) for n, rows in result.items()}
        reference = entities[name]
        if (reference.lengths > 1).any():
            step = int(np.argmax(reference.lengths > 1))
            raise ObservationError(
                f"translation: step {step}: expected one entity of the reference type {name!r},"
                f" got {reference.lengths[step]}. Name another reference"
            )
        shown = visible[name].values if name in visible else np.ones(reference.num_items, bool)
        origin, cosine, sine = self._frame(reference, shown)
        for other, columns in self._columns.items():
            if other in entities and entities[other].num_items:
                rows = entities[other]
                moved = rows.values[:, columns] - rows.broadcast(origin)
                if self._heading_columns:
                    c, s = rows.broadcast(cosine), rows.broadcast(sine)
                    moved = np.stack(
                        [c * moved[:, 0] + s * moved[:, 1], c * moved[:, 1] - s * moved[:, 0]], 1
                    )
                values = rows.values.copy()
                values[:, columns] = moved
                result[other] = rows.with_values(values)
        if not self.config.keep_reference:
            result[name] = self._at_origin(reference, shown)
        return {n: self._with_distance(n, rows) for n, rows in result.items()}

    def _frame(
        self, reference: RaggedArray, shown: NDArray[np.bool_]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
        """Return, per step, the origin (B, P) and the heading's cosine and sine (B,)."""
        present = np.flatnonzero(reference.lengths)[shown]
        values = reference.values[shown]
        origin = np.zeros((len(reference), len(self._reference_columns)), np.float32)
        origin[present] = values[:, self._reference_columns]
        cosine, sine = np.ones(len(reference), np.float32), np.zeros(len(reference), np.float32)
        heading = values[:, self._heading_columns]
        if self.config.rotation_angle:
            cosine[present], sine[present] = np.cos(heading[:, 0]), np.sin(heading[:, 0])
        elif self.config.rotation_vector:
            length = np.hypot(heading[:, 0], heading[:, 1])
            known = length > 0
            safe = np.where(known, length, 1.0).astype(np.float32)
            cosine[present] = np.where(known, heading[:, 0] / safe, 1.0)
            sine[present] = np.where(known, heading[:, 1] / safe, 0.0)
        return origin, cosine, sine

    def _at_origin(self, reference: RaggedArray, shown: NDArray[np.bool_]) -> RaggedArray:
        values = reference.values.copy()
        moved = values[shown]
        moved[:, [*self._reference_columns, *self._heading_columns]] = 0.0
        if self.config.rotation_vector:
            moved[:, self._heading_columns[0]] = 1.0
        values[shown] = moved
        return reference.with_values(values)

    def _with_distance(self, name: str, rows: RaggedArray) -> RaggedArray:
        if not self.config.add_distance or name not in self._columns:
            return rows
        distance = np.sqrt(np.square(rows.values[:, self._columns[name]]).sum(1, keepdims=True))
        return rows.with_values(np.concatenate([rows.values, distance], 1))
