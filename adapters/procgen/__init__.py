"""Procgen's 16 games as entities (floor 2; needs the extra `procgen` to play, nothing to import).

The names below load their modules on first use, because `import entitize` imports this package to register
the games.
"""

from __future__ import annotations

import importlib
from typing import Any

#: Public name -> the module of this package that defines it.
_HOMES = {
    "EngineOptions": "options",
    "ProcgenEnv": "env",
    "ProcgenStateError": "errors",
    "ProcgenVectorEnv": "vector_env",
    "StateDecoder": "decoder.decode",
    "ViewOptions": "options",
    "make_vec": "vector_env",
    "register": "registration",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value
