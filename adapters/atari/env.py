"""`AtariEnv`: one game of Atari as a Gymnasium environment."""

from __future__ import annotations

from typing import Any

from ...envs.errors import check_render_mode
from ...envs.vector.one_lane_env import OneLaneEnv
from .vector_env import AtariVectorEnv


class AtariEnv(OneLaneEnv):
    """One game: `gymnasium.make("entitize/Atari-v0", game="Pong")`.

    Spaces, options and errors are those of `AtariVectorEnv`, over which it is built. Seeded alike, it plays
    the same episodes as the first lane of any. With `terminal_on_life_loss` a `reset` without a seed
    continues with the next life. An action is `{"act": [2]}`, or an empty dict for "NOOP".

    Args:
        game: one of `GAMES`.
        render_mode: None, "rgb_array", or "human" for a window, which is drawn at each reset and step.
        options: those of `AtariOptions`, and `seed`.

    Raises:
        gymnasium.error.DependencyNotInstalled, RuntimeError: a window without pygame, or without a display.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 - Gymnasium declares no ClassVar
        "render_modes": ["rgb_array", "human"],
        "render_fps": AtariVectorEnv.metadata["render_fps"],
    }

    def __init__(self, game: str = "Pong", *, render_mode: str | None = None, **options: Any) -> None:
        check_render_mode("AtariEnv", render_mode, self.metadata["render_modes"])
        venv = AtariVectorEnv(game, 1, render_mode="rgb_array" if render_mode else None, **options)
        title = f"Atari {game}" if render_mode == "human" else None
        super().__init__(venv, title)
