"""`OneLaneEnv`: a vector environment of one lane as a single Gymnasium environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from ..actions import EntityActionSpace
from ..batch.batch_actions import ragged_orders
from ..batch.entity_batch import EntityBatch, unbatch_observation
from ..errors import reset_needed
from ..spaces import EntitySpace
from ..window import Window
from .infos import present_infos


class OneLaneEnv(gymnasium.Env[dict[str, Any], Mapping[str, Any]]):
    """The only lane of a vector environment as a Gymnasium environment. Abstract.

    Spaces, rules and errors are those of the vector environment. Observations and actions are plain dicts,
    as for `EntityEnv`. Seeded alike, it plays the same episodes.

    Args:
        venv: a vector environment of one lane; `starts_over` is set to False.
        window_title: the title of a window that shows each frame, in the mode "human"; then `venv` draws in
            the mode "rgb_array". None: no window.

    Raises:
        gymnasium.error.ResetNeeded: `step` before the first `reset` or after the end of an episode.
    """

    observation_space: EntitySpace
    action_space: EntityActionSpace

    def __init__(self, venv: Any, window_title: str | None = None) -> None:
        self._venv = venv
        venv.starts_over = False
        venv._name = type(self).__name__
        venv.lane_names = [venv._name]
        if "render_fps" in venv.metadata:
            self.metadata = {**self.metadata, "render_fps": venv.metadata["render_fps"]}
        self._window = None if window_title is None else Window(window_title, self.metadata["render_fps"])
        self.render_mode = "human" if self._window else venv.render_mode
        self.observation_space = venv.single_observation_space
        self.action_space = venv.single_action_space
        self._is_playing = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Start an episode; a seed restarts the random numbers, without one they continue."""
        is_first = self._np_random is None
        super().reset(seed=seed)
        if seed is None and is_first and self._venv._first_seed is None:
            seed = int(self.np_random.integers(2**63))
        batch, infos = self._venv.reset(seed=seed, options=options)
        self._is_playing = True
        self._show()
        return self._observed(batch), present_infos(infos, 1)[0]

    def step(self, action: Mapping[str, Any]) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Carry out `action`; see `EntityActionSpace` for what may be left out.

        Raises:
            ActionError: an action that is not allowed; the environment has not moved.
        """
        if not self._is_playing and not self._venv.closed:
            raise reset_needed(type(self).__name__, "the first step and after the end of an episode")
        actions = ragged_orders(self.action_space, self._venv.lane_names, [action])
        batch, rewards, terminated, truncated, infos = self._venv.step(actions)
        self._is_playing = not (terminated[0] or truncated[0])
        self._show()
        # Where the engine has begun the next episode all the same, its first observation is not the step's.
        observation = self._observed(batch if self._is_playing else infos.get("final_obs", batch))
        (info,) = present_infos(infos, 1)
        return observation, float(rewards[0]), bool(terminated[0]), bool(truncated[0]), info

    def _observed(self, batch: EntityBatch) -> dict[str, Any]:
        observation = unbatch_observation(self.observation_space, batch, 0)
        self.action_space.observe(observation)
        return observation

    def render(self) -> NDArray[np.uint8] | None:
        """A picture (height, width, 3); None where a window shows it.

        Raises:
            ValueError: the environment was made without a render_mode.
            gymnasium.error.ResetNeeded: before the first reset.
        """
        frames = None if self._window else self._venv.render()
        return None if frames is None else frames[0]

    def _show(self) -> None:
        """Let the window, if there is one, show the present frame."""
        if self._window and self._window.is_open:
            self._window.show(self._venv.render()[0])

    def close(self) -> None:
        self._venv.close()
        if self._window:
            self._window.close()
