"""The kinds of actions, listed once: a new kind is a module of its own and one more entry here."""

from __future__ import annotations

from .action_space import ActionSpace
from .categorical import (
    Categorical,
    CategoricalAction,
    CategoricalMask,
    GlobalCategorical,
    GlobalCategoricalAction,
    GlobalCategoricalMask,
)
from .continuous import (
    Continuous,
    ContinuousAction,
    ContinuousMask,
    GlobalContinuous,
    GlobalContinuousAction,
    GlobalContinuousMask,
)
from .multi_categorical import MultiCategorical, MultiCategoricalAction, MultiCategoricalMask
from .select_entity import SelectEntity, SelectEntityAction, SelectEntityMask

#: By the name that stands in schemas.
KINDS: dict[str, type[ActionSpace]] = {
    kind.__name__: kind
    for kind in (
        Categorical,
        GlobalCategorical,
        SelectEntity,
        Continuous,
        GlobalContinuous,
        MultiCategorical,
    )
}

#: What an author puts into `Observation.actions`.
Mask = (
    CategoricalMask
    | GlobalCategoricalMask
    | SelectEntityMask
    | ContinuousMask
    | GlobalContinuousMask
    | MultiCategoricalMask
)

#: What an author's `_step` gets.
Action = (
    CategoricalAction
    | GlobalCategoricalAction
    | SelectEntityAction
    | ContinuousAction
    | GlobalContinuousAction
    | MultiCategoricalAction
)
