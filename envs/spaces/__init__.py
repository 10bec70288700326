"""`ez.spaces`: spaces of entity environments: observations, actions, batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...lazy import attach

if TYPE_CHECKING:
    from ..batch.packed_spaces import PackedActionSpace as PackedActionSpace
    from ..batch.packed_spaces import PackedBatchSpace as PackedBatchSpace
    from ..batch.padded_space import PaddedSpace as PaddedSpace
    from .batch_spaces import EntityBatchActionSpace as EntityBatchActionSpace
    from .batch_spaces import EntityBatchSpace as EntityBatchSpace
    from .entity_space import ActionSpace as ActionSpace
    from .entity_space import Categorical as Categorical
    from .entity_space import Continuous as Continuous
    from .entity_space import EntityActionSpace as EntityActionSpace
    from .entity_space import EntitySpace as EntitySpace
    from .entity_space import GlobalCategorical as GlobalCategorical
    from .entity_space import GlobalContinuous as GlobalContinuous
    from .entity_space import MultiCategorical as MultiCategorical
    from .entity_space import SelectEntity as SelectEntity
else:
    __getattr__, __dir__, __all__ = attach(__name__)
