"""From an author's `Observation` to entity indices, and from plain actions back to entity ids.

This is the work that `EntityEnv` does between its author's code and the plain dicts that Gymnasium sees.
Entities may be given ids (any hashable values); actors and actees are then named by id or by type, and
actions come back with the same ids. The plain dict that Gymnasium gets has entity indices instead.

Shape alphabet: N entities, A actors, E actees, C choices, F features, G global features.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...ragged import RaggedArray
from ...suggestions import expected_one_of, listed
from ..actions.action_mask import ActionMask
from ..actions.array_checks import all_finite, as_float32, finite_words, real_numbers
from ..actions.kinds import Action, Mask
from ..actions.mask_reader import MaskReader
from ..errors import ObservationError
from ..spaces.entity_space import EntitySpace
from .batch_actions import StepWords, check_action, parsed_actions


@dataclass
class Observation:
    """One step, as an environment's author writes it.

    A type that is left out has no entities; an action that is left out is not available at this step.
    """

    entities: Mapping[str, ArrayLike] = field(default_factory=dict)  # per type (n, F)
    globals: ArrayLike = ()  # (G,)
    actions: Mapping[str, Mask] = field(default_factory=dict)
    ids: Mapping[str, Sequence[Hashable]] = field(default_factory=dict)  # per type, n ids; optional
    visible: Mapping[str, ArrayLike] = field(default_factory=dict)  # per type (n,) bool; left out: visible


@dataclass(slots=True)
class ResolvedObservation:
    """One step by entity index, and what each entity is called."""

    entities: dict[str, NDArray[np.float32]]  # per type (n, F), in the order of the space
    globals: NDArray[np.float32]  # (G,)
    visible: dict[str, NDArray[np.int8]]
    names: Sequence[Any]  # (N,) per entity index its id, or the index itself where it has none
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
    """Resolves the observations and actions of one environment.

    Args:
        space: what the environment may return.
        env_name: what error messages call it.
    """

    def __init__(self, space: EntitySpace, env_name: str) -> None:
        self.space = space
        self.env_name = env_name
        self.type_indices = {name: t for t, name in enumerate(space.entities)}

    def resolve(self, observation: Observation) -> ResolvedObservation:
        """Check `observation` and resolve ids and types to indices.

        Raises:
            ObservationError: naming env, entity type, feature or action (see `EntityEnv`); or the space has
                frames, which an `Observation` does not have.
        """
        if not isinstance(observation, Observation):
            self._fail(f"expected an Observation, got {type(observation).__name__}")
        if self.space.frame is not None:
            self._fail("an Observation has no frame: expected a space without frames, got one with frames")
        self._check_parts(observation)
        entities: dict[str, NDArray[np.float32]] = {}
        starts = [0]
        for name, features in self.space.entities.items():
            rows = entities[name] = self._rows(name, features, observation.entities.get(name))
            starts.append(starts[-1] + len(rows))
        globals_ = self._globals(observation.globals, getattr(observation, "global_names", None))
        self._check_types(observation.entities, "entities")
        names, index_of = self._names(observation.ids, starts)
        visible = self._visible(observation.visible or {}, entities)
        resolved = ResolvedObservation(entities, globals_, visible, names)
        for name, action in self.space.actions.items():
            reader = MaskReader(self.env_name, name, self.type_indices, names, starts, index_of)
            resolved.actions[name] = action.resolve(observation.actions.get(name), reader)
        for name in observation.actions:
            if name not in resolved.actions:
                self._fail(f"unknown action {name!r}: {expected_one_of(name, resolved.actions)}")
        return resolved

    def dispatch(self, resolved: ResolvedObservation, actions: Mapping[str, Any]) -> dict[str, Action]:
        """Check plain actions: an `Action` for each per-entity action, and each global one that is taken.

        Raises:
            ActionError: naming env, action, actor and what was allowed.
        """
        parsed = parsed_actions(self.space.actions, self.env_name, actions)
        names = resolved.names

        def words() -> StepWords:
            return StepWords(
                lambda step: self.env_name,
                lambda step, index: repr(names[index]),
                lambda step, index: f"actor {names[index]!r}",
            )

        dispatched: dict[str, Action] = {}
        for name, action in self.space.actions.items():
            items, part = parsed[name], resolved.actions[name]
            given = RaggedArray.unchecked(items, np.array([0, len(items)], np.int64))
            check_action(name, action, part, given, words, self.space.actions.optional)
            acting = [] if action.is_global or not len(items) else part.actors.values.tolist()
            result = action.to_author([names[i] for i in acting], items, names)
            if result is not None:
                dispatched[name] = result
        return dispatched

    def _fail(self, sentence: str) -> NoReturn:
        raise ObservationError(f"{self.env_name}: {sentence}") from None

    # -- entities -------------------------------------------------------------------------------------------

    def _rows(self, name: str, features: tuple[str, ...], given: ArrayLike | None) -> NDArray[np.float32]:
        """The entities of one type (n, F), copied and checked."""
        if given is None:
            return np.zeros((0, len(features)), np.float32)
        try:
            numbers = real_numbers(given)
        except (TypeError, ValueError) as error:
            self._fail(f"entity type {name!r}: expected an array of numbers (n, {len(features)}): {error}")
        rows = as_float32(numbers)
        if rows.shape == (0,):
            return rows.reshape(0, len(features))
        if rows.ndim != 2 or rows.shape[1] != len(features):
            self._fail(
                f"entity type {name!r}: expected shape (n, {len(features)})"
                f" for the features ({listed(features, str)}), got {rows.shape}"
            )
        if not all_finite(rows):
            entity, feature = np.argwhere(~np.isfinite(rows))[0]
            self._fail(
                f"entity type {name!r}: feature {features[feature]!r} of entity {entity}"
                f": {finite_words(numbers[entity, feature])}"
            )
        return rows

    def _globals(self, given: ArrayLike, names: tuple[str, ...] | None) -> NDArray[np.float32]:
        """Return the global features; `names` are those of an `Obs` that has an object for them."""
        features = self.space.global_features
        if names is not None and names != features:
            self._fail(f"globals: expected an object with the features {features}, got one with {names}")
        try:
            numbers = real_numbers(given)
        except (TypeError, ValueError) as error:
            self._fail(f"globals: expected an array of numbers ({len(features)},): {error}")
        values = as_float32(numbers)
        if values.shape != (len(features),):
            self._fail(
                f"globals: expected shape ({len(features)},)"
                f" for the features ({listed(features, str)}), got {values.shape}"
            )
        if not all_finite(values):
            bad = np.flatnonzero(~np.isfinite(values))[0]
            self._fail(f"global feature {features[bad]!r}: {finite_words(numbers[bad])}")
        return values

    def _check_parts(self, observation: Observation) -> None:
        """Check that the parts are dicts; `ids` and `visible` may also be None or empty."""
        for what in ("entities", "actions", "ids", "visible"):
            given = getattr(observation, what)
            if type(given) is dict or isinstance(given, Mapping):
                continue
            is_left_out = given is None or (isinstance(given, list | tuple) and not given)
            if what in ("entities", "actions") or not is_left_out:
                self._fail(f"{what}: expected a dict by name, got {given!r:.200}")

    def _check_types(self, given: Mapping[str, Any], what: str) -> None:
        for name in given:
            if name not in self.type_indices:
                known = expected_one_of(name, self.type_indices)
                self._fail(f"unknown entity type {name!r} in {what}: {known}")

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
            try:
                count = len(given)
            except TypeError:
                self._fail(f"entity type {name!r}: ids: expected a list, got {given!r:.200}")
            if count != last - first:
                self._fail(
                    f"entity type {name!r}: expected {last - first} ids (one per entity), got {count} ids"
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
