"""Making the maps known by name. Imported by `import entitize`, so it imports nothing heavy."""

from __future__ import annotations

from ...envs.registration import register_env, register_vec


def register() -> None:
    """Make "MicroRTS/<map>" known to `entitize.make_vec`, and "entitize/MicroRTS-v0" to Gymnasium.

    The names of the maps are in the engine's package, which need not be installed; `maps.find_map` tells a
    wrong one.
    """
    register_vec("MicroRTS", f"{__package__}:make_vec")
    register_env(
        "entitize/MicroRTS-v0",
        f"{__package__}:MicroRTSEnv",
        f"{__package__}:make_vec",
        {"map": "basesWorkers8x8"},
    )
