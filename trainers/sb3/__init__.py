"""`ez.sb3`: RogueNet in Stable-Baselines3; see `docs/sb3.md` and `docs/sb3-padded.md`."""

import contextlib
import importlib.util
import io

if importlib.util.find_spec("stable_baselines3") is None:
    raise ImportError("entitize.sb3 needs Stable-Baselines3: pip install 'entitize[sb3]'")

if importlib.util.find_spec("gym") is not None:  # Procgen installs it, and Stable-Baselines3 imports it
    with contextlib.redirect_stderr(io.StringIO()), contextlib.suppress(Exception):
        importlib.import_module("gym")  # prints that it is unmaintained, which does not concern us

from .algorithms import PPO, export_policy
from .buffer import RaggedRolloutBuffer
from .callbacks import SetProgressCallback
from .extractor import RogueNetExtractor
from .sb3_policy import RogueNetPolicy, RolloutSteps
from .vec_env import RaggedVecEnv, make_vec, vec_env

__all__ = [
    "PPO",
    "RaggedRolloutBuffer",
    "RaggedVecEnv",
    "RogueNetExtractor",
    "RogueNetPolicy",
    "RolloutSteps",
    "SetProgressCallback",
    "export_policy",
    "make_vec",
    "vec_env",
]
