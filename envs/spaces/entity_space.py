"""Spaces of entity environments: what there may be to see and to do.

An observation is a nested dict (see `EntitySpace`); an action is a dict from action names to arrays (see the
action spaces). Both are plain Gymnasium spaces, so an entity environment is a legal Gymnasium environment.

Entity *indices* count through the types in the order of the space: with two mines and one robot, and types
ordered (Mine, Robot), the mines are 0 and 1 and the robot is 2. Actors and actees are such indices.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from ...suggestions import listed
from ..actions.array_checks import (
    RaggedSpace,
    array_problem,
    binary_problem,
    flag_space,
    keys_problem,
    named_parts,
    ordered,
    unique_names,
)
from ..actions.entity_action_space import EntityActionSpace
from ..errors import check_flags, check_left_out

#: Box bounds of features: finite, because Gymnasium warns of infinite ones.
_LIMIT = float(np.finfo(np.float32).max)


class EntitySpace(spaces.Dict):
    """Space of observations: typed entities, global features, and action masks.

    An observation is a dict of fresh arrays:

    - `"entities"`: for each type float32 (n, F), n free at every step, there when the space has types;
    - `"globals"`: float32 (G,), there when the space has global features;
    - `"actions"`: for each action the arrays that its action space describes;
    - `"visible"`: for each type int8 (n,), there when the space says `hidden=True`: 0 marks an entity
      that the value function may see and the policy may not;
    - `"frame"`: uint8 (H, W, C), a picture, there when the space says `frame=(H, W, C)`.

    Stricter than its parts: indices must be those of entities, masks must fit them and allow something in
    each row, and all features must be finite. `problem` says what is wrong.

    Raises:
        TypeError, ValueError: a name is no string or repeats, an argument is of the wrong kind, or `frame` is
            not three positive sizes.
    """

    def __init__(
        self,
        entities: Mapping[str, Sequence[str]],
        action_space: EntityActionSpace,
        global_features: Sequence[str] = (),
        hidden: bool = False,
        seed: int | None = None,
        frame: Sequence[int] | None = None,
    ) -> None:
        if not isinstance(action_space, EntityActionSpace):
            raise TypeError(f"action_space: expected an EntityActionSpace, got {action_space!r}")
        named_parts(entities, "entities")
        self.entities: dict[str, tuple[str, ...]] = {
            name: unique_names(features, f"{name}: feature names") for name, features in entities.items()
        }
        self.global_features: tuple[str, ...] = unique_names(global_features, "globals: feature names")
        self.actions = action_space
        self.hidden = hidden
        check_flags(self, "hidden")
        self.frame: tuple[int, int, int] | None = None if frame is None else _frame_shape(frame)
        parts: dict[str, spaces.Space[Any]] = {
            "actions": spaces.Dict(ordered({n: action_space[n].mask_space() for n in action_space}))
        }
        if self.entities:  # Gymnasium allows no empty Dict
            parts["entities"] = spaces.Dict(
                ordered({n: _rows_space(len(f)) for n, f in self.entities.items()})
            )
        if self.global_features:
            parts["globals"] = spaces.Box(-_LIMIT, _LIMIT, (len(self.global_features),), np.float32)
        if hidden:
            parts["visible"] = spaces.Dict(ordered({name: flag_space() for name in self.entities}))
        if self.frame is not None:
            parts["frame"] = spaces.Box(0, 255, self.frame, np.uint8)
        super().__init__(parts, seed)

    def problem(self, observation: Any) -> str | None:
        """Return why `observation` is not in the space, as a sentence; None if it is."""
        problem = keys_problem(observation, tuple(self.spaces))
        if problem:
            return f"the observation: {problem}"
        for key, names in (("entities", self.entities), ("actions", self.actions.spaces)):
            problem = keys_problem(observation.get(key, {}), tuple(names))
            if problem:
                return f"the observation's {key!r}: {problem}"
        return (
            self._entities_problem(observation)
            or self._globals_problem(observation)
            or self._visible_problem(observation)
            or self._frame_problem(observation)
            or self._actions_problem(observation)
        )

    def _entities_problem(self, observation: Mapping[str, Any]) -> str | None:
        for name, features in self.entities.items():
            rows = observation["entities"][name]
            problem = array_problem(rows, np.float32, (None, len(features)))
            if problem:
                return f"entity type {name!r} ({listed(features, str)}): {problem}"
            bad = np.argwhere(~np.isfinite(rows))
            if len(bad):
                entity, feature = bad[0]
                what = f"feature {features[feature]!r} of entity {entity}"
                return f"entity type {name!r}: {what}: expected a finite number, got {rows[entity, feature]}"
        return None

    def _globals_problem(self, observation: Mapping[str, Any]) -> str | None:
        if not self.global_features:
            return None
        values = observation["globals"]
        problem = array_problem(values, np.float32, (len(self.global_features),))
        if problem:
            return f"'globals' ({listed(self.global_features, str)}): {problem}"
        bad = np.flatnonzero(~np.isfinite(values))
        if not len(bad):
            return None
        return (
            f"global feature {self.global_features[bad[0]]!r}: expected a finite number, got {values[bad[0]]}"
        )

    def _visible_problem(self, observation: Mapping[str, Any]) -> str | None:
        if not self.hidden:
            return None
        problem = keys_problem(observation["visible"], tuple(self.entities))
        if problem:
            return f"the observation's 'visible': {problem}"
        for name in self.entities:
            flags = observation["visible"][name]
            problem = binary_problem(flags, (len(observation["entities"][name]),))
            if problem:
                return f"'visible' of entity type {name!r}: {problem}"
        return None

    def _frame_problem(self, observation: Mapping[str, Any]) -> str | None:
        if self.frame is None:
            return None
        problem = array_problem(observation["frame"], np.uint8, self.frame)
        return f"'frame': {problem}" if problem else None

    def _actions_problem(self, observation: Mapping[str, Any]) -> str | None:
        num_entities = sum(len(rows) for rows in observation.get("entities", {}).values())
        for name in self.actions:
            problem = self.actions[name].mask_problem(observation["actions"][name], num_entities)
            if problem:
                return f"action {name!r}: {problem}"
        return None

    def contains(self, x: Any) -> bool:
        return self.problem(x) is None

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> dict[str, Any]:
        """A random observation that holds together: up to five entities per type, some of them acting."""
        check_left_out("EntitySpace", mask=mask, probability=probability)
        rng = self.np_random
        entities = {
            name: rng.standard_normal((int(rng.integers(6)), len(features))).astype(np.float32)
            for name, features in self.entities.items()
        }
        num_entities = sum(map(len, entities.values()))
        observation: dict[str, Any] = {
            "actions": {name: self.actions[name].sample_mask(num_entities, rng) for name in self.actions}
        }
        if entities:
            observation["entities"] = entities
        if self.global_features:
            observation["globals"] = rng.standard_normal(len(self.global_features)).astype(np.float32)
        if self.hidden:
            counts = {name: len(rows) for name, rows in entities.items()}
            observation["visible"] = random_visible(counts, observation["actions"], rng)
        if self.frame is not None:
            observation["frame"] = rng.integers(256, size=self.frame, dtype=np.uint8)
        return observation

    def entity_name(self, counts: Sequence[int] | NDArray[np.int64], index: int) -> str:
        """Return the name of entity `index` in a step with `counts` (T,) entities per type: "Robot 1"."""
        given = index
        for name, count in zip(self.entities, counts, strict=True):
            if index < count:
                return f"{name} {index}"
            index -= int(count)
        raise IndexError(
            f"entity_name: no entity has this index: expected 0 to {sum(counts) - 1}, got {given}"
        )

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, EntitySpace)
            and list(self.entities.items()) == list(other.entities.items())
            and self.global_features == other.global_features
            and self.actions == other.actions
            and self.hidden == other.hidden
            and self.frame == other.frame
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        types = ", ".join(f"{n}[{len(f)}]" for n, f in self.entities.items())
        frame = "" if self.frame is None else f"frame{list(self.frame)}, "
        return f"EntitySpace({types}, globals[{len(self.global_features)}], {frame}{self.actions!r})"


def _frame_shape(given: Sequence[int]) -> tuple[int, int, int]:
    shape = tuple(given) if isinstance(given, Iterable) else ()
    is_size = [isinstance(size, int) and not isinstance(size, bool) and size > 0 for size in shape]
    if len(shape) != 3 or not all(is_size):
        raise ValueError(f"frame: expected three positive sizes (height, width, channels), got {given!r}")
    return shape


def _rows_space(num_features: int) -> RaggedSpace:
    """The entities of one type: float32 (n, F)."""
    return RaggedSpace(spaces.Box(-_LIMIT, _LIMIT, (num_features,), np.float32))


def random_visible(
    counts: Mapping[str, int], actions: Mapping[str, Any], rng: np.random.Generator
) -> dict[str, NDArray[np.int8]]:
    """Return random flags for `counts` entities per type; those that act or can be selected are visible."""
    flags = (rng.random(sum(counts.values())) < 0.7).astype(np.int8)
    for part in actions.values():
        for role in ("actors", "actees"):
            flags[part.get(role, [])] = 1
    ends = np.cumsum(list(counts.values()), dtype=np.int64)
    return {name: flags[end - count : end] for (name, count), end in zip(counts.items(), ends, strict=True)}
