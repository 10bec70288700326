"""Register the games by name. Imported by `import entitize`, so it imports nothing heavy."""

from __future__ import annotations

from typing import Any

import gymnasium

from ...envs.registration import register_env, register_vec
from .games import GAMES


def register() -> None:
    """Register the games as "Procgen/<game>" for `entitize.make` and `entitize.make_vec`.

    Gymnasium's own `make` and `make_vec` know them as "entitize/Procgen-<game>-v0".
    """
    for game in GAMES:
        register_env(
            f"entitize/Procgen-{game}-v0",
            f"{__package__}:ProcgenEnv",
            f"{__package__}:make_vec",
            {"game": game},
        )
    register_vec("Procgen", f"{__package__}:make_vec", GAMES, f"{__name__}:make")


def make(game: str, **options: Any) -> gymnasium.Env[Any, Any]:
    """Make the single environment of "Procgen/<game>"."""
    return gymnasium.make(f"entitize/Procgen-{game}-v0", **options)
