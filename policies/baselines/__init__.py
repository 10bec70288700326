"""The published networks of μRTS, as policies on entity batches; see `docs/baselines.md`."""

from .gridnet import GridNet, ImpalaGridNet
from .impala import ConvSequence, ImpalaEncoder, ResidualBlock
from .transformer import TransformerNet
from .unit_action import UnitActionNet

__all__ = [
    "ConvSequence",
    "GridNet",
    "ImpalaEncoder",
    "ImpalaGridNet",
    "ResidualBlock",
    "TransformerNet",
    "UnitActionNet",
]
