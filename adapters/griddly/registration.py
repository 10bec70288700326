"""Register the namespace of the games. Imported by `import entitize`, so it imports nothing heavy."""

from __future__ import annotations

from typing import Any

import gymnasium

from ...envs.registration import register_env, register_vec


def register() -> None:
    """Register "Griddly/<game>" for `entitize.make` and `entitize.make_vec`.

    Gymnasium's own `make` and `make_vec` know "entitize/Griddly-v0", with the game as an option. The names of
    the games are in the engine's package, which need not be installed; `find_game` suggests the nearest.
    """
    register_vec("Griddly", f"{__package__}:make_vec", env_entry_point=f"{__name__}:make")
    register_env(
        "entitize/Griddly-v0", f"{__package__}:GriddlyEnv", f"{__package__}:make_vec", {"game": "Clusters"}
    )


def make(game: str, **options: Any) -> gymnasium.Env[Any, Any]:
    """Make the single environment of "Griddly/<game>"."""
    return gymnasium.make("entitize/Griddly-v0", game=game, **options)
