"""RogueNet: a transformer over the entities of a step, without padding.

The names below load their modules on first use, so that the kernels can be imported without torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...lazy import attach

if TYPE_CHECKING:
    from ..engines.rogue_net import RogueNet as RogueNet
    from .attention import KernelAttention as KernelAttention
    from .blocks import Block as Block
    from .blocks import SelfAttention as SelfAttention
    from .config import FourierFeatures as FourierFeatures
    from .config import RelativePosition as RelativePosition
    from .config import RogueNetConfig as RogueNetConfig
    from .config import Translation as Translation
    from .heads import LogitsHead as LogitsHead
    from .heads import ValueHead as ValueHead
    from .names import NamedModules as NamedModules
    from .network import RogueNetwork as RogueNetwork
    from .normalization import InputNorm as InputNorm
    from .summary import impala_cost as impala_cost
else:
    __getattr__, __dir__, __all__ = attach(__name__)
