"""`ProcgenEnv`: one Procgen game as a Gymnasium environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from ...envs import unbatch_observation
from ...envs.batch.batch_actions import ragged_orders
from ...envs.errors import check_render_mode, no_render_mode, reset_needed
from ...envs.window import Window
from .vector_env import ProcgenVectorEnv

Observation = dict[str, Any]


class ProcgenEnv(gymnasium.Env[Observation, Mapping[str, Any]]):
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
        fps = self.metadata["render_fps"]
        self._window = Window(f"Procgen {game}", fps) if render_mode == "human" else None
        self._venv = ProcgenVectorEnv(game, 1, render_mode="rgb_array" if render_mode else None, **options)
        self.render_mode = render_mode
        self.observation_space = self._venv.single_observation_space
        self.action_space = self._venv.single_action_space
        self._has_seed = options.get("seed") is not None
        self._is_playing = False
        self._observation: Observation = {}
        self._level_seed = 0
        self._next: tuple[Observation, int] | None = None  # the level after the one that ended

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode; a seed makes a new engine, and the same levels follow the same seed."""
        is_first = self._np_random is None
        super().reset(seed=seed)
        if seed is None and self._next is not None:
            self._observation, self._level_seed = self._next
        else:
            if seed is None and is_first and not self._has_seed:
                seed = int(self.np_random.integers(2**31))
            batch, infos = self._venv.reset(seed=seed)
            self._observation, self._level_seed = self._unbatch(batch), int(infos["level_seed"][0])
        self._next = None
        self._is_playing = True
        self._show()
        return _copy(self._observation), self._info()

    def step(self, action: Mapping[str, Any]) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Let the player act: `{"act": [choice]}`, or an empty array or dict to do nothing.

        Raises:
            gymnasium.error.ResetNeeded: before the first reset, or after the end of an episode.
            ActionError: an action that there is not; the game has not moved.
        """
        if not self._is_playing:
            raise reset_needed("ProcgenEnv", "the first step and after the end of an episode")
        orders = ragged_orders(self._venv.single_action_space, [type(self).__name__], [action])
        batch, rewards, terminated, truncated, infos = self._venv.step(orders)
        observation, level_seed = self._unbatch(batch), int(infos["level_seed"][0])
        info = self._info(bool(infos["level_complete"][0]))
        self._is_playing = not (terminated[0] or truncated[0])
        if self._is_playing:
            self._observation, self._level_seed = observation, level_seed
        else:
            self._next = observation, level_seed
        self._show()
        return _copy(self._observation), float(rewards[0]), bool(terminated[0]), bool(truncated[0]), info

    def render(self) -> NDArray[np.uint8] | None:
        """The frame (512, 512, 3) in mode "rgb_array"; None in mode "human", whose window draws itself."""
        if self.render_mode is None:
            raise no_render_mode("ProcgenEnv")
        return self._frame() if self._window is None else None

    def close(self) -> None:
        self._venv.close()
        if self._window is not None:
            self._window.close()

    def _unbatch(self, batch: Any) -> Observation:
        observation = unbatch_observation(self._venv.single_observation_space, batch, 0)
        self._venv.single_action_space.observe(observation)
        return observation

    def _info(self, level_complete: bool = False) -> dict[str, Any]:
        return {"level_seed": self._level_seed, "level_complete": level_complete}

    def _show(self) -> None:
        if self._window is not None and self._window.is_open:
            self._window.show(self._frame())

    def _frame(self) -> NDArray[np.uint8]:
        frame: NDArray[np.uint8] = (self._venv.render() or ())[0]
        return frame


def _copy(part: Any) -> Any:
    """An observation in fresh arrays."""
    return {name: _copy(value) for name, value in part.items()} if isinstance(part, dict) else part.copy()
