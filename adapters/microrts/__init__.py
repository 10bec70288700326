"""μRTS, the real-time strategy game, as entities (floor 2; needs `gym_microrts` and Java to play).

The names below load their modules on first use, because `import entitize` imports this package to register
the maps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...lazy import attach

if TYPE_CHECKING:
    from .bot_players import BotPlayers as BotPlayers
    from .env import MicroRTSEnv as MicroRTSEnv
    from .java.bots import BOTS as BOTS
    from .java.maps import map_names as map_names
    from .make import make_vec as make_vec
    from .options import Options as Options
    from .registration import register as register
    from .vector_env import MicroRTSVectorEnv as MicroRTSVectorEnv
else:
    __getattr__, __dir__, __all__ = attach(__name__)
