"""RogueNet in Stable-Baselines3: what `entitize.sb3` is."""

import importlib.util

if importlib.util.find_spec("stable_baselines3") is None:
    raise ImportError("entitize.sb3 needs Stable-Baselines3: pip install 'entitize[sb3]'")

from ...policies.sb3 import RogueNetExtractor

__all__ = ["RogueNetExtractor"]
