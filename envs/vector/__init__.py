"""`ez.vector`: vector environments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...lazy import attach

if TYPE_CHECKING:
    from ..seeds import lane_seeds as lane_seeds
    from .infos import inactive_lanes as inactive_lanes
    from .infos import join_infos as join_infos
    from .infos import lane_infos as lane_infos
    from .infos import merge_infos as merge_infos
    from .list_vector import ListVectorEnv as ListVectorEnv
    from .native import NativeVectorEnv as NativeVectorEnv
    from .native_env import NativeEnv as NativeEnv
    from .process_vector import ProcessVectorEnv as ProcessVectorEnv
    from .saved_state import EvolvingVectorEnv as EvolvingVectorEnv
    from .saved_state import StatefulVectorEnv as StatefulVectorEnv
    from .sharded_vector import ShardedVectorEnv as ShardedVectorEnv
    from .vector_env import Actions as Actions
    from .vector_env import EntityVectorEnv as EntityVectorEnv
    from .vector_env import GivenActions as GivenActions
    from .vector_env import PlayFunction as PlayFunction
    from .vector_env import StepResult as StepResult
    from .wrapper import EntityVectorWrapper as EntityVectorWrapper
else:
    __getattr__, __dir__, __all__ = attach(__name__, renamed={"idle_lanes": "inactive_lanes"})
