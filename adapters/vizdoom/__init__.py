"""ViZDoom's scenarios as entities (floor 2; needs the extra `vizdoom` to play).

The names below load their modules on first use, because `import entitize` imports this package to register
the namespace. The other modules import the engine's package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...lazy import attach

if TYPE_CHECKING:
    from .env import ViZDoomEnv as ViZDoomEnv
    from .kinds import CATEGORIES as CATEGORIES
    from .kinds import KINDS as KINDS
    from .kinds import classify as classify
    from .options import DoomOptions as DoomOptions
    from .scenarios import Scenario as Scenario
    from .scenarios import find_scenario as find_scenario
    from .scenarios import scenario_names as scenario_names
    from .vector_env import ViZDoomVectorEnv as ViZDoomVectorEnv
    from .vector_env import make_vec as make_vec
else:
    __getattr__, __dir__, __all__ = attach(__name__)
