"""From an author's `Observation` to entity indices, and from plain actions back to entity ids.

This is the work that `EntityEnv` does between its author's code and the plain dicts that Gymnasium sees.
Shape alphabet: N entities, A actors, E actees, C choices, F features, G global features.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..actions.action_mask import ActionMask
from ..actions.action_space import ActionSpace
from ..actions.kinds import Mask
from ..errors import ObservationError
from ..spaces.entity_space import EntitySpace
from .observation import Observation


@dataclass(slots=True)
class ResolvedObservation:
    """One step by entity index, and what each entity is called."""

    entities: dict[str, NDArray[np.float32]]  # per type (n, F), in the order of the space
    globals: NDArray[np.float32]  # (G,)
    visible: dict[str, NDArray[np.int8]]
    names: Sequence[Any]  # (N,) per entity index its id, or the index itself where it has none
    starts: list[int]  # (T + 1,) per type the index of its first entity, then N
    index_of: dict[Hashable, int]  # the entities that have an id
    actions: dict[str, ActionMask] = field(default_factory=dict)

    def plain(self, space: EntitySpace) -> dict[str, Any]:
        """The observation dict of `space`. The arrays are this object's own, handed over once."""
        observation: dict[str, Any] = {
            "actions": {name: action.unbatch(self.actions[name], 0) for name, action in space.actions.items()}
        }
        if space.entities:
            observation["entities"] = self.entities
        if space.global_features:
            observation["globals"] = self.globals
        if space.hidden:
            observation["visible"] = self.visible
        return observation


class Resolver:
    """Resolves the observations of one environment.

    Args:
        space: what the environment may return.
        env_name: what error messages call it.

    Raises:
        ObservationError: the space shows frames, which an `Observation` does not have.
    """

    def __init__(self, space: EntitySpace, env_name: str) -> None:
        if space.frame is not None:
            raise ObservationError(
                f"{env_name}: an Observation has no frame: expected a space without frames, got one"
                " with frames"
            )
        self.space = space
        self.env_name = env_name
        self.type_indices = {name: t for t, name in enumerate(space.entities)}

    def resolve(self, observation: Observation) -> ResolvedObservation:
        """Check `observation` and resolve ids and types to indices.

        Raises:
            ObservationError: naming env, entity type, feature or action; see `EntityEnv`.
        """
        if not isinstance(observation, Observation):
            self._fail(f"expected an Observation, got {type(observation).__name__}")
        entities: dict[str, NDArray[np.float32]] = {}
        starts = [0]
        for name, features in self.space.entities.items():
            rows = entities[name] = self._rows(name, features, observation.entities.get(name))
            starts.append(starts[-1] + len(rows))
        globals_ = self._globals(observation.globals)
        self._check_types(observation.entities, "entities")
        names, index_of = self._names(observation.ids, starts)
        visible = self._visible(observation.visible, entities)
        resolved = ResolvedObservation(entities, globals_, visible, names, starts, index_of)
        for name, action in self.space.actions.items():
            resolved.actions[name] = self._action(name, action, observation.actions.get(name), resolved)
        for name in observation.actions:
            if name not in resolved.actions:
                self._fail(
                    f"unknown action {name!r}: expected one of {', '.join(map(repr, resolved.actions))}"
                )
        return resolved

    def _fail(self, sentence: str) -> NoReturn:
        raise ObservationError(f"{self.env_name}: {sentence}") from None

    # -- entities -------------------------------------------------------------------------------------------

    def _rows(self, name: str, features: tuple[str, ...], given: ArrayLike | None) -> NDArray[np.float32]:
        """The entities of one type (n, F), copied and checked."""
        if given is None:
            return np.zeros((0, len(features)), np.float32)
        try:
            rows = np.array(given, np.float32)
        except (TypeError, ValueError, RuntimeWarning) as error:  # a warning of overflow may be an error
            self._fail(f"entity type {name!r}: expected an array of numbers (n, {len(features)}): {error}")
        if rows.shape == (0,):
            return rows.reshape(0, len(features))
        if rows.ndim != 2 or rows.shape[1] != len(features):
            self._fail(
                f"entity type {name!r}: expected shape (n, {len(features)})"
                f" for the features ({', '.join(features)}), got {rows.shape}"
            )
        if not _all_finite(rows):
            entity, feature = np.argwhere(~np.isfinite(rows))[0]
            self._fail(
                f"entity type {name!r}: feature {features[feature]!r} of entity {entity}"
                f": expected a finite number, got {rows[entity, feature]}"
            )
        return rows

    def _globals(self, given: ArrayLike) -> NDArray[np.float32]:
        features = self.space.global_features
        try:
            values = np.array(given, np.float32)
        except (TypeError, ValueError, RuntimeWarning) as error:
            self._fail(f"globals: expected an array of numbers ({len(features)},): {error}")
        if values.shape != (len(features),):
            self._fail(
                f"globals: expected shape ({len(features)},)"
                f" for the features ({', '.join(features)}), got {values.shape}"
            )
        if not _all_finite(values):
            bad = np.flatnonzero(~np.isfinite(values))[0]
            self._fail(f"global feature {features[bad]!r}: expected a finite number, got {values[bad]}")
        return values

    def _check_types(self, given: Mapping[str, Any], what: str) -> None:
        for name in given:
            if name not in self.type_indices:
                known = ", ".join(map(repr, self.type_indices))
                self._fail(f"unknown entity type {name!r} in {what}: expected one of {known}")

    def _names(
        self, ids: Mapping[str, Sequence[Hashable]], starts: list[int]
    ) -> tuple[Sequence[Any], dict[Hashable, int]]:
        """Return each entity's name and each id's index. Types without ids advance the indices too."""
        index_of: dict[Hashable, int] = {}
        if not ids:
            return range(starts[-1]), index_of
        self._check_types(ids, "ids")
        names: list[Any] = list(range(starts[-1]))
        for name, given in ids.items():
            t = self.type_indices[name]
            first, last = starts[t], starts[t + 1]
            if len(given) != last - first:
                self._fail(
                    f"entity type {name!r}: expected {last - first} ids (one per entity), got"
                    f" {len(given)} ids"
                )
            for index, identity in enumerate(given, first):
                try:
                    other = index_of.setdefault(identity, index)
                except TypeError:
                    self._fail(f"entity type {name!r}: id: expected a hashable id, got {identity!r}")
                if other != index:
                    self._fail(
                        f"entity type {name!r}: expected a different id for each entity, got id"
                        f" {identity!r} twice"
                    )
                names[index] = identity
        return names, index_of

    def _visible(
        self, given: Mapping[str, ArrayLike], entities: Mapping[str, NDArray[np.float32]]
    ) -> dict[str, NDArray[np.int8]]:
        if not self.space.hidden:
            if given:
                self._fail("'visible': expected none for a space without hidden=True, got one")
            return {}
        self._check_types(given, "visible")
        visible = {}
        for name, rows in entities.items():
            flags = (
                np.ones(len(rows), np.int8)
                if name not in given
                else np.array(given[name], bool).astype(np.int8)
            )
            if flags.shape != (len(rows),):
                self._fail(
                    f"'visible' of entity type {name!r}: expected shape ({len(rows)},), got {flags.shape}"
                )
            visible[name] = flags
        return visible

    # -- actions --------------------------------------------------------------------------------------------

    def _action(
        self, name: str, action: ActionSpace, given: Mask | None, resolved: ResolvedObservation
    ) -> ActionMask:
        """Resolve one action's mask; None means that nobody can take it at this step."""
        return action.resolve(given, _MaskReader(self, name, resolved))

    def _indices(
        self,
        action: str,
        side: str,
        ids: Sequence[Hashable] | None,
        types: Sequence[str] | None,
        resolved: ResolvedObservation,
    ) -> NDArray[np.int64]:
        """The entities named by id, by type (type after type, as listed) or, with neither, all of them."""
        if ids is not None and types is not None:
            self._fail(f"action {action!r}: {side}s: expected ids or types, got both")
        if ids is not None:
            indices = [self._index(action, side, identity, resolved) for identity in ids]
            self._check_once(action, side, ids)
            return np.array(indices, np.int64)
        if types is None:
            return np.arange(resolved.starts[-1])
        runs = [self._run(action, side, name, resolved) for name in types]
        self._check_once(action, side, types)
        return runs[0] if len(runs) == 1 else np.concatenate([np.zeros(0, np.int64), *runs])

    def _check_once(self, action: str, side: str, named: Sequence[Hashable]) -> None:
        if len(set(named)) < len(named):
            twice = next(name for position, name in enumerate(named) if name in named[:position])
            self._fail(f"action {action!r}: expected different {side}s, got {side} {twice!r} twice")

    def _index(self, action: str, side: str, identity: Hashable, resolved: ResolvedObservation) -> int:
        try:
            return resolved.index_of[identity]
        except (KeyError, TypeError):
            known = ", ".join(map(repr, resolved.index_of)) or "none"
            self._fail(
                f"action {action!r}: unknown {side} id {identity!r}: expected an id of this step, one"
                f" of {known}"
            )

    def _run(self, action: str, side: str, name: str, resolved: ResolvedObservation) -> NDArray[np.int64]:
        """The indices of the entities of one type."""
        t = self.type_indices.get(name)
        if t is None:
            known = ", ".join(map(repr, self.type_indices))
            self._fail(f"action {action!r}: unknown {side} type {name!r}: expected one of {known}")
        return np.arange(resolved.starts[t], resolved.starts[t + 1])

    def _flags(self, action: str, given: ArrayLike, shape: tuple[int, ...]) -> NDArray[np.bool_]:
        """A mask of exactly `shape`; any empty mask will do where nobody acts."""
        try:
            mask = np.array(given)
        except ValueError as error:
            self._fail(f"action {action!r}: mask: expected an array of shape {shape}: {error}")
        if mask.size == 0 and 0 in shape:
            return np.zeros(shape, bool)
        if mask.shape != shape:
            self._fail(f"action {action!r}: mask: expected shape {shape}, got {mask.shape}")
        if mask.dtype.kind not in "biu":
            self._fail(f"action {action!r}: mask: expected booleans, got {mask.dtype}")
        return mask.astype(bool, copy=False)


class _MaskReader:
    """The `MaskReader` of one action of a step."""

    def __init__(self, resolver: Resolver, action: str, resolved: ResolvedObservation) -> None:
        self._resolver, self._action, self._resolved = resolver, action, resolved

    def indices(
        self, side: str, ids: Sequence[Hashable] | None, types: Sequence[str] | None
    ) -> NDArray[np.int64]:
        return self._resolver._indices(self._action, side, ids, types, self._resolved)

    def flags(self, given: ArrayLike, shape: tuple[int, ...]) -> NDArray[np.bool_]:
        return self._resolver._flags(self._action, given, shape)

    def name(self, index: int) -> str:
        return repr(self._resolved.names[index])

    def fail(self, problem: str) -> NoReturn:
        self._resolver._fail(f"action {self._action!r}: {problem}")


def _all_finite(array: NDArray[np.float32]) -> bool:
    # One pass where all is well; a sum of squares that overflows or meets inf or nan is looked at closely.
    return math.isfinite(np.vdot(array, array)) or bool(np.isfinite(array).all())
