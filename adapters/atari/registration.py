"""Register the namespace of the games. Imported by `import entitize`, so it imports nothing heavy."""

from __future__ import annotations

from typing import Any

import gymnasium

from ...envs.registration import register_env, register_vec


def register() -> None:
    """Register "Atari/<game>" for `entitize.make` and `entitize.make_vec`.

    Gymnasium's own `make` and `make_vec` know "entitize/Atari-v0", with the game as an option. Names are not
    listed here: `find_game` lists them all for one that there is not.
    """
    register_vec("Atari", f"{__package__}:make_vec", env_entry_point=f"{__name__}:make")
    register_env("entitize/Atari-v0", f"{__package__}:AtariEnv", f"{__package__}:make_vec", {"game": "Pong"})


def make(game: str, **options: Any) -> gymnasium.Env[Any, Any]:
    """Make the single environment of "Atari/<game>"."""
    return gymnasium.make("entitize/Atari-v0", game=game, **options)
