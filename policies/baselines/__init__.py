"""The published networks of μRTS and of Procgen, as policies; see `docs/baselines.md`."""

from .gridnet import GridNet, ImpalaGridNet
from .impala import ConvSequence, ImpalaEncoder, ResidualBlock
from .impala_net import ImpalaNet
from .transformer import TransformerNet
from .unit_action import UnitActionNet

__all__ = [
    "ConvSequence",
    "GridNet",
    "ImpalaEncoder",
    "ImpalaGridNet",
    "ImpalaNet",
    "ResidualBlock",
    "TransformerNet",
    "UnitActionNet",
]
