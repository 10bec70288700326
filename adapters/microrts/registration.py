"""Register the maps by name. Imported by `import entitize`, so it imports nothing heavy."""

from __future__ import annotations

from typing import Any

import gymnasium

from ...envs.registration import register_env, register_vec


def register() -> None:
    """Register "MicroRTS/<map>" for `entitize.make` and `entitize.make_vec`.

    Gymnasium's own `make` and `make_vec` know "entitize/MicroRTS-v0", with the map as an option. The names of
    the maps are in the engine's package, which need not be installed; `maps.find_map` finds a misspelt one.
    """
    register_vec("MicroRTS", f"{__package__}:make_vec", env_entry_point=f"{__name__}:make")
    register_env(
        "entitize/MicroRTS-v0",
        f"{__package__}:MicroRTSEnv",
        f"{__package__}:make_vec",
        {"map": "basesWorkers8x8"},
    )


def make(map: str, **options: Any) -> gymnasium.Env[Any, Any]:
    """Make the single environment of "MicroRTS/<map>"."""
    return gymnasium.make("entitize/MicroRTS-v0", map=map, **options)
