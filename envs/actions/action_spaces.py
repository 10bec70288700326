"""Action spaces: what one named action of an entity environment is, and how its mask looks.

Shape alphabet: A actors, E actees, C choices.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import ItemsView, Mapping, Sequence
from enum import Enum, EnumType
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import DTypeLike, NDArray


def ordered(parts: Mapping[str, Any]) -> OrderedDict[str, Any]:
    """gymnasium.spaces.Dict sorts a plain dict's keys; the order of types and actions is ours to say."""
    return OrderedDict(parts)


class RaggedSpace(spaces.Sequence):
    """Stacked sequences of any length, the empty one included: arrays (n, *shape) of a Box's dtype.

    Gymnasium's own test of membership goes item by item, warns of numbers, and raises where it gets no array.
    """

    def __init__(self, box: spaces.Box, seed: int | None = None) -> None:
        self.box = box
        super().__init__(box, seed, stack=True)

    def contains(self, x: Any) -> bool:
        return array_problem(x, self.box.dtype, (None, *self.box.shape)) is None and bool(
            np.all((x >= self.box.low) & (x <= self.box.high))
        )


def index_space() -> RaggedSpace:
    """A ragged list of entity indices: int64 (n,)."""
    return RaggedSpace(spaces.Box(0, np.iinfo(np.int64).max, (), np.int64))


def flag_space(shape: tuple[int, ...] = ()) -> RaggedSpace:
    """A ragged list of 0/1 rows: int8 (n, *shape)."""
    return RaggedSpace(spaces.Box(0, 1, shape, np.int8))


def unique_names(names: Sequence[str], what: str) -> tuple[str, ...]:
    """`names` as a tuple; a `TypeError` or `ValueError` about `what` unless they are unique strings."""
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"{what} must be a list of strings, got {names!r}")
    repeated = sorted({name for name in names if list(names).count(name) > 1})
    if repeated:
        raise ValueError(f"{what} repeat: {', '.join(repeated)}")
    return tuple(names)


def array_problem(value: Any, dtype: DTypeLike, shape: tuple[int | None, ...]) -> str | None:
    """What is wrong with `value` as an array of this dtype and shape; a None in `shape` is any length."""
    wanted = f"an array of {np.dtype(dtype)} ({', '.join('n' if n is None else str(n) for n in shape)})"
    if not isinstance(value, np.ndarray):
        return f"must be {wanted}, got {type(value).__name__}"
    fits = value.ndim == len(shape) and all(n in (None, m) for n, m in zip(shape, value.shape, strict=True))
    if value.dtype != np.dtype(dtype) or not fits:
        return f"must be {wanted}, got {value.dtype} {value.shape}"
    return None


def keys_problem(part: Any, keys: Sequence[str]) -> str | None:
    """What is wrong with `part` as a dict with exactly these keys."""
    if not isinstance(part, dict):
        return f"must be a dict, got {type(part).__name__}"
    for key in keys:
        if key not in part:
            return f"lacks {key!r}"
    unknown = [key for key in part if key not in keys]
    return f"has the unknown key {unknown[0]!r}; known: {', '.join(map(repr, keys))}" if unknown else None


def indices_problem(value: Any, num_entities: int) -> str | None:
    """What is wrong with `value` as different entity indices below `num_entities`."""
    problem = array_problem(value, np.int64, (None,))
    if problem:
        return problem
    outside = value[(value < 0) | (value >= num_entities)]
    if outside.size:
        return f"name entity {outside[0]}, but there are {num_entities} entities"
    if len(np.unique(value)) < len(value):
        return "name an entity twice"
    return None


def binary_problem(value: Any, shape: tuple[int, ...]) -> str | None:
    """What is wrong with `value` as flags: int8 of this shape, 0 or 1."""
    problem = array_problem(value, np.int8, shape)
    if problem:
        return problem
    return None if np.isin(value, (0, 1)).all() else "must hold only 0 and 1"


def _flags_problem(value: Any, shape: tuple[int, ...], rows: tuple[int, int]) -> str | None:
    problem = binary_problem(value, shape)
    if problem:
        return problem
    nothing = np.flatnonzero(~value.astype(bool).reshape(rows).any(1))
    return f"allows nothing in row {nothing[0]}" if nothing.size else None


class ActionSpace(spaces.Space[NDArray[Any]], ABC):
    """One named action. Abstract: use `Categorical`, `MultiCategorical`, `SelectEntity` or `Continuous`, or
    one of the global ones.

    `sample(mask=…)` takes this action's part of an observation (`obs["actions"][name]`) and draws only legal
    choices; without a mask it orders nothing, because only an observation says who may act.
    """

    #: Whether it is performed once per step, by no entity in particular.
    is_global = False
    #: The shape of one actor's part of an action; its dtype is the space's `dtype`.
    item_shape: tuple[int, ...] = ()

    @abstractmethod
    def mask_space(self) -> spaces.Dict:
        """The space of this action's part of an observation."""

    @abstractmethod
    def mask_problem(self, part: Any, num_entities: int) -> str | None:
        """What is wrong with this action's part of an observation with `num_entities`, as half a sentence."""

    @abstractmethod
    def sample_mask(self, num_entities: int, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
        """A random legal part of an observation with `num_entities`."""

    @abstractmethod
    def sample(self, mask: Any | None = None, probability: Any | None = None) -> NDArray[Any]:
        """Draw a legal action for `mask`, this action's part of an observation."""

    @abstractmethod
    def contains_choices(self, choices: Any) -> bool:
        """Whether `choices` (n, …) are what this action could ever take, for any number of actors."""

    def contains(self, x: Any) -> bool:
        return self.contains_choices(x)

    @property
    def is_np_flattenable(self) -> bool:
        return False


class Categorical(ActionSpace):
    """Each actor picks one of a fixed list of choices.

    Action: int64 (A,), one choice per actor in the order of the observation's `actors`; (0,) orders nothing.
    Observation part: `actors` int64 (A,) entity indices, `mask` int8 (A, C), 1 = allowed.

    Raises:
        TypeError, ValueError: `choices` is neither a positive number nor a list of unique names nor an Enum.
    """

    def __init__(self, choices: Sequence[str] | int | type[Enum], seed: int | None = None) -> None:
        if isinstance(choices, int):
            names: Sequence[str] = [str(i) for i in range(choices)]
        else:
            names = [member.name for member in choices] if isinstance(choices, EnumType) else choices
        self.choices: tuple[str, ...] = unique_names(names, "choices")
        if not self.choices:
            raise ValueError("an action needs at least one choice")
        super().__init__(None, np.int64, seed)

    @property
    def num_choices(self) -> int:
        return len(self.choices)

    def mask_space(self) -> spaces.Dict:
        return spaces.Dict({"actors": index_space(), "mask": flag_space((self.num_choices,))})

    def mask_problem(self, part: Any, num_entities: int) -> str | None:
        problem = keys_problem(part, ("actors", "mask"))
        if problem:
            return problem
        problem = indices_problem(part["actors"], num_entities)
        if problem:
            return f"'actors' {problem}"
        shape = (len(part["actors"]), self.num_choices)
        problem = _flags_problem(part["mask"], shape, shape)
        return f"'mask' {problem}" if problem else None

    def sample_mask(self, num_entities: int, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
        actors = subset(num_entities, rng)
        return {"actors": actors, "mask": _flags((len(actors), self.num_choices), rng)}

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> NDArray[np.int64]:
        if mask is None:
            return np.zeros(0, np.int64)
        return _pick(np.asarray(mask["mask"], bool), self.np_random)

    def contains_choices(self, choices: Any) -> bool:
        return _are_integers(choices) and bool(np.all((choices >= 0) & (choices < self.num_choices)))

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.choices == other.choices

    def __hash__(self) -> int:
        return hash((type(self), self.choices))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self.choices)})"


class GlobalCategorical(Categorical):
    """One choice per step, made by no entity in particular.

    Action: int64 (1,), or (0,) to order nothing and at a step where the action is absent; a plain int or a
    0-d array is accepted too.
    Observation part: `mask` int8 (1, C), or (0, C) at a step where the action is absent.
    """

    is_global = True

    def mask_space(self) -> spaces.Dict:
        return spaces.Dict({"mask": flag_space((self.num_choices,))})

    def mask_problem(self, part: Any, num_entities: int) -> str | None:
        problem = keys_problem(part, ("mask",))
        if problem:
            return problem
        rows = len(part["mask"]) if isinstance(part["mask"], np.ndarray) and part["mask"].ndim else 1
        if rows > 1:
            return f"'mask' has {rows} rows, expected one, or none where the action is absent"
        problem = _flags_problem(part["mask"], (rows, self.num_choices), (rows, self.num_choices))
        return f"'mask' {problem}" if problem else None

    def sample_mask(self, num_entities: int, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
        return {"mask": _flags((int(rng.integers(2)), self.num_choices), rng)}

    def contains(self, x: Any) -> bool:
        choice = np.atleast_1d(np.asarray(x))
        return len(choice) <= 1 and self.contains_choices(choice)


class SelectEntity(ActionSpace):
    """Each actor picks one of the step's actees.

    Action: int64 (A,), the entity index of the actee that each actor picks; (0,) orders nothing.
    Observation part: `actors` int64 (A,), `actees` int64 (E,), `mask` int8 (A * E,), row-major actor × actee.
    """

    def __init__(self, seed: int | None = None) -> None:
        super().__init__(None, np.int64, seed)

    def mask_space(self) -> spaces.Dict:
        return spaces.Dict({"actors": index_space(), "actees": index_space(), "mask": flag_space()})

    def mask_problem(self, part: Any, num_entities: int) -> str | None:
        problem = keys_problem(part, ("actors", "actees", "mask"))
        if problem:
            return problem
        for side in ("actors", "actees"):
            problem = indices_problem(part[side], num_entities)
            if problem:
                return f"{side!r} {problem}"
        shape = (len(part["actors"]), len(part["actees"]))
        problem = _flags_problem(part["mask"], (shape[0] * shape[1],), shape)
        return f"'mask' {problem}" if problem else None

    def sample_mask(self, num_entities: int, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
        actors, actees = subset(num_entities, rng), subset(num_entities, rng)
        if not len(actees):
            actors = actors[:0]
        mask = _flags((len(actors), len(actees)), rng)
        return {"actors": actors, "actees": actees, "mask": mask.reshape(-1)}

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> NDArray[np.int64]:
        if mask is None or len(mask["actors"]) == 0:
            return np.zeros(0, np.int64)
        allowed = np.asarray(mask["mask"], bool).reshape(len(mask["actors"]), len(mask["actees"]))
        return np.asarray(mask["actees"])[_pick(allowed, self.np_random)].astype(np.int64)

    def contains_choices(self, choices: Any) -> bool:
        return _are_integers(choices) and bool(np.all(choices >= 0))

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return "SelectEntity()"


class EntityActionSpace(spaces.Dict):
    """The named actions of an environment; an action is a dict from name to array.

    `sample(mask=obs)` draws a legal action for an observation of the matching `EntitySpace`, or for its
    `obs["actions"]`; without a mask
    the sample orders nothing. A name that is left out of an action orders nothing either.
    """

    def __init__(self, actions: Mapping[str, ActionSpace], seed: int | None = None) -> None:
        unique_names(list(actions), "action names")
        for name, space in actions.items():
            if not isinstance(space, ActionSpace):
                raise TypeError(f"action {name!r} must be an entitize action space, got {space!r}")
        super().__init__(ordered(actions), seed)

    def __getitem__(self, name: str) -> ActionSpace:
        return self.spaces[name]  # type: ignore[return-value]

    def items(self) -> ItemsView[str, ActionSpace]:
        """(name, action space) in order."""
        return self.spaces.items()  # type: ignore[return-value]

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> dict[str, Any]:
        if mask is None:
            return {name: space.sample() for name, space in self.items()}
        masks = mask if mask.keys() == self.spaces.keys() else mask["actions"]
        return {name: space.sample(mask=masks[name]) for name, space in self.items()}

    def contains(self, x: Any) -> bool:
        return (
            isinstance(x, dict)
            and x.keys() <= self.spaces.keys()
            and all(self.spaces[name].contains(choice) for name, choice in x.items())
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EntityActionSpace) and list(self.items()) == list(other.items())

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"EntityActionSpace({', '.join(f'{k}={v!r}' for k, v in self.items())})"


def _are_integers(x: Any) -> bool:
    return isinstance(x, np.ndarray) and x.ndim == 1 and np.issubdtype(x.dtype, np.integer)


def _pick(allowed: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.int64]:
    """One allowed column per row of `allowed` (A, C): int64 (A,), uniform."""
    return np.where(allowed, rng.random(allowed.shape), -1.0).argmax(1).astype(np.int64)


def subset(count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Some of the first `count` entities, in random order."""
    return rng.permutation(count)[: int(rng.integers(count + 1))].astype(np.int64)


def _flags(shape: tuple[int, int], rng: np.random.Generator) -> NDArray[np.int8]:
    """Random 0/1 rows (A, C) with at least one 1 in each."""
    flags = rng.random(shape) < 0.7
    if flags.size:
        flags[np.arange(shape[0]), rng.integers(shape[1], size=shape[0])] = True
    return flags.astype(np.int8)
