"""The queue that trains the runs of an experiment, and the records of its runs.

The names below load their modules on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...lazy import attach

if TYPE_CHECKING:
    from .queue_flags import QueueFlags as QueueFlags
    from .queue_flags import chosen_names as chosen_names
    from .queue_flags import configured as configured
    from .queue_flags import places as places
    from .queue_flags import read_base as read_base
    from .queue_flags import run_jobs as run_jobs
    from .queue_flags import split_train_flags as split_train_flags
    from .run_child import LOCKED as LOCKED
    from .run_queue import QueueView as QueueView
    from .run_queue import RunQueue as RunQueue
    from .training_jobs import EXPERIMENT as EXPERIMENT
    from .training_jobs import EvaluationFlags as EvaluationFlags
    from .training_jobs import RunRecord as RunRecord
    from .training_jobs import TrainingJob as TrainingJob
    from .training_jobs import flat_settings as flat_settings
    from .training_jobs import in_order as in_order
    from .training_jobs import last_lines as last_lines
    from .training_jobs import last_metrics as last_metrics
    from .training_jobs import open_experiment as open_experiment
    from .training_jobs import read_experiment as read_experiment
    from .training_jobs import read_of_kind as read_of_kind
    from .training_jobs import read_run as read_run
    from .training_jobs import read_runs as read_runs
    from .training_jobs import read_sound_runs as read_sound_runs
    from .training_jobs import run_folder as run_folder
    from .training_jobs import write_experiment as write_experiment
else:
    __getattr__, __dir__, __all__ = attach(__name__)
