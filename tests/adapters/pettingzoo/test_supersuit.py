"""SuperSuit turns games of several agents that die into vector environments for Stable-Baselines3."""

from __future__ import annotations

from typing import Any

import entitize as ez
import numpy as np
import pytest
from stable_baselines3 import PPO

from facts import raises

supersuit = pytest.importorskip("supersuit")  # of its wheels there is none for Python 3.13

NUM_GAMES, NUM_SNAKES = 2, 3


def vectorized() -> Any:
    game = ez.games.MultiSnakeAgents(NUM_SNAKES, board_size=5, max_snake_length=3, max_steps=10)
    env = ez.to_pettingzoo(game, layout="flat", maxima=8, illegal="replace")
    lanes = supersuit.pettingzoo_env_to_vec_env_v1(supersuit.black_death_v3(env))
    return supersuit.concat_vec_envs_v1(lanes, NUM_GAMES, base_class="stable_baselines3")


def test_games_end_and_start_over_in_its_vector_environments() -> None:
    """Its `black_death_v3` steps a game in which all agents have died once more, without actions."""
    venv = vectorized()
    venv.reset()
    venv.action_space.seed(0)
    ends, dead = 0, 0
    for _ in range(60):
        actions = np.stack([venv.action_space.sample() for _ in range(venv.num_envs)])
        observations, _, ended, _ = venv.step(actions)
        assert np.isfinite(observations).all()
        games = ended.reshape(NUM_GAMES, NUM_SNAKES)
        assert (games.all(1) == games.any(1)).all(), "SuperSuit keeps dead agents until the game is over"
        ends += int(games.all(1).sum())
        dead += int((observations == 0).all(1).sum())
    assert ends > 5 and dead > 5


def test_stable_baselines3_trains_on_them() -> None:
    venv = vectorized()
    model = PPO("MlpPolicy", venv, n_steps=16, batch_size=32, n_epochs=1, device="cpu")
    model.learn(4 * 16 * venv.num_envs)
    assert model.num_timesteps == 4 * 16 * NUM_GAMES * NUM_SNAKES


@pytest.mark.parametrize("is_joined", [False, True])
def test_its_vector_environments_are_no_entity_environments(is_joined: bool) -> None:
    game = ez.games.MultiSnakeAgents(NUM_SNAKES, board_size=5, max_snake_length=3, max_steps=10)
    env = ez.to_pettingzoo(game, layout="flat", maxima=8, illegal="replace")
    venv = supersuit.pettingzoo_env_to_vec_env_v1(env)
    if is_joined:
        venv = supersuit.concat_vec_envs_v1(venv, NUM_GAMES, base_class="gymnasium")
    with raises(TypeError, type(venv).__name__, "from_pettingzoo"):
        ez.wrap_vec(venv)
