"""`ez.batch`: observations of one step and of many: batches, buffers, packing and padding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...lazy import attach

if TYPE_CHECKING:
    from ..actions.action_mask import ActionMask as ActionMask
    from .batch_buffer import EntityBatchBuffer as EntityBatchBuffer
    from .entity_batch import EntityBatch as EntityBatch
    from .entity_batch import batch_observations as batch_observations
    from .entity_batch import concatenate_batches as concatenate_batches
    from .entity_batch import unbatch_observation as unbatch_observation
    from .packed import PackedLayout as PackedLayout
    from .padding import PaddedLayout as PaddedLayout
    from .resolve import Observation as Observation
else:
    __getattr__, __dir__, __all__ = attach(__name__)
