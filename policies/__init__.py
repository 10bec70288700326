"""Networks that decide: RogueNet, the published networks, and deciding without torch (floor 2).

The names below load their modules on first use: the runtime needs no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import attach

if TYPE_CHECKING:
    from .policy import ActResult as ActResult
    from .policy import Evaluation as Evaluation
    from .policy import Policy as Policy
    from .rogue_net import RogueNet as RogueNet
    from .rogue_net import RogueNetConfig as RogueNetConfig
else:
    __getattr__, __dir__, __all__ = attach(__name__)
