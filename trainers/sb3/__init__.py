"""RogueNet in Stable-Baselines3: what `entitize.sb3` is.

import entitize as ez
from stable_baselines3 import PPO

venv = ez.sb3.make_vec("Procgen/bigfish", num_envs=64)
model = PPO(ez.sb3.RogueNetPolicy, venv, rollout_buffer_class=ez.sb3.RaggedRolloutBuffer)
"""

import importlib.util

if importlib.util.find_spec("stable_baselines3") is None:
    raise ImportError("entitize.sb3 needs Stable-Baselines3: pip install 'entitize[sb3]'")

from ...adapters.sb3 import RaggedVecEnv, make_vec, vec_env
from ...policies.sb3 import RogueNetExtractor, RogueNetPolicy
from .algorithms import PPO
from .buffer import RaggedRolloutBuffer
from .export import export_policy

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
