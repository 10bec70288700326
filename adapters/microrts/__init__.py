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
    from .features import PLANE29_FEATURES as PLANE29_FEATURES
    from .features import PLANES as PLANES
    from .features import UNIT_FEATURES as UNIT_FEATURES
    from .java.bots import BOTS as BOTS
    from .java.bots import check_bot as check_bot
    from .java.jvm import EngineMissingError as EngineMissingError
    from .java.jvm import check_installed as check_installed
    from .java.maps import Map as Map
    from .java.maps import find_map as find_map
    from .java.maps import map_names as map_names
    from .java.rewards import REWARDS as REWARDS
    from .java.rewards import weights_array as weights_array
    from .make import make_vec as make_vec
    from .observe import Observer as Observer
    from .options import Options as Options
    from .options import plan_arguments as plan_arguments
    from .options import plan_games as plan_games
    from .vector_env import MicroRTSVectorEnv as MicroRTSVectorEnv
else:
    __getattr__, __dir__, __all__ = attach(__name__)
