"""`OneLaneEnv` over a vector environment that starts the next episode within the step that ends one."""

from __future__ import annotations

from typing import Any

import entitize as ez
import numpy as np
import pytest
from entitize.envs import ActionMask, EntityBatch, EntityVectorEnv
from entitize.envs.vector.one_lane_env import OneLaneEnv
from gymnasium.error import ResetNeeded


class WalkVectorEnv(EntityVectorEnv):
    """A player walks from 0 to 5, whether `starts_over` or not."""

    def __init__(self) -> None:
        self.num_envs = 1
        self.single_action_space = ez.EntityActionSpace({"walk": ez.Categorical(2)})
        self.single_observation_space = ez.EntitySpace({"Player": ["x"]}, self.single_action_space)
        self.x = 0.0

    def _reset(self, seeds: Any, options: Any) -> tuple[EntityBatch, dict[str, Any]]:
        self.x = 0.0
        return self.batch(), {}

    def _step(self, actions: dict[str, ez.RaggedArray]) -> Any:
        self.x += float(actions["walk"].values[0])
        is_over, info = np.array([self.x == 5]), {}
        if is_over.any():
            info = {"final_obs": self.batch(), "_final_obs": is_over}
            self.x = 0.0
        return self.batch(), np.ones(1, np.float32), is_over, np.zeros(1, bool), info

    def batch(self) -> EntityBatch:
        one = np.arange(2)
        actors, mask = ez.RaggedArray(np.zeros(1, np.int64), one), ez.RaggedArray(np.ones((1, 2), bool), one)
        player = ez.RaggedArray(np.array([[self.x]], np.float32), one)
        return EntityBatch(
            {"Player": player}, np.zeros((1, 0), np.float32), {"walk": ActionMask(actors, mask)}
        )


def test_the_last_observation_is_the_ended_episodes() -> None:
    env = OneLaneEnv(WalkVectorEnv())
    for _ in range(2):
        env.reset(seed=0)
        xs, ended = [], False
        while not ended:
            observation, _, ended, _, info = env.step({"walk": [1]})
            xs.append(float(observation["entities"]["Player"][0, 0]))
            assert "final_obs" not in info
        assert xs == [1, 2, 3, 4, 5]
        with pytest.raises(ResetNeeded):
            env.step({"walk": [1]})


class Same(ez.vector.EntityVectorWrapper):
    """Passes everything on."""

    def _reset(self, seeds: Any, options: Any) -> Any:
        return self.venv.reset(seed=seeds, options=options)

    def _step(self, actions: Any) -> Any:
        return self.venv.step_validated(actions)


def test_a_wrapped_game_stays_as_it_ended() -> None:
    inner: Any = ez.make_vec("MoveToOrigin", 1, max_steps=3)
    env = OneLaneEnv(Same(inner))
    env.reset(seed=0)
    env.action_space.seed(0)
    for _ in range(3):
        observation, *_ = env.step(env.action_space.sample())
    assert np.array_equal(observation["entities"]["Spaceship"][0, :4], inner.ships[0].astype(np.float32))
