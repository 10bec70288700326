"""Griddly's games as entities (floor 2; needs the extra `griddly` to play).

The names below load their modules on first use, because `import entitize` imports this package to register
the namespace. The other modules import the engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...lazy import attach

if TYPE_CHECKING:
    from .env import GriddlyEnv as GriddlyEnv
    from .library import game_names as game_names
    from .make import make_vec as make_vec
    from .options import GriddlyOptions as GriddlyOptions
    from .rules import Rules as Rules
    from .rules import read_rules as read_rules
    from .vector_env import GriddlyVectorEnv as GriddlyVectorEnv
else:
    __getattr__, __dir__, __all__ = attach(__name__)
