"""Entitize: entity-based reinforcement learning for Gymnasium and PettingZoo.

The names below load their modules on first use, so that `import entitize` stays light.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

#: Public name -> the module (relative to this package) that defines it.
_HOMES = {
    "RaggedArray": "ragged",
    "RaggedBuffer": "ragged",
    "Categorical": "envs",
    "EntityActionSpace": "envs",
    "EntityBatch": "envs",
    "EntitySpace": "envs",
    "EntityVectorEnv": "envs",
    "GlobalCategorical": "envs",
    "Observation": "envs",
    "SelectEntity": "envs",
}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
