"""Networks as policies of Stable-Baselines3."""

from .policy import RogueNetPolicy, RolloutSteps

__all__ = ["RogueNetPolicy", "RolloutSteps"]
