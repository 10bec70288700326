"""What an entity environment is (floor 1: knows `ragged` and Gymnasium).

The names below load their modules on first use: `import entitize` registers the games of this package with
Gymnasium, and must not import Numba for that.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .batch import ActionMask as ActionMask
    from .batch import EntityBatch as EntityBatch
    from .batch import batch_observations as batch_observations
    from .batch import concatenate_batches as concatenate_batches
    from .batch import unbatch_observation as unbatch_observation
    from .batch_actions import no_actions as no_actions
    from .batch_actions import sample_actions as sample_actions
    from .batch_actions import validate_actions as validate_actions
    from .batch_buffer import EntityBatchBuffer as EntityBatchBuffer
    from .batch_spaces import EntityBatchActionSpace as EntityBatchActionSpace
    from .batch_spaces import EntityBatchSpace as EntityBatchSpace
    from .checker import check_entity_env as check_entity_env
    from .env import EntityEnv as EntityEnv
    from .errors import ActionError as ActionError
    from .errors import ConformanceError as ConformanceError
    from .errors import ObservationError as ObservationError
    from .errors import WorkerError as WorkerError
    from .infos import idle_lanes as idle_lanes
    from .infos import lane_infos as lane_infos
    from .list_vector import ListVectorEnv as ListVectorEnv
    from .multi_agent import MultiAgentEnv as MultiAgentEnv
    from .native import NativeVectorEnv as NativeVectorEnv
    from .native_env import NativeEnv as NativeEnv
    from .observation import CategoricalAction as CategoricalAction
    from .observation import CategoricalMask as CategoricalMask
    from .observation import ContinuousAction as ContinuousAction
    from .observation import ContinuousMask as ContinuousMask
    from .observation import GlobalCategoricalAction as GlobalCategoricalAction
    from .observation import GlobalCategoricalMask as GlobalCategoricalMask
    from .observation import GlobalContinuousAction as GlobalContinuousAction
    from .observation import GlobalContinuousMask as GlobalContinuousMask
    from .observation import MultiCategoricalAction as MultiCategoricalAction
    from .observation import MultiCategoricalMask as MultiCategoricalMask
    from .observation import Observation as Observation
    from .observation import SelectEntityAction as SelectEntityAction
    from .observation import SelectEntityMask as SelectEntityMask
    from .packed import PackedLayout as PackedLayout
    from .packed_spaces import PackedActionSpace as PackedActionSpace
    from .packed_spaces import PackedBatchSpace as PackedBatchSpace
    from .padded_space import PaddedSpace as PaddedSpace
    from .padding import PaddedLayout as PaddedLayout
    from .process_vector import ProcessVectorEnv as ProcessVectorEnv
    from .registration import make_vec as make_vec
    from .registration import register_env as register_env
    from .registration import register_vec as register_vec
    from .sharded_vector import ShardedVectorEnv as ShardedVectorEnv
    from .spaces import ActionSpace as ActionSpace
    from .spaces import Categorical as Categorical
    from .spaces import Continuous as Continuous
    from .spaces import EntityActionSpace as EntityActionSpace
    from .spaces import EntitySpace as EntitySpace
    from .spaces import GlobalCategorical as GlobalCategorical
    from .spaces import GlobalContinuous as GlobalContinuous
    from .spaces import MultiCategorical as MultiCategorical
    from .spaces import SelectEntity as SelectEntity
    from .vector import EntityVectorEnv as EntityVectorEnv

#: Module -> the public names that it defines.
_CONTENTS = {
    "batch": "ActionMask EntityBatch batch_observations concatenate_batches unbatch_observation",
    "batch_actions": "no_actions sample_actions validate_actions",
    "batch_buffer": "EntityBatchBuffer",
    "batch_spaces": "EntityBatchActionSpace EntityBatchSpace",
    "checker": "check_entity_env",
    "env": "EntityEnv",
    "errors": "ActionError ConformanceError ObservationError WorkerError",
    "infos": "idle_lanes lane_infos",
    "list_vector": "ListVectorEnv",
    "multi_agent": "MultiAgentEnv",
    "native": "NativeVectorEnv",
    "native_env": "NativeEnv",
    "observation": "CategoricalAction CategoricalMask ContinuousAction ContinuousMask GlobalCategoricalAction"
    " GlobalCategoricalMask GlobalContinuousAction GlobalContinuousMask MultiCategoricalAction"
    " MultiCategoricalMask Observation SelectEntityAction SelectEntityMask",
    "packed": "PackedLayout",
    "packed_spaces": "PackedActionSpace PackedBatchSpace",
    "padded_space": "PaddedSpace",
    "padding": "PaddedLayout",
    "process_vector": "ProcessVectorEnv",
    "registration": "make_vec register_env register_vec",
    "sharded_vector": "ShardedVectorEnv",
    "spaces": "ActionSpace Categorical Continuous EntityActionSpace EntitySpace GlobalCategorical"
    " GlobalContinuous MultiCategorical SelectEntity",
    "vector": "EntityVectorEnv",
}
_HOMES = {name: module for module, names in _CONTENTS.items() for name in names.split()}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
