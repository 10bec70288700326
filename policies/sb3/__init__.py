"""RogueNet as policies and features extractors of Stable-Baselines3."""

from .extractor import RogueNetExtractor

__all__ = ["RogueNetExtractor"]
