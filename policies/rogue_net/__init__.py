"""RogueNet: a transformer over the entities of a step, without padding."""

from .config import RelativePosition, RogueNetConfig, Translation
from .network import RogueNet
from .reference import convert_reference_weights
from .summary import Summary, impala_cost

__all__ = [
    "RelativePosition",
    "RogueNet",
    "RogueNetConfig",
    "Summary",
    "Translation",
    "convert_reference_weights",
    "impala_cost",
]
