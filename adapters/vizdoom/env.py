"""`ViZDoomEnv`: one scenario of ViZDoom as a Gymnasium environment."""

from __future__ import annotations

from typing import Any

from ...envs.errors import check_render_mode
from ...envs.vector.one_lane_env import OneLaneEnv
from .vector_env import ViZDoomVectorEnv


class ViZDoomEnv(OneLaneEnv):
    """One scenario: `gymnasium.make("entitize/ViZDoom-v0", scenario="basic")`.

    Spaces, options and errors are those of `ViZDoomVectorEnv`, over which it is built. Seeded alike, it plays
    the same first episode as the first lane of any. The engine shows nothing of the state in which an episode
    ends: the step that ends it returns the observation before it again. An action is
    `{"buttons": [[0, 1]]}`, or an empty dict to press no button.

    Args:
        scenario: the name of a scenario of the package, or a path that ends in ".cfg".
        render_mode: None, "rgb_array", or "human" for a window, which is drawn at each reset and step.
        options: those of `DoomOptions`, and `seed`.

    Raises:
        gymnasium.error.DependencyNotInstalled, RuntimeError: a window without pygame, or without a display.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 - Gymnasium declares no ClassVar
        "render_modes": ["rgb_array", "human"],
        "render_fps": ViZDoomVectorEnv.metadata["render_fps"],
    }

    def __init__(self, scenario: str = "basic", *, render_mode: str | None = None, **options: Any) -> None:
        check_render_mode("ViZDoomEnv", render_mode, self.metadata["render_modes"])
        venv = ViZDoomVectorEnv(scenario, 1, render_mode="rgb_array" if render_mode else None, **options)
        title = f"ViZDoom {scenario}" if render_mode == "human" else None
        super().__init__(venv, title)
