"""Register the namespace of the scenarios. Imported by `import entitize`, so it imports nothing heavy."""

from __future__ import annotations

from typing import Any

import gymnasium

from ...envs.registration import register_env, register_vec


def register() -> None:
    """Register "ViZDoom/<scenario>" for `entitize.make` and `entitize.make_vec`.

    Gymnasium's own `make` and `make_vec` know "entitize/ViZDoom-v0", with the scenario as an option. The
    names of the scenarios are in the engine's package, which need not be installed; `find_scenario` suggests
    the nearest.
    """
    register_vec("ViZDoom", f"{__package__}:make_vec", env_entry_point=f"{__name__}:make")
    register_env(
        "entitize/ViZDoom-v0", f"{__package__}:ViZDoomEnv", f"{__package__}:make_vec", {"scenario": "basic"}
    )


def make(scenario: str, **options: Any) -> gymnasium.Env[Any, Any]:
    """Make the single environment of "ViZDoom/<scenario>"."""
    return gymnasium.make("entitize/ViZDoom-v0", scenario=scenario, **options)
