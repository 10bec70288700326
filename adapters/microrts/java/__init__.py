"""The engine of μRTS inside the JVM.

The names below load their modules on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....lazy import attach

if TYPE_CHECKING:
    from .bots import BOTS as BOTS
    from .bots import check_bot as check_bot
    from .bots import may_hang as may_hang
    from .engine import COMPONENT_SIZES as COMPONENT_SIZES
    from .engine import MASK_SIZE as MASK_SIZE
    from .engine import ORDER_SIZE as ORDER_SIZE
    from .engine import BotFailure as BotFailure
    from .engine import MicroRTSEngine as MicroRTSEngine
    from .games import GameSetup as GameSetup
    from .handles import Handles as Handles
    from .jvm import EngineMissingError as EngineMissingError
    from .jvm import check_installed as check_installed
    from .jvm import engine_folder as engine_folder
    from .jvm import find_java as find_java
    from .jvm import start_engine as start_engine
    from .maps import Map as Map
    from .maps import find_map as find_map
    from .maps import map_names as map_names
    from .records import ACTIONS as ACTIONS
    from .records import HEADER as HEADER
    from .records import ORDER as ORDER
    from .records import UNIT as UNIT
    from .records import UNIT_TYPES as UNIT_TYPES
    from .rewards import REWARDS as REWARDS
    from .rewards import SHAPED as SHAPED
    from .rewards import Weights as Weights
    from .rewards import weights_array as weights_array
    from .rewards import weights_at as weights_at
else:
    __getattr__, __dir__, __all__ = attach(__name__)
