"""RogueNet in Stable-Baselines3: what `entitize.sb3` is; see `docs/sb3.md` and `docs/sb3-padded.md`."""

import importlib.util

if importlib.util.find_spec("stable_baselines3") is None:
    raise ImportError("entitize.sb3 needs Stable-Baselines3: pip install 'entitize[sb3]'")

from .algorithms import PPO
from .buffer import RaggedRolloutBuffer
from .export import export_policy
from .extractor import RogueNetExtractor
from .sb3_policy import RogueNetPolicy
from .vec_env import RaggedVecEnv, make_vec, vec_env

__all__ = [
    "PPO",
    "RaggedRolloutBuffer",
    "RaggedVecEnv",
    "RogueNetExtractor",
    "RogueNetPolicy",
    "export_policy",
    "make_vec",
    "vec_env",
]
