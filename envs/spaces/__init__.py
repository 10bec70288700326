"""`ez.spaces`: spaces of entity environments: observations, actions, batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...lazy import attach

if TYPE_CHECKING:
    from ..actions.action_space import ActionSpace as ActionSpace
    from ..actions.categorical import Categorical as Categorical
    from ..actions.categorical import GlobalCategorical as GlobalCategorical
    from ..actions.continuous import Continuous as Continuous
    from ..actions.continuous import GlobalContinuous as GlobalContinuous
    from ..actions.entity_action_space import EntityActionSpace as EntityActionSpace
    from ..actions.multi_categorical import MultiCategorical as MultiCategorical
    from ..actions.select_entity import SelectEntity as SelectEntity
    from ..batch.batch_spaces import EntityBatchActionSpace as EntityBatchActionSpace
    from ..batch.batch_spaces import EntityBatchSpace as EntityBatchSpace
    from ..batch.packed_spaces import PackedActionSpace as PackedActionSpace
    from ..batch.packed_spaces import PackedBatchSpace as PackedBatchSpace
    from ..batch.padding import PaddedSpace as PaddedSpace
    from .entity_space import EntitySpace as EntitySpace
else:
    __getattr__, __dir__, __all__ = attach(__name__)
