"""Two implementations of the same computation, over whole trainings: they learn alike."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from entitize import RogueNet, make_vec
from entitize.trainers import PPO, PPOConfig
from entitize.trainers.learners import TorchLearner
from torch import Tensor, nn


def test_training_goes_the_same_way_with_torchs_loss_and_optimizer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first updates agree to rounding; after 120 of them returns agree within the noise of sampling."""
    outcomes = []
    for by_torch in (False, True):
        venv = make_vec("entitize/MineSweeper-v0", num_envs=8)
        torch.manual_seed(0)
        policy = RogueNet(venv.single_observation_space, venv.single_action_space, d_model=16, n_layer=1)
        config = PPOConfig(minibatch_size=64, num_steps=8, update_epochs=2, total_timesteps=120 * 64)
        trainer = PPO(policy, venv, config)
        if by_torch:
            monkeypatch.setattr("entitize.trainers.learners.base_learner.clip_gradients", torch_clip)
            optimizer = torch.optim.AdamW(trainer.policy.parameters(), eps=1e-5, weight_decay=0.0)
            trainer.learner = TorchLearner(trainer.policy, optimizer, trainer.config)
        returns, first = [], []

        def note(trainer: PPO, metrics: dict[str, float]) -> None:
            returns.append(metrics.get("charts/episodic_return", np.nan))  # noqa: B023 - called in this turn
            if trainer.updates <= 3:
                first.append(metrics["losses/loss"])  # noqa: B023

        trainer.callbacks.append(note)
        trainer.train()
        assert trainer.updates == 120
        outcomes.append((first, float(np.mean(returns[-50:]))))
    (first, final), (expected, expected_final) = outcomes
    assert first == pytest.approx(expected, rel=1e-3, abs=1e-4)
    assert final == pytest.approx(expected_final, abs=0.1)


def torch_clip(parameters: list[Tensor], max_norm: float) -> float:
    return float(nn.utils.clip_grad_norm_(parameters, max_norm))


def test_both_engines_learn_alike() -> None:
    """120 updates on a game that is learned in that time, from the same seed."""
    ends = {}
    for engine in ("fused", "torch"):
        returns: list[float] = []

        def keep(trainer: PPO, metrics: dict[str, float], returns: list[float] = returns) -> bool:
            returns.append(metrics.get("charts/episodic_return", np.nan))
            return False

        torch.manual_seed(0)
        with make_vec("entitize/Xor-v0", num_envs=16) as venv:
            net = RogueNet(
                venv.single_observation_space, venv.single_action_space, d_model=8, n_layer=1, engine=engine
            )
            config = PPOConfig(
                total_timesteps=120 * 128, num_steps=8, minibatch_size=128, update_epochs=1,
                learning_rate=0.01, seed=0,
            )  # fmt: skip
            PPO(net, venv, config, callbacks=[keep]).train()
        ends[engine] = returns
    first = {name: np.nanmean(returns[:5]) for name, returns in ends.items()}
    last = {name: np.nanmean(returns[-30:]) for name, returns in ends.items()}
    assert last["fused"] > first["fused"] + 0.2 and last["torch"] > first["torch"] + 0.2
    assert abs(last["fused"] - last["torch"]) < 0.1
