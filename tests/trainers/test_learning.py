"""PPO and RogueNet learn the built-in games to their known optimum, each in seconds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from entitize import RogueNet, make_vec
from entitize.trainers import PPO, PPOConfig, evaluate

GAMES = {
    "entitize/MaskedBandit-v0": PPOConfig(
        total_timesteps=16_384, num_steps=8, minibatch_size=256, learning_rate=0.005
    ),
    # Once every answer is right, normalized advantages are noise blown up to size 1; hence norm_adv=False.
    "entitize/Xor-v0": PPOConfig(
        total_timesteps=32_768, num_steps=16, minibatch_size=512, learning_rate=0.01,
        update_epochs=4, ent_coef=0.05, norm_adv=False,
    ),
    "entitize/MineSweeper-v0": PPOConfig(
        total_timesteps=65_536, num_steps=16, minibatch_size=512, learning_rate=0.01, ent_coef=0.02
    ),
}  # fmt: skip


class Solved:
    """Stops the training once the last 100 episodes were nearly all won, two updates in a row."""

    def __init__(self) -> None:
        self.streak = 0

    def __call__(self, trainer: PPO, metrics: dict[str, float]) -> bool:
        self.streak = self.streak + 1 if metrics["charts/episodic_return"] >= 0.99 else 0
        return self.streak == 2


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("game", GAMES)
def test_ppo_reaches_the_optimum_of_a_built_in_game(game: str, seed: int) -> None:
    with make_vec(game, num_envs=64) as venv:
        torch.manual_seed(seed)
        policy = RogueNet(venv.single_observation_space, venv.single_action_space)
        random = evaluate(policy, venv, 64, seed=seed).returns.mean()
        config = replace(GAMES[game], seed=seed)
        PPO(policy, venv, config, callbacks=[Solved()]).train()
        trained = evaluate(policy, venv, 256, deterministic=True, seed=1000 + seed).returns.mean()
    assert random < 0.7, "there must be something to learn"
    assert trained >= 0.98, "1.0 is the optimum of all three"  # by rounding, processors train other networks


#: Options of the network, and hyper-parameters.
NEARLY_SOLVED: dict[str, tuple[dict[str, Any], PPOConfig]] = {
    # Sees how many entities there are, though they have no features.
    "Count": ({}, PPOConfig(total_timesteps=65_536, num_steps=8, minibatch_size=512, learning_rate=0.005)),
    # Sees positions as the player does: they lie a thousand times farther from the origin than from it.
    "FloorIsLava": (
        {"translation": {"reference": "Player", "position": ["x", "y"], "keep_reference": False}},
        PPOConfig(
            total_timesteps=65_536, num_steps=8, minibatch_size=256, learning_rate=0.005, ent_coef=0.05
        ),
    ),
    # Chooses among entities.
    "CherryPick": (
        {}, PPOConfig(total_timesteps=24_576, num_steps=16, minibatch_size=512, learning_rate=0.005)
    ),
}  # fmt: skip


@pytest.mark.parametrize("game", NEARLY_SOLVED)
def test_ppo_comes_within_3_percent_of_the_optimum(game: str) -> None:
    net, config = NEARLY_SOLVED[game]
    with make_vec(game, num_envs=64) as venv, make_vec(game, num_envs=64) as other:
        torch.manual_seed(1)
        policy = RogueNet(venv.single_observation_space, venv.single_action_space, **net)
        before = evaluate(policy, other, 64, seed=1000).returns.mean()

        def is_mastered(trainer: PPO, metrics: dict[str, float]) -> bool:
            if metrics.get("charts/episodic_return", -1) < 0.8:
                return False
            return evaluate(policy, other, 1024, deterministic=True, seed=2000).returns.mean() >= 0.985

        PPO(policy, venv, config, callbacks=[is_mastered]).train()
        trained = evaluate(policy, other, 1024, deterministic=True, seed=1000).returns.mean()
    assert before < 0.4, "there must be something to learn"
    assert trained >= 0.97, "1.0 is the optimum of all three"
