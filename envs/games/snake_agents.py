"""`MultiSnakeAgents`: MultiSnake as a game of several agents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..actions import EntityActionSpace
from ..batch.batch_actions import ragged_orders
from ..batch.entity_batch import unbatch_observation
from ..errors import ActionError, reset_needed
from ..multi_agent import MultiAgentEnv, MultiAgentStep
from ..spaces import EntitySpace
from ..window import Window
from .snake_boards import PICTURES
from .snake_lanes import SnakeLanesVectorEnv


class MultiSnakeAgents(MultiAgentEnv):
    """One game of `SnakeLanesVectorEnv`, which says the rules and the options: an agent per snake.

    The agents are "snake_0" to "snake_7" at most. One that dies or wins is gone for the rest of the game; at
    `max_steps` all that are left are truncated.

    Args:
        num_snakes: 1 to 8.
        render_mode: "rgb_array", or "human" for a window that `reset` and `step` draw in.
        options: the other ones of `SnakeLanesVectorEnv`.
    """

    metadata = {"name": "multi_snake_v0", **PICTURES, "render_modes": ["human", "rgb_array"]}  # noqa: RUF012 - as Gymnasium's

    def __init__(self, num_snakes: int = 2, *, render_mode: str | None = None, **options: Any) -> None:
        is_shown = render_mode == "human"
        pictures = "rgb_array" if is_shown else render_mode
        self._venv = SnakeLanesVectorEnv(num_snakes, num_snakes=num_snakes, render_mode=pictures, **options)
        self._venv.starts_over = False
        self._window = Window(type(self).__name__, PICTURES["render_fps"]) if is_shown else None
        self.possible_agents = [f"snake_{i}" for i in range(num_snakes)]
        self.agents: list[str] = []
        self.render_mode = render_mode
        self._venv.lane_names = [f"{type(self).__name__}: agent {name!r}" for name in self.possible_agents]

    def observation_space(self, agent: str) -> EntitySpace:
        return self._venv.single_observation_space

    def action_space(self, agent: str) -> EntityActionSpace:
        return self._venv.single_action_space

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
        batch, _ = self._venv.reset(seed=seed, options=options)
        self.agents = list(self.possible_agents)
        space = self._venv.single_observation_space
        observations = {
            agent: unbatch_observation(space, batch, lane) for lane, agent in enumerate(self.agents)
        }
        self._show()
        return observations, {agent: {} for agent in self.agents}

    def step(self, actions: Mapping[str, Mapping[str, Any]]) -> MultiAgentStep:
        if not self.agents:
            raise reset_needed(f"{type(self).__name__}: no agent is alive", "step()")
        for agent in actions:
            if agent not in self.agents:
                raise ActionError(
                    f"{type(self).__name__}: agent {agent!r} is dead or unknown: expected actions of"
                    f" {', '.join(self.agents)}"
                )
        assert self._venv.lane_names is not None
        orders = ragged_orders(
            self._venv.single_action_space,
            self._venv.lane_names,
            [actions.get(agent, {}) for agent in self.possible_agents],
        )
        batch, rewards, terminated, truncated, info = self._venv.step(orders)
        ended = terminated | truncated
        final_row = np.cumsum(ended) - 1  # of an ended lane in the batch of last observations
        space = self._venv.single_observation_space
        lanes = {agent: self.possible_agents.index(agent) for agent in self.agents}
        observations = {}
        for agent, lane in lanes.items():
            if ended[lane]:
                observations[agent] = unbatch_observation(space, info["final_obs"], int(final_row[lane]))
            else:
                observations[agent] = unbatch_observation(space, batch, lane)
        self.agents = [agent for agent, lane in lanes.items() if not ended[lane]]
        self._show()
        return (
            observations,
            {agent: float(rewards[lane]) for agent, lane in lanes.items()},
            {agent: bool(terminated[lane]) for agent, lane in lanes.items()},
            {agent: bool(truncated[lane]) for agent, lane in lanes.items()},
            {agent: {} for agent in lanes},
        )

    def render(self) -> NDArray[Any] | None:
        """Return the board (16 * board_size + 32, same, 3) with those that just died or won.

        With render_mode "human", show it in the window instead.
        """
        if self._window is None:
            return self._picture()
        self._show()
        return None

    def _picture(self) -> NDArray[Any]:
        frames = self._venv.render()
        assert frames is not None
        picture: NDArray[Any] = frames[0]
        return picture

    def _show(self) -> None:
        if self._window is not None:
            self._window.show(self._picture())

    def close(self) -> None:
        if self._window is not None:
            self._window.close()
        self._venv.close()
