"""The published networks of μRTS and of Procgen, as policies; see `docs/baselines.md`.

The names below load their modules on first use, so that options can be read without torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...lazy import attach

if TYPE_CHECKING:
    from .gridnet import GridNet as GridNet
    from .gridnet import ImpalaGridNet as ImpalaGridNet
    from .impala import ImpalaEncoder as ImpalaEncoder
    from .impala_net import ImpalaNet as ImpalaNet
    from .transformer import TransformerNet as TransformerNet
    from .unit_action import UnitActionNet as UnitActionNet
else:
    __getattr__, __dir__, __all__ = attach(__name__)
