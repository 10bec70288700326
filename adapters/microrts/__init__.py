"""μRTS, the real-time strategy game, as entities (floor 2; needs `gym_microrts` and Java to play).

The names below load their modules on first use, because `import entitize` imports this package to register
the maps.
"""

from __future__ import annotations

import importlib
from typing import Any

#: Public name -> the module of this package that defines it.
_HOMES = {
    "BOTS": "java.bots",
    "MicroRTSEnv": "env",
    "MicroRTSVectorEnv": "vector_env",
    "Options": "options",
    "make_vec": "make",
    "map_names": "java.maps",
    "register": "registration",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value
