"""RogueNet: a transformer over the entities of a step, without padding.

The names below load their modules on first use, so that the kernels can be imported without torch.
"""

from __future__ import annotations

import importlib
from typing import Any

#: Public name -> the module of this package that defines it.
_HOMES = {
    "FourierFeatures": "config",
    "RelativePosition": "config",
    "RogueNet": "network",
    "RogueNetConfig": "config",
    "Summary": "summary",
    "Translation": "config",
    "convert_reference_weights": "reference",
    "impala_cost": "summary",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value
