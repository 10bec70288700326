"""Training, evaluation and checkpoints (floor 3).

The names below load their modules on first use: what only reads checkpoints or metrics needs no trainer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import attach

if TYPE_CHECKING:
    from ..envs.vector.saved_state import EvolvingVectorEnv as EvolvingVectorEnv
    from ..envs.vector.saved_state import StatefulVectorEnv as StatefulVectorEnv
    from ..policies.loading import load_policy as load_policy
    from .advantages import explained_variance as explained_variance
    from .advantages import generalized_advantages as generalized_advantages
    from .config import PPOConfig as PPOConfig
    from .evaluation import EpisodeResults as EpisodeResults
    from .evaluation import Interval as Interval
    from .evaluation import RandomActor as RandomActor
    from .evaluation import bootstrap_interval as bootstrap_interval
    from .evaluation import evaluate as evaluate
    from .evaluation import wilson_interval as wilson_interval
    from .lanes import EpisodeStatistics as EpisodeStatistics
    from .lanes import Shown as Shown
    from .lanes import active_lanes as active_lanes
    from .ppo import PPO as PPO
    from .progress import Detail as Detail
    from .progress import TrainingProgress as TrainingProgress
    from .progress import can_redraw as can_redraw
    from .progress import clock_time as clock_time
    from .progress import detail_of as detail_of
    from .progress import say as say
    from .ranks import RankError as RankError
    from .ranks import process_group as process_group
    from .reward_normalization import RewardNormalizer as RewardNormalizer
    from .rollout import Samples as Samples
    from .runs.checkpoint import Checkpoint as Checkpoint
    from .runs.checkpoint import CheckpointError as CheckpointError
    from .runs.checkpoint import checkpoint_paths as checkpoint_paths
    from .runs.checkpoint import read_checkpoint as read_checkpoint
    from .runs.checkpoint import step_of as step_of
    from .runs.checkpoint import write_checkpoint as write_checkpoint
    from .runs.guard import NonFiniteError as NonFiniteError
    from .runs.locking import RunLockedError as RunLockedError
    from .runs.locking import run_lock as run_lock
    from .runs.run_folder import MetricsError as MetricsError
    from .runs.run_folder import RunFolder as RunFolder
    from .runs.run_folder import read_metrics as read_metrics
    from .runs.run_origin import RunPart as RunPart
    from .runs.run_origin import read_origin as read_origin
    from .runs.tracking import Tracker as Tracker
    from .runs.tracking import TrackerName as TrackerName
    from .schedule import annealed as annealed
    from .schedule import is_due as is_due
    from .schedule import thread_count as thread_count
    from .self_play.matches import MatchResults as MatchResults
    from .self_play.matches import play_matches as play_matches
    from .self_play.opponents import Opponent as Opponent
    from .self_play.opponents import OpponentPool as OpponentPool
    from .self_play.past_self_play import PastSelfPlay as PastSelfPlay
    from .self_play.past_self_play import past_self_play as past_self_play
else:
    __getattr__, __dir__, __all__ = attach(__name__)
