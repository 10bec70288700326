"""Making the games known by name. Imported by `import entitize`, so it imports nothing heavy."""

from __future__ import annotations

import gymnasium

from ...envs.registration import register_vec
from .games import GAMES


def register() -> None:
    """Register "Procgen/<game>" for `entitize.make_vec`, and "entitize/Procgen-<game>-v0" with Gymnasium."""
    register_vec("Procgen", f"{__package__}:make_vec", GAMES)
    for game in GAMES:
        env_id = f"entitize/Procgen-{game}-v0"
        if env_id not in gymnasium.registry:
            gymnasium.register(
                env_id,
                entry_point=f"{__package__}:ProcgenEnv",
                vector_entry_point=f"{__package__}:ProcgenVectorEnv",
                kwargs={"game": game},
            )
