"""`ez.actions`: masks and choices of every kind of action; validation and sampling.

The spaces of actions are in `ez.spaces`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...lazy import attach

if TYPE_CHECKING:
    from ..batch.entity_batch import ActionMask as ActionMask
    from ..batch.observation import CategoricalAction as CategoricalAction
    from ..batch.observation import CategoricalMask as CategoricalMask
    from ..batch.observation import ContinuousAction as ContinuousAction
    from ..batch.observation import ContinuousMask as ContinuousMask
    from ..batch.observation import GlobalCategoricalAction as GlobalCategoricalAction
    from ..batch.observation import GlobalCategoricalMask as GlobalCategoricalMask
    from ..batch.observation import GlobalContinuousAction as GlobalContinuousAction
    from ..batch.observation import GlobalContinuousMask as GlobalContinuousMask
    from ..batch.observation import MultiCategoricalAction as MultiCategoricalAction
    from ..batch.observation import MultiCategoricalMask as MultiCategoricalMask
    from ..batch.observation import SelectEntityAction as SelectEntityAction
    from ..batch.observation import SelectEntityMask as SelectEntityMask
    from .batch_actions import no_actions as no_actions
    from .batch_actions import sample_actions as sample_actions
    from .batch_actions import validate_actions as validate_actions
else:
    __getattr__, __dir__, __all__ = attach(__name__)
