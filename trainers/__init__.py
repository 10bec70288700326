"""Training, evaluation and checkpoints (floor 3)."""

from ..policies.loading import load_policy
from .advantages import generalized_advantages
from .config import PPOConfig
from .evaluation import EpisodeResults, Interval, bootstrap_interval, evaluate, wilson_interval
from .ppo import PPO
from .rollout import Samples
from .runs.checkpoint import Checkpoint, CheckpointError, checkpoint_paths, read_checkpoint
from .runs.guard import NonFiniteError
from .runs.run_folder import RunFolder, read_metrics
from .runs.trainer_state import EvolvingVectorEnv, StatefulVectorEnv
from .self_play.opponents import Opponent, OpponentPool
from .self_play.past_self_play import PastSelfPlay, past_self_play

__all__ = [
    "PPO",
    "Checkpoint",
    "CheckpointError",
    "EpisodeResults",
    "EvolvingVectorEnv",
    "Interval",
    "NonFiniteError",
    "Opponent",
    "OpponentPool",
    "PPOConfig",
    "PastSelfPlay",
    "RunFolder",
    "Samples",
    "StatefulVectorEnv",
    "bootstrap_interval",
    "checkpoint_paths",
    "evaluate",
    "generalized_advantages",
    "load_policy",
    "past_self_play",
    "read_checkpoint",
    "read_metrics",
    "wilson_interval",
]
