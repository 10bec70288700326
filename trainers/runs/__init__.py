"""Run folders, checkpoints, trainer state.

The names below load their modules on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...lazy import attach

if TYPE_CHECKING:
    from .checkpoint import Checkpoint as Checkpoint
    from .checkpoint import CheckpointError as CheckpointError
    from .checkpoint import checkpoint_paths as checkpoint_paths
    from .checkpoint import clear_leftovers as clear_leftovers
    from .checkpoint import delete_checkpoint as delete_checkpoint
    from .checkpoint import read_checkpoint as read_checkpoint
    from .checkpoint import step_of as step_of
    from .checkpoint import write_checkpoint as write_checkpoint
    from .guard import NonFiniteError as NonFiniteError
    from .guard import check_batch as check_batch
    from .locking import RunLockedError as RunLockedError
    from .locking import run_lock as run_lock
    from .run_folder import MetricsError as MetricsError
    from .run_folder import RunFolder as RunFolder
    from .run_folder import read_metrics as read_metrics
    from .run_origin import RunPart as RunPart
    from .run_origin import read_origin as read_origin
    from .tracking import Tracker as Tracker
    from .tracking import TrackerName as TrackerName
    from .trainer_state import EvolvingVectorEnv as EvolvingVectorEnv
    from .trainer_state import StatefulVectorEnv as StatefulVectorEnv
else:
    __getattr__, __dir__, __all__ = attach(__name__)
