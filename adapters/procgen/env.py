"""`ProcgenEnv`: one Procgen game as a Gymnasium environment."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from ...envs.errors import check_render_mode
from ...envs.vector.one_lane_env import OneLaneEnv
from .vector_env import ProcgenVectorEnv


class ProcgenEnv(OneLaneEnv):
    """One Procgen game: `gymnasium.make("entitize/Procgen-coinrun-v0")`.

    Spaces, options and errors are those of `ProcgenVectorEnv`, over which it is built.

    The engine starts the next level within the step that ends an episode, so the episode's last observation
    is lost. The step that ends an episode returns the one before it again, and the next `reset` without a
    seed hands out the level that the engine has already started.

    Args:
        game: one of the 16.
        render_mode: None, "rgb_array" (512 × 512), or "human" for a window, which is drawn at each step.
        options: those of `ViewOptions` and `EngineOptions`.

    Raises:
        gymnasium.error.DependencyNotInstalled, RuntimeError: a window without pygame, or without a display.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 - Gymnasium declares no ClassVar
        "render_modes": ["rgb_array", "human"],
        "render_fps": 15,
    }

    def __init__(self, game: str, *, render_mode: str | None = None, **options: Any) -> None:
        check_render_mode("ProcgenEnv", render_mode, self.metadata["render_modes"])
        venv = ProcgenVectorEnv(game, 1, render_mode="rgb_array" if render_mode else None, **options)
        title = f"Procgen {game}" if render_mode == "human" else None
        super().__init__(venv, title)
        self._now: dict[str, Any] = {}  # the observation of the level that is being played
        self._level_seed = 0
        self._next: tuple[dict[str, Any], dict[str, Any]] | None = None  # the level after the one that ended

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Start an episode; a seed makes a new engine, and the same levels follow the same seed."""
        if seed is not None or self._next is None:
            self._next = super().reset(seed=seed, options=options)
        else:
            self._show()
        (self._now, info), self._next = self._next, None
        self._level_seed, self._is_playing = info["level_seed"], True
        return deepcopy(self._now), {**info, "level_complete": False}

    def step(self, action: Mapping[str, Any]) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Let the player act: `{"act": [choice]}`, or an empty array or dict to do nothing.

        Raises:
            gymnasium.error.ResetNeeded: before the first reset, or after the end of an episode.
            ActionError: an action that there is not; the game has not moved.
        """
        observation, reward, terminated, truncated, after = super().step(action)
        if self._is_playing:
            self._now, self._level_seed = observation, after["level_seed"]
        else:
            self._next = observation, after
        return deepcopy(self._now), reward, terminated, truncated, {**after, "level_seed": self._level_seed}
