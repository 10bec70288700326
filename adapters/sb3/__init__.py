"""Entity vector environments for Stable-Baselines3."""

from .vec_env import RaggedVecEnv, make_vec, vec_env

__all__ = ["RaggedVecEnv", "make_vec", "vec_env"]
