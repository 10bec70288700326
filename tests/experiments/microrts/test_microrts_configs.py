"""The configurations for μRTS that come along."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import entitize as ez
import numpy as np
import pytest
from entitize.experiments import (
    TrainConfig,
    config_names,
    find_config,
    make_environments,
    make_policy,
    read_config,
    with_lanes,
)

CONFIGS = [name for name in config_names() if name.startswith("microrts")]

#: What both papers share, the defaults of their programs: in gym-microrts-paper ppo_diverse_impala.py and
#: ppo_gridnet_diverse_encode_decode.py, in transformers-for-variable-action-envs
#: transformer_agent/arg_handler.py.
SHARED: dict[str, Any] = {
    "gamma": 0.99,
    "gae_lambda": 0.95,
    "learning_rate": 2.5e-4,
    "anneal_lr": True,
    "adam_eps": 1e-5,
    "update_epochs": 4,
    "norm_adv": True,
    "clip_coef": 0.1,
    "clip_vloss": True,
    "target_kl": None,
    "ent_coef": 0.01,
    "anneal_entropy": False,
    "vf_coef": 0.5,
    "max_grad_norm": 0.5,
    "weight_decay": 0.0,
}
#: Network, parameters on 16 × 16, steps per rollout, steps in all, whether all units' orders have one ratio.
#: Steps: 100M in Zwingenberger 2023; 300M in Huang et al. 2021, says Goodfriend 2024 (arXiv:2402.08112).
PUBLISHED = {
    "microrts_transformer": ("TransformerNet", 661_854, 256, 100_000_000, True),
    "microrts_gridnet": ("GridNet", 838_191, 256, 300_000_000, True),
    "microrts_uas": ("UnitActionNet", 220_175, 512, 300_000_000, False),
}


def read(name: str) -> TrainConfig:
    return read_config(TrainConfig, find_config(name))


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_published_hyper_parameters_are_those_of_the_papers(name: str) -> None:
    config = read(name)
    network, _, num_steps, total, joint = PUBLISHED[name]
    assert {key: getattr(config.ppo, key) for key in SHARED} == SHARED
    assert config.network == network
    assert config.ppo.num_steps == num_steps
    assert config.ppo.minibatch_size == 24 * num_steps // 4  # 4 minibatches
    assert config.ppo.total_timesteps == total
    assert config.ppo.joint_log_prob is joint
    assert config.baseline == {"composite": "all"}
    assert (config.env.id, config.env.num_envs) == ("MicroRTS/basesWorkers16x16", 24)
    kwargs = dict(config.env.kwargs)
    assert list(ez.microrts.weights_array(kwargs.pop("reward_weights"))) == [10, 1, 1, 0.2, 1, 4]
    assert kwargs == {
        "features": "planes",
        "mask_reserved": False,
        "max_steps": 2000,
        "opponents": {"coacAI": 18, "randomBiasedAI": 2, "lightRushAI": 2, "workerRushAI": 2},
    }


@pytest.mark.parametrize("name", ["microrts", "microrts_8x8", "microrts_selfplay"])
def test_our_configurations_are_about_winning(name: str) -> None:
    config = read(name)
    first, last = (
        ez.microrts.weights_array(config.env.kwargs[key])
        for key in ("reward_weights", "final_reward_weights")
    )
    assert first[0] == last[0] == 10
    assert (first[1:] > 0).all() and (first[1:] < [1, 1, 0.2, 1, 4]).all()
    assert not last[1:].any()
    assert 0.995 <= config.ppo.gamma < 1
    assert ez.microrts.weights_array(config.eval.kwargs["reward_weights"]).tolist() == [1, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("name", CONFIGS)
def test_environments_and_network_can_be_made(name: str) -> None:
    config = read(name)
    judged = replace(config.env, kwargs={**config.env.kwargs, **config.eval.kwargs})
    for env in (with_lanes(config.env, 3), with_lanes(judged, 2)):
        with make_environments(env) as venv:
            policy = make_policy(config, venv)
            batch, _ = venv.reset(seed=0)
            venv.step(policy.act(batch, np.random.default_rng(0)).actions)
    parameters = sum(parameter.numel() for parameter in policy.parameters())
    assert parameters == (PUBLISHED[name][1] if name in PUBLISHED else 30_607)


def test_our_configuration_trains(
    entitize: Callable[..., tuple[int, str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights: list[list[float]] = []
    set_progress = ez.microrts.MicroRTSVectorEnv.set_progress

    def recorded(venv: ez.microrts.MicroRTSVectorEnv, fraction: float) -> None:
        set_progress(venv, fraction)
        weights.append(venv.reward_weights.tolist())

    monkeypatch.setattr(ez.microrts.MicroRTSVectorEnv, "set_progress", recorded)
    words = ("--ppo.num-steps", 2, "--ppo.total-timesteps", 96, "--run", tmp_path / "run")
    code, _, err = entitize("train", "--config", "microrts_8x8", *words)
    assert (code, err) == (0, "")
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [48, 96]
    half = [10, 0.15, 0.15, 0.05, 0.15, 0.5]
    np.testing.assert_allclose(weights[-2:], [[10, 0.3, 0.3, 0.1, 0.3, 1], half])


def test_a_resumed_run_weighs_rewards_as_the_whole_run_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {
        "opponents": "passiveAI",
        "reward_weights": {"gather": 1.0},
        "final_reward_weights": {"win_loss": 1.0},
    }
    config = ez.PPOConfig(total_timesteps=32, num_steps=4, minibatch_size=8, update_epochs=1)

    def train(resume: bool, updates: int) -> list[float]:
        """The weights of winning in the rollouts of `updates` updates."""
        seen: list[float] = []
        with ez.make_vec("MicroRTS/basesWorkers8x8", 2, **options) as venv:
            assert isinstance(venv, ez.microrts.MicroRTSVectorEnv)
            policy = ez.RogueNet(
                venv.single_observation_space, venv.single_action_space, d_model=8, n_layer=1
            )
            trainer = ez.PPO(policy, venv, config, tmp_path / "run", resume=resume)

            def note(trainer: ez.PPO, metrics: dict[str, float]) -> bool:
                seen.append(float(venv.reward_weights[0]))
                return len(seen) == updates

            trainer.callbacks.append(note)
            trainer.train()
        return seen

    assert train(resume=False, updates=2) == [0.0, 0.25]
    assert train(resume=True, updates=2) == [0.5, 0.75]
