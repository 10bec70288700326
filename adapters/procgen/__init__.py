"""Procgen's 16 games as entities (floor 2; needs the extra `procgen` to play, nothing to import).

The names below load their modules on first use, because `import entitize` imports this package to register
the games.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...lazy import attach

if TYPE_CHECKING:
    from .decoder.decode import ProcgenStateError as ProcgenStateError
    from .decoder.decode import StateDecoder as StateDecoder
    from .engine import ProcgenEngine as ProcgenEngine
    from .engine import StateBuffer as StateBuffer
    from .engine import import_engine as import_engine
    from .env import ProcgenEnv as ProcgenEnv
    from .games import GAMES as GAMES
    from .games import MOVING as MOVING
    from .games import MOVING_X as MOVING_X
    from .games import POSITION as POSITION
    from .options import ACTIONS as ACTIONS
    from .options import EngineOptions as EngineOptions
    from .options import ViewOptions as ViewOptions
    from .vector_env import ProcgenVectorEnv as ProcgenVectorEnv
    from .vector_env import make_vec as make_vec
else:
    __getattr__, __dir__, __all__ = attach(__name__)
