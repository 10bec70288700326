"""`ez.actions`: one module per kind of action, with its space, its mask, its rules (see `ActionSpace`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...lazy import attach

if TYPE_CHECKING:
    from ..batch.batch_actions import illegal_actions as illegal_actions
    from ..batch.batch_actions import no_actions as no_actions
    from ..batch.batch_actions import sample_actions as sample_actions
    from ..batch.batch_actions import validate_actions as validate_actions
    from .action_mask import ActionMask as ActionMask
    from .action_space import ActionSpace as ActionSpace
    from .categorical import Categorical as Categorical
    from .categorical import CategoricalAction as CategoricalAction
    from .categorical import CategoricalMask as CategoricalMask
    from .categorical import GlobalCategorical as GlobalCategorical
    from .categorical import GlobalCategoricalAction as GlobalCategoricalAction
    from .categorical import GlobalCategoricalMask as GlobalCategoricalMask
    from .continuous import Continuous as Continuous
    from .continuous import ContinuousAction as ContinuousAction
    from .continuous import ContinuousMask as ContinuousMask
    from .continuous import GlobalContinuous as GlobalContinuous
    from .continuous import GlobalContinuousAction as GlobalContinuousAction
    from .continuous import GlobalContinuousMask as GlobalContinuousMask
    from .entity_action_space import EntityActionSpace as EntityActionSpace
    from .kinds import Action as Action
    from .kinds import Mask as Mask
    from .multi_categorical import MultiCategorical as MultiCategorical
    from .multi_categorical import MultiCategoricalAction as MultiCategoricalAction
    from .multi_categorical import MultiCategoricalMask as MultiCategoricalMask
    from .select_entity import SelectEntity as SelectEntity
    from .select_entity import SelectEntityAction as SelectEntityAction
    from .select_entity import SelectEntityMask as SelectEntityMask
else:
    __getattr__, __dir__, __all__ = attach(__name__)
