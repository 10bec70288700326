"""Discrete actions: `Categorical`, one choice per actor, and `GlobalCategorical`, one per step.

Shape alphabet: A actors, C choices.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from ...ragged.compiled import compiled
from ...suggestions import listed, numbered
from .action_mask import ActionMask, allowed_choice, count_allowed
from .action_space import LEGAL, ActionSpace
from .array_checks import choice_names, choice_number, random_flags, random_subset
from .mask_reader import MaskReader

_NO_ENTITY = np.full(1, -1, np.int64)


@dataclass
class CategoricalMask:
    """The actors of a `Categorical` action, by id, type or (with neither) every entity, and their masks."""

    actor_ids: Sequence[Hashable] | None = None
    actor_types: Sequence[str] | None = None
    mask: ArrayLike | None = None  # (A, C), true = allowed; None: all choices are
    choices: Sequence[str] | None = None  # what the mask's columns mean, where that should be checked


@dataclass
class GlobalCategoricalMask:
    """The mask of a `GlobalCategorical` action; leave it out of `actions` where there is no choice."""

    mask: ArrayLike | None = None  # (C,), true = allowed; None: all choices are
    choices: Sequence[str] | None = None  # what the mask's columns mean, where that should be checked


@dataclass(frozen=True)
class CategoricalAction:
    """The choices of the actors of a `Categorical` action, in the order of `actors`."""

    actors: list[Any]  # entity ids; entity indices where an entity has no id
    choices: NDArray[np.int64]  # (A,)
    labels: list[str]


@dataclass(frozen=True)
class GlobalCategoricalAction:
    """The choice made for a `GlobalCategorical` action."""

    choice: int
    label: str


class Categorical(ActionSpace):
    """Each actor picks one of a fixed list of choices.

    Action: int64 (A,), one choice per actor in the order of the observation's `actors`.
    Observation part: `actors` int64 (A,) entity indices, `mask` int8 (A, C), 1 = allowed.

    Raises:
        TypeError, ValueError: `choices` is neither a positive number nor a list of unique names nor an Enum.
    """

    mask_type: ClassVar[type] = CategoricalMask

    def __init__(self, choices: Sequence[str] | int | type[Enum], seed: int | None = None) -> None:
        self.choices: tuple[str, ...] = choice_names(choices, "choices")
        super().__init__(None, np.int64, seed)

    @property
    def num_choices(self) -> int:
        """Number of choices C, the columns of the mask."""
        return len(self.choices)

    @property
    def mask_columns(self) -> int:
        return len(self.choices)

    def sample_mask(self, num_entities: int, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
        actors = random_subset(num_entities, rng)
        return {"actors": actors, "mask": random_flags((len(actors), self.num_choices), rng)}

    def _resolved(self, given: CategoricalMask, step: MaskReader) -> ActionMask:
        self._check_choices(given.choices, step)
        actors = step.indices("actor", given.actor_ids, given.actor_types)
        shape = (len(actors), self.num_choices)
        return self.one_step(
            actors, np.ones(shape, bool) if given.mask is None else step.flags(given.mask, shape)
        )

    def _check_choices(self, given: Sequence[str] | None, step: MaskReader) -> None:
        if given is not None and tuple(given) != self.choices:
            expected, got = listed(self.choices, str), listed(tuple(given), str)
            step.fail(f"choices of the mask: expected {expected}, got {got}")

    # -- rules ----------------------------------------------------------------------------------------------

    def actor_without_choice(self, part: ActionMask) -> tuple[int, str] | None:
        row = int(_first_without_choice(part.mask.values))
        return None if row < 0 else (row, "expected at least one allowed choice, got none")

    def draw(self, part: ActionMask, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw uniformly from the allowed choices."""
        return _drawn(part.mask.values, rng.random(len(part.mask.values)))

    def first_illegal(self, items: NDArray[np.int64], part: ActionMask) -> int:
        return int(_first_illegal(items, part.mask.values))

    def explain(self, item: Any, part: ActionMask, row: int, entity: Callable[[int], str]) -> str:
        legal = np.flatnonzero(part.mask.values[row]).tolist()
        allowed = listed(legal, lambda choice: numbered(choice, repr(self.choices[choice])), "no choices")
        choice = numbered(item, repr(self.choices[item])) if 0 <= item < self.num_choices else item
        return f"choice {choice} is not allowed: expected one of {allowed}"

    def replace_illegal(self, items: NDArray[np.int64], part: ActionMask) -> tuple[NDArray[np.int64], int]:
        mask = part.mask.values
        inside = items.clip(0, self.num_choices - 1)
        legal = (inside == items) & mask[np.arange(len(items)), inside]
        return np.where(legal, items, mask.argmax(1)), len(items) - int(legal.sum())

    @property
    def bounds(self) -> tuple[int, int]:
        return 0, self.num_choices - 1

    # -- other forms ----------------------------------------------------------------------------------------

    def to_author(
        self, actors: list[Any], items: NDArray[np.int64], names: Sequence[Any]
    ) -> CategoricalAction | GlobalCategoricalAction | None:
        return CategoricalAction(actors, items, [self.choices[choice] for choice in items.tolist()])

    def from_author(self, given: Mapping[str, Any]) -> Sequence[Any]:
        if "choices" in given:
            return list(given["choices"])
        return [choice_number(self.choices, label) for label in given["labels"]]

    def masked_items(self, part: ActionMask) -> Iterator[tuple[str, int, Any]]:
        masked = np.argwhere(~part.mask.values)
        if len(masked):
            yield "choice", int(masked[0][0]), int(masked[0][1])

    def gymnasium_space(self, num_actees: int) -> spaces.Discrete:
        return spaces.Discrete(self.num_choices)

    def schema(self) -> dict[str, Any]:
        return {"choices": list(self.choices)}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self.choices)})"


class GlobalCategorical(Categorical):
    """One choice per step, made by no entity in particular.

    Action: int64 (1,), or (0,) at a step where the action is absent; a plain int or a 0-d array is accepted
    too.
    Observation part: `mask` int8 (1, C), or (0, C) at a step where the action is absent.
    """

    is_global = True
    mask_type = GlobalCategoricalMask

    def sample_mask(self, num_entities: int, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
        return {"mask": random_flags((int(rng.integers(2)), self.num_choices), rng)}

    def _resolved(self, given: GlobalCategoricalMask, step: MaskReader) -> ActionMask:  # type: ignore[override]
        self._check_choices(given.choices, step)
        if given.mask is None:
            return self.one_step(_NO_ENTITY, np.ones((1, self.num_choices), bool))
        return self.one_step(_NO_ENTITY, step.flags(given.mask, (self.num_choices,))[None])

    def to_author(
        self, actors: list[Any], items: NDArray[np.int64], names: Sequence[Any]
    ) -> GlobalCategoricalAction | None:
        if not len(items):
            return None
        return GlobalCategoricalAction(int(items[0]), self.choices[int(items[0])])

    def from_author(self, given: Mapping[str, Any]) -> Sequence[Any]:
        return [given["choice"] if "choice" in given else choice_number(self.choices, given["label"])]

    def per_actor(self) -> Categorical:
        return Categorical(self.choices)


@compiled
def _first_without_choice(mask: NDArray[np.bool_]) -> int:
    """The first row of `mask` (A, C) that allows nothing; -1: none."""
    for actor in range(len(mask)):
        if count_allowed(mask[actor]) == 0:
            return actor
    return -1


@compiled
def _first_illegal(choices: NDArray[np.int64], mask: NDArray[np.bool_]) -> int:
    """Kernel of `ActionSpace.first_illegal` for `choices` (A,) with `mask` (A, C)."""
    for actor in range(len(choices)):
        choice = choices[actor]
        if choice < 0 or choice >= mask.shape[1] or not mask[actor, choice]:
            return actor
    return LEGAL


@compiled
def _drawn(mask: NDArray[np.bool_], uniform: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return for each row of `mask` (A, C) the allowed choice at the fraction `uniform` (A,) of them all."""
    choices = np.empty(len(mask), np.int64)
    for actor in range(len(mask)):
        choices[actor] = allowed_choice(mask[actor], uniform[actor])
    return choices
