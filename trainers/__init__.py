"""Training, evaluation and checkpoints (floor 3)."""

from .advantages import generalized_advantages
from .checkpoint import Checkpoint, CheckpointError, checkpoint_paths, read_checkpoint
from .config import PPOConfig
from .evaluation import EpisodeResults, Interval, bootstrap_interval, evaluate, wilson_interval
from .guard import NonFiniteError
from .loading import load_policy
from .ppo import PPO
from .run_folder import RunFolder, read_metrics
from .trainer_state import StatefulVectorEnv

__all__ = [
    "PPO",
    "Checkpoint",
    "CheckpointError",
    "EpisodeResults",
    "Interval",
    "NonFiniteError",
    "PPOConfig",
    "RunFolder",
    "StatefulVectorEnv",
    "bootstrap_interval",
    "checkpoint_paths",
    "evaluate",
    "generalized_advantages",
    "load_policy",
    "read_checkpoint",
    "read_metrics",
    "wilson_interval",
]
