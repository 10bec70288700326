"""Spaces of entity environments: what there may be to see and to do.

An observation is a nested dict (see `EntitySpace`); an action is a dict from action names to arrays (see the
action spaces). Both are plain Gymnasium spaces, so an entity environment is a legal Gymnasium environment.

Entity *indices* count through the types in the order of the space: with two mines and one robot, and types
ordered (Mine, Robot), the mines are 0 and 1 and the robot is 2. Actors and actees are such indices.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

#: Box bounds of features: finite, because Gymnasium warns of infinite ones.
_LIMIT = float(np.finfo(np.float32).max)


def _ordered(parts: Mapping[str, Any]) -> OrderedDict[str, Any]:
    """gymnasium.spaces.Dict sorts a plain dict's keys; the order of types and actions is ours to say."""
    return OrderedDict(parts)


def _index_space() -> spaces.Sequence:
    """A ragged list of entity indices: int64 (n,)."""
    return spaces.Sequence(spaces.Box(0, np.iinfo(np.int64).max, (), np.int64), stack=True)


def _flag_space(shape: tuple[int, ...] = ()) -> spaces.Sequence:
    """A ragged list of 0/1 rows: int8 (n, *shape)."""
    return spaces.Sequence(spaces.Box(0, 1, shape, np.int8), stack=True)


class ActionSpace(spaces.Space[NDArray[np.int64]]):
    """One named action. Abstract: use `Categorical`, `GlobalCategorical` or `SelectEntity`.

    `sample(mask=…)` takes this action's part of an observation (`obs["actions"][name]`) and draws only legal
    choices; without a mask it orders nothing for per-entity actions, because only an observation says who acts.
    """

    def mask_space(self) -> spaces.Dict:
        """The space of this action's part of an observation."""
        raise NotImplementedError

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> NDArray[np.int64]:
        """Draw a legal action for `mask`, this action's part of an observation."""
        raise NotImplementedError


class Categorical(ActionSpace):
    """Each actor picks one of a fixed list of choices.

    Action: int64 (A,), one choice per actor in the order of the observation's `actors`.
    Observation part: `actors` int64 (A,) entity indices, `mask` int8 (A, C), 1 = allowed.
    """

    def __init__(self, choices: Sequence[str] | int, seed: int | None = None) -> None:
        self.choices: tuple[str, ...] = (
            tuple(map(str, range(choices))) if isinstance(choices, int) else tuple(choices)
        )
        if not self.choices:
            raise ValueError("an action needs at least one choice")
        super().__init__(None, np.int64, seed)

    @property
    def num_choices(self) -> int:
        return len(self.choices)

    def mask_space(self) -> spaces.Dict:
        return spaces.Dict({"actors": _index_space(), "mask": _flag_space((self.num_choices,))})

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> NDArray[np.int64]:
        if mask is None:
            return np.zeros(0, np.int64)
        scores = self.np_random.random(np.shape(mask["mask"]))
        return np.where(np.asarray(mask["mask"], bool), scores, -1.0).argmax(-1).astype(np.int64)

    def contains(self, x: Any) -> bool:
        return (
            isinstance(x, np.ndarray)
            and x.ndim == 1
            and np.issubdtype(x.dtype, np.integer)
            and bool(np.all((x >= 0) & (x < self.num_choices)))
        )

    @property
    def is_np_flattenable(self) -> bool:
        return False

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.choices == other.choices  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((type(self), self.choices))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self.choices)})"


class GlobalCategorical(Categorical):
    """One choice per step, made by no entity in particular.

    Action: int64 (1,), or (0,) at a step where the action is absent; a plain int is accepted too.
    Observation part: `mask` int8 (1, C), or (0, C) at a step where the action is absent.
    """

    def mask_space(self) -> spaces.Dict:
        return spaces.Dict({"mask": _flag_space((self.num_choices,))})

    def contains(self, x: Any) -> bool:
        return super().contains(np.atleast_1d(np.asarray(x)))


class SelectEntity(ActionSpace):
    """Each actor picks one of the step's actees.

    Action: int64 (A,), the entity index of the actee that each actor picks.
    Observation part: `actors` int64 (A,), `actees` int64 (E,), `mask` int8 (A * E,), row-major actor × actee.
    """

    def __init__(self, seed: int | None = None) -> None:
        super().__init__(None, np.int64, seed)

    def mask_space(self) -> spaces.Dict:
        return spaces.Dict({"actors": _index_space(), "actees": _index_space(), "mask": _flag_space()})

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> NDArray[np.int64]:
        if mask is None or len(mask["actors"]) == 0:
            return np.zeros(0, np.int64)
        allowed = np.asarray(mask["mask"], bool).reshape(len(mask["actors"]), len(mask["actees"]))
        scores = np.where(allowed, self.np_random.random(allowed.shape), -1.0)
        return np.asarray(mask["actees"])[scores.argmax(1)].astype(np.int64)

    def contains(self, x: Any) -> bool:
        return (
            isinstance(x, np.ndarray)
            and x.ndim == 1
            and np.issubdtype(x.dtype, np.integer)
            and bool(np.all(x >= 0))
        )

    @property
    def is_np_flattenable(self) -> bool:
        return False

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return "SelectEntity()"


class EntityActionSpace(spaces.Dict):
    """The named actions of an environment; an action is a dict from name to array.

    `sample(mask=obs)` draws a legal action for an observation of the matching `EntitySpace`.
    """

    def __init__(self, actions: Mapping[str, ActionSpace], seed: int | None = None) -> None:
        for name, space in actions.items():
            if not isinstance(space, ActionSpace):
                raise TypeError(f"action {name!r} must be an entitize action space, got {space!r}")
        super().__init__(_ordered(actions), seed)

    def __getitem__(self, name: str) -> ActionSpace:
        return self.spaces[name]  # type: ignore[return-value]

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> dict[str, Any]:
        if mask is None:
            return {name: space.sample() for name, space in self.spaces.items()}
        masks = mask["actions"] if "actions" in mask else mask
        return {name: space.sample(mask=masks[name]) for name, space in self.spaces.items()}

    def __repr__(self) -> str:
        return f"EntityActionSpace({', '.join(f'{k}={v!r}' for k, v in self.spaces.items())})"


class EntitySpace(spaces.Dict):
    """What can be seen: typed entities, global features, and who may do what.

    An observation is a dict of fresh arrays:

    - `"entities"`: for each type float32 (n, F), n free at every step;
    - `"globals"`: float32 (G,), there when the space has global features;
    - `"actions"`: for each action the arrays that its action space describes;
    - `"visible"`: for each type int8 (n,), there when the space says `hidden=True`: 0 marks an entity
      that the value function may see and the policy may not.
    """

    def __init__(
        self,
        entities: Mapping[str, Sequence[str]],
        action_space: EntityActionSpace,
        global_features: Sequence[str] = (),
        hidden: bool = False,
        seed: int | None = None,
    ) -> None:
        self.entities: dict[str, tuple[str, ...]] = {name: tuple(f) for name, f in entities.items()}
        self.global_features: tuple[str, ...] = tuple(global_features)
        self.actions = action_space
        self.hidden = hidden
        for name, features in (*self.entities.items(), ("globals", self.global_features)):
            repeated = {f for f in features if features.count(f) > 1}
            if repeated:
                raise ValueError(f"{name}: feature names repeat: {sorted(repeated)}")
        parts: dict[str, spaces.Space[Any]] = {
            "entities": spaces.Dict(_ordered({n: self._rows(len(f)) for n, f in self.entities.items()})),
            "actions": spaces.Dict(_ordered({n: action_space[n].mask_space() for n in action_space})),
        }
        if self.global_features:
            parts["globals"] = spaces.Box(-_LIMIT, _LIMIT, (len(self.global_features),), np.float32)
        if hidden:
            parts["visible"] = spaces.Dict(_ordered({name: _flag_space() for name in self.entities}))
        super().__init__(parts, seed)

    @staticmethod
    def _rows(num_features: int) -> spaces.Sequence:
        return spaces.Sequence(spaces.Box(-_LIMIT, _LIMIT, (num_features,), np.float32), stack=True)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, EntitySpace)
            and list(self.entities.items()) == list(other.entities.items())
            and self.global_features == other.global_features
            and self.actions == other.actions
            and self.hidden == other.hidden
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        types = ", ".join(f"{n}[{len(f)}]" for n, f in self.entities.items())
        return f"EntitySpace({types}, globals[{len(self.global_features)}], {self.actions!r})"
