"""Making the games known by name. Imported by `import entitize`, so it imports nothing heavy."""

from __future__ import annotations

from ...envs.registration import register_env, register_vec
from .games import GAMES


def register() -> None:
    """Make the games known.

    To Gymnasium as "entitize/Procgen-<game>-v0", for `gymnasium.make` and `gymnasium.make_vec`, and to
    `entitize.make_vec` as "Procgen/<game>" too.
    """
    for game in GAMES:
        register_env(
            f"entitize/Procgen-{game}-v0",
            f"{__package__}:ProcgenEnv",
            f"{__package__}:make_vec",
            {"game": game},
        )
    register_vec("Procgen", f"{__package__}:make_vec", GAMES)
