"""Making the games known by name. Imported by `import entitize`, so it imports nothing heavy."""

from __future__ import annotations

import gymnasium

from .games import GAMES


def register() -> None:
    """Register "entitize/Procgen-<game>-v0" with Gymnasium, for `make` and for `make_vec`."""
    for game in GAMES:
        env_id = f"entitize/Procgen-{game}-v0"
        if env_id not in gymnasium.registry:
            gymnasium.register(
                env_id,
                entry_point=f"{__package__}:ProcgenEnv",
                vector_entry_point=f"{__package__}:ProcgenVectorEnv",
                kwargs={"game": game},
            )
