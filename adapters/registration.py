"""Register the engines. Imported by `import entitize`, so it imports nothing heavy.

The names of Procgen's games are listed. Those of the others are in packages that need not be installed, or in
modules that load Numba: the adapters suggest the nearest for a misspelt one.
"""

from __future__ import annotations

from ..envs.registration import register_engine
from .procgen.games import GAMES


def register_engines() -> None:
    """Register "Atari/<game>", "Procgen/<game>" and so on, and their ids for Gymnasium."""
    register_engine("Procgen", f"{__package__}.procgen", "ProcgenEnv", "game", names=GAMES)
    register_engine("Atari", f"{__package__}.atari", "AtariEnv", "game", "Pong")
    register_engine("MicroRTS", f"{__package__}.microrts", "MicroRTSEnv", "map", "basesWorkers8x8")
    register_engine("ViZDoom", f"{__package__}.vizdoom", "ViZDoomEnv", "scenario", "basic")
    register_engine("Griddly", f"{__package__}.griddly", "GriddlyEnv", "game", "Clusters")
