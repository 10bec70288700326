"""Networks as policies and features extractors of Stable-Baselines3."""

from .extractor import RogueNetExtractor
from .policy import RogueNetPolicy, RolloutSteps

__all__ = ["RogueNetExtractor", "RogueNetPolicy", "RolloutSteps"]
