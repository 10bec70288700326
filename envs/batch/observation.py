"""`Observation`: how an environment's author says what there is and who may act.

Entities may be given ids (any hashable values); actors and actees are then named by id or by type, and
actions come back with the same ids. The plain dict that Gymnasium sees has entity indices instead.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike


@dataclass
class CategoricalMask:
    """Who may take a `Categorical` action: actors by id, by type, or (with neither) every entity."""

    actor_ids: Sequence[Hashable] | None = None
    actor_types: Sequence[str] | None = None
    mask: ArrayLike | None = None  # (A, C), true = allowed; None: everything is
    choices: Sequence[str] | None = None  # what the mask's columns mean, where that should be checked


@dataclass
class GlobalCategoricalMask:
    """That a `GlobalCategorical` action can be taken; leave it out of `actions` at a step where it can't."""

    mask: ArrayLike | None = None  # (C,), true = allowed; None: everything is
    choices: Sequence[str] | None = None  # what the mask's columns mean, where that should be checked


@dataclass
class SelectEntityMask:
    """Who may select whom with a `SelectEntity` action: each side by id, by type, or every entity."""

    actor_ids: Sequence[Hashable] | None = None
    actor_types: Sequence[str] | None = None
    actee_ids: Sequence[Hashable] | None = None
    actee_types: Sequence[str] | None = None
    mask: ArrayLike | None = None  # (A, E), true = allowed; None: everything is


@dataclass
class ContinuousMask:
    """Who takes a `Continuous` action: actors by id, by type, or (with neither) every entity."""

    actor_ids: Sequence[Hashable] | None = None
    actor_types: Sequence[str] | None = None


@dataclass
class GlobalContinuousMask:
    """That a `GlobalContinuous` action is taken at this step; leave it out of `actions` where it isn't."""


@dataclass
class MultiCategoricalMask:
    """Who gives a `MultiCategorical` order: actors by id, by type, or (with neither) every entity."""

    actor_ids: Sequence[Hashable] | None = None
    actor_types: Sequence[str] | None = None
    mask: ArrayLike | None = None  # (A, C), the components' masks side by side; None: everything is allowed


Mask = (
    CategoricalMask
    | GlobalCategoricalMask
    | SelectEntityMask
    | ContinuousMask
    | GlobalContinuousMask
    | MultiCategoricalMask
)


@dataclass
class Observation:
    """One step, as an environment's author writes it.

    A type that is left out has no entities; an action that is left out can't be taken by anybody.
    """

    entities: Mapping[str, ArrayLike] = field(default_factory=dict)  # per type (n, F)
    globals: ArrayLike = ()  # (G,)
    actions: Mapping[str, Mask] = field(default_factory=dict)
    ids: Mapping[str, Sequence[Hashable]] = field(default_factory=dict)  # per type, n ids; optional
    visible: Mapping[str, ArrayLike] = field(default_factory=dict)  # per type (n,) bool; left out: visible


@dataclass(frozen=True)
class CategoricalAction:
    """What the actors of a `Categorical` action were told to do, in the order of `actors`."""

    actors: list[Any]  # entity ids; entity indices where an entity has no id
    choices: np.ndarray  # (A,) int64
    labels: list[str]


@dataclass(frozen=True)
class GlobalCategoricalAction:
    """The choice made for a `GlobalCategorical` action."""

    choice: int
    label: str


@dataclass(frozen=True)
class SelectEntityAction:
    """Which entity each actor of a `SelectEntity` action selected."""

    actors: list[Any]  # entity ids; entity indices where an entity has no id
    actees: list[Any]


@dataclass(frozen=True)
class ContinuousAction:
    """The numbers that the actors of a `Continuous` action were given, in the order of `actors`."""

    actors: list[Any]  # entity ids; entity indices where an entity has no id
    values: np.ndarray  # (A, K) float32


@dataclass(frozen=True)
class GlobalContinuousAction:
    """The numbers chosen for a `GlobalContinuous` action."""

    values: np.ndarray  # (K,) float32


@dataclass(frozen=True)
class MultiCategoricalAction:
    """The composite orders that the actors of a `MultiCategorical` action were given, in `actors`' order."""

    actors: list[Any]  # entity ids; entity indices where an entity has no id
    choices: np.ndarray  # (A, M) int64
    labels: list[dict[str, str]]  # per actor the choice of each component that its kind uses, by name


Action = (
    CategoricalAction
    | GlobalCategoricalAction
    | SelectEntityAction
    | ContinuousAction
    | GlobalContinuousAction
    | MultiCategoricalAction
)
