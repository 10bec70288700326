"""The choice of entities where a step has more than a fixed layout holds.

Shape alphabet: n entities of a type, N of all types at a step, A actors, E actees.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ...envs import EntitySpace, ObservationError
from ...envs.errors import whole_number


@dataclass(frozen=True)
class Nearest:
    """Keep the entities nearest to the first one of a type; where there is none, the first ones.

    Args:
        reference: the type of the entity to measure from.
        features: the coordinates, by the names that they have in both types.
    """

    reference: str
    features: Sequence[str] = ("x", "y")


#: Beyond a maximum: an error, a random choice of who stays, or those who are near.
Beyond = Literal["error", "drop"] | Nearest


@dataclass(frozen=True)
class Limited:
    """One observation with no more entities than allowed, and how it relates to the whole one."""

    observation: dict[str, Any]
    indices: NDArray[np.int64]  # for each entity that stayed its index in the whole observation
    rows: dict[
        str, NDArray[np.int64]
    ]  # per per-entity action: for each actor that stayed its place among all
    dropped: dict[str, int]  # per type


class Limit:
    """Holds observations to maxima per type.

    Raises:
        TypeError: a maximum is no whole number.
        ValueError: a maximum is negative, a type has no maximum or none of that name exists, or `beyond` is
            none of the choices, or names a type or feature that does not exist.
    """

    def __init__(
        self, env_name: str, space: EntitySpace, maxima: Mapping[str, int] | int, beyond: Beyond
    ) -> None:
        self.env_name, self.space, self.beyond = env_name, space, beyond
        given = maxima if isinstance(maxima, Mapping) else dict.fromkeys(space.entities, maxima)
        self.maxima = {
            name: whole_number(f"{env_name}: maxima of {name!r}", most, 0) for name, most in given.items()
        }
        unknown = [name for name in self.maxima if name not in space.entities]
        missing = [name for name in space.entities if name not in self.maxima]
        if unknown or missing:
            raise ValueError(
                f"{env_name}: maxima: expected a number for each of {list(space.entities)}, got {self.maxima}"
            )
        if isinstance(beyond, Nearest):
            self._check_reference(beyond)
        elif beyond not in ("error", "drop"):
            raise ValueError(f"{env_name}: beyond: expected 'error', 'drop' or Nearest(…), got {beyond!r}")

    def _check_reference(self, nearest: Nearest) -> None:
        if nearest.reference not in self.space.entities:
            raise ValueError(
                f"{self.env_name}: Nearest: reference: expected one of {list(self.space.entities)},"
                f" got the unknown entity type {nearest.reference!r}"
            )
        for name in (nearest.reference, *self.space.entities):
            lacking = [f for f in nearest.features if f not in self.space.entities[name]]
            if lacking:
                raise ValueError(
                    f"{self.env_name}: Nearest: expected the feature {lacking[0]!r} in every entity"
                    f" type, got none in entity type {name!r}"
                )

    def apply(self, observation: dict[str, Any], rng: np.random.Generator) -> Limited:
        """Leave out what is too much.

        Raises:
            ObservationError: there is too much and `beyond` is "error".
        """
        entities = observation.get("entities", {})  # no key without entity types
        kept = {name: self._kept(name, entities, rng) for name in self.space.entities}
        dropped = {name: len(entities[name]) - len(places) for name, places in kept.items()}
        starts = np.cumsum([0, *(len(entities[name]) for name in self.space.entities)])
        indices = np.concatenate(
            [np.zeros(0, np.int64), *(p + start for p, start in zip(kept.values(), starts, strict=False))]
        )
        if not any(dropped.values()):
            rows = {
                n: np.arange(len(p["actors"])) for n, p in observation["actions"].items() if "actors" in p
            }
            return Limited(observation, indices, rows, dropped)
        limited = {**observation, "entities": {name: entities[name][places] for name, places in kept.items()}}
        if self.space.hidden:
            limited["visible"] = {name: observation["visible"][name][places] for name, places in kept.items()}
        new_index = np.full(starts[-1], -1, np.int64)
        new_index[indices] = np.arange(len(indices))
        rows = {}
        limited["actions"] = {}
        for name, part in observation["actions"].items():
            if "actors" in part:
                part, rows[name] = self._action(name, part, new_index)
            limited["actions"][name] = part
        return Limited(limited, indices, rows, dropped)

    def _kept(
        self, name: str, entities: Mapping[str, NDArray[Any]], rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """The places of those that stay (m,), in order."""
        count, maximum = len(entities[name]), self.maxima[name]
        if count <= maximum:
            return np.arange(count)
        if self.beyond == "error":
            raise ObservationError(
                f"{self.env_name}: too many entities of type {name!r}: expected at most {maximum} (maxima),"
                f" got {count}. Increase maxima, or pass beyond='drop' or beyond=Nearest(…)"
            )
        if self.beyond == "drop":
            return np.sort(rng.choice(count, maximum, replace=False))
        assert isinstance(self.beyond, Nearest)
        if not len(entities[self.beyond.reference]):
            return np.arange(maximum)
        here = self._coordinates(self.beyond.reference, entities)[0]
        distance = np.square(self._coordinates(name, entities) - here).sum(1)
        return np.sort(np.argsort(distance, kind="stable")[:maximum])

    def _coordinates(self, name: str, entities: Mapping[str, NDArray[Any]]) -> NDArray[np.float64]:
        assert isinstance(self.beyond, Nearest)
        columns = [self.space.entities[name].index(feature) for feature in self.beyond.features]
        return entities[name][:, columns].astype(np.float64)

    def _action(
        self, name: str, part: dict[str, Any], new_index: NDArray[np.int64]
    ) -> tuple[dict[str, Any], NDArray[np.int64]]:
        """One action's part for those that stay, and the places of the actors that do."""
        actors = new_index[part["actors"]]
        if not self.space.actions[name].selects_entities:
            rows = np.flatnonzero(actors >= 0)
            return {"actors": actors[rows], "mask": part["mask"][rows]}, rows
        actees = new_index[part["actees"]]
        columns = np.flatnonzero(actees >= 0)
        mask = part["mask"].reshape(len(actors), len(actees))[:, columns]
        rows = np.flatnonzero((actors >= 0) & mask.any(1))
        limited = {"actors": actors[rows], "actees": actees[columns], "mask": mask[rows].reshape(-1)}
        return limited, rows
