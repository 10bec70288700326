"""Atari's games as entities, read from the console's memory (floor 2; needs the extra `atari` to play).

The names below load their modules on first use, because `import entitize` imports this package to register
the namespace. The other modules import the emulator's package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...lazy import attach

if TYPE_CHECKING:
    from .env import AtariEnv as AtariEnv
    from .game import AtariGame as AtariGame
    from .game import Grid as Grid
    from .game import ObjectType as ObjectType
    from .games import GAMES as GAMES
    from .games import find_game as find_game
    from .options import AtariOptions as AtariOptions
    from .vector_env import AtariVectorEnv as AtariVectorEnv
    from .vector_env import make_vec as make_vec
else:
    __getattr__, __dir__, __all__ = attach(__name__)
