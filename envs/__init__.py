"""Entity environments: spaces, observations, actions, vector environments (floor 1: `ragged` and Gymnasium).

The names below load their modules at first use: `import entitize` registers the built-in games with
Gymnasium, and must not import Numba for that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import attach

if TYPE_CHECKING:
    from .actions.action_mask import ActionMask as ActionMask
    from .actions.action_space import ActionSpace as ActionSpace
    from .actions.categorical import Categorical as Categorical
    from .actions.categorical import CategoricalAction as CategoricalAction
    from .actions.categorical import CategoricalMask as CategoricalMask
    from .actions.categorical import GlobalCategorical as GlobalCategorical
    from .actions.categorical import GlobalCategoricalAction as GlobalCategoricalAction
    from .actions.categorical import GlobalCategoricalMask as GlobalCategoricalMask
    from .actions.continuous import Continuous as Continuous
    from .actions.continuous import ContinuousAction as ContinuousAction
    from .actions.continuous import ContinuousMask as ContinuousMask
    from .actions.continuous import GlobalContinuous as GlobalContinuous
    from .actions.continuous import GlobalContinuousAction as GlobalContinuousAction
    from .actions.continuous import GlobalContinuousMask as GlobalContinuousMask
    from .actions.entity_action_space import EntityActionSpace as EntityActionSpace
    from .actions.multi_categorical import MultiCategorical as MultiCategorical
    from .actions.multi_categorical import MultiCategoricalAction as MultiCategoricalAction
    from .actions.multi_categorical import MultiCategoricalMask as MultiCategoricalMask
    from .actions.select_entity import SelectEntity as SelectEntity
    from .actions.select_entity import SelectEntityAction as SelectEntityAction
    from .actions.select_entity import SelectEntityMask as SelectEntityMask
    from .batch.batch_actions import no_actions as no_actions
    from .batch.batch_actions import sample_actions as sample_actions
    from .batch.batch_actions import validate_actions as validate_actions
    from .batch.batch_buffer import EntityBatchBuffer as EntityBatchBuffer
    from .batch.batch_spaces import EntityBatchActionSpace as EntityBatchActionSpace
    from .batch.batch_spaces import EntityBatchSpace as EntityBatchSpace
    from .batch.entity_batch import EntityBatch as EntityBatch
    from .batch.entity_batch import batch_observations as batch_observations
    from .batch.entity_batch import concatenate_batches as concatenate_batches
    from .batch.entity_batch import unbatch_observation as unbatch_observation
    from .batch.packed import PackedLayout as PackedLayout
    from .batch.packed_spaces import PackedActionSpace as PackedActionSpace
    from .batch.packed_spaces import PackedBatchSpace as PackedBatchSpace
    from .batch.padding import PaddedLayout as PaddedLayout
    from .batch.padding import PaddedSpace as PaddedSpace
    from .batch.resolve import Observation as Observation
    from .checker import check_entity_env as check_entity_env
    from .entity_game import EntityGame as EntityGame
    from .env import EntityEnv as EntityEnv
    from .errors import ActionError as ActionError
    from .errors import ConformanceError as ConformanceError
    from .errors import ObservationError as ObservationError
    from .errors import WorkerError as WorkerError
    from .multi_agent import MultiAgentEnv as MultiAgentEnv
    from .overview import Overview as Overview
    from .registration import named_code as named_code
    from .registration import register_env as register_env
    from .registration import register_games as register_games
    from .registration import register_vec as register_vec
    from .spaces.entity_space import EntitySpace as EntitySpace
    from .spaces.space_schema import schema_difference as schema_difference
    from .spaces.space_schema import space_from_schema as space_from_schema
    from .spaces.space_schema import space_schema as space_schema
    from .vector.infos import inactive_lanes as inactive_lanes
    from .vector.infos import lane_infos as lane_infos
    from .vector.list_vector import ListVectorEnv as ListVectorEnv
    from .vector.native import NativeVectorEnv as NativeVectorEnv
    from .vector.native_env import NativeEnv as NativeEnv
    from .vector.process_vector import ProcessVectorEnv as ProcessVectorEnv
    from .vector.sharded_vector import ShardedVectorEnv as ShardedVectorEnv
    from .vector.vector_env import EntityVectorEnv as EntityVectorEnv
    from .window import Window as Window
else:
    #: Former name -> today's.
    _RENAMED = {"idle_lanes": "inactive_lanes", "make_vec": "entitize.make_vec"}
    __getattr__, __dir__, __all__ = attach(__name__, renamed=_RENAMED)
