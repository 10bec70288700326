"""IMPALA on Procgen's pixels from the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from entitize.experiments import TrainConfig, find_config, read_config

Run = Callable[..., tuple[int, str, str]]
ENV = ("--env.num-envs", "2", "--env.kwargs", "num_threads=1")


def test_the_configuration_is_that_of_the_blog() -> None:
    config = read_config(TrainConfig, find_config("procgen_impala"))
    entities = read_config(TrainConfig, find_config("procgen_reference"))
    ppo = config.ppo
    assert (config.network, config.env.kwargs["features"]) == ("ImpalaNet", "pixels")
    assert (ppo.learning_rate, ppo.anneal_lr, ppo.ent_coef, ppo.anneal_entropy) == (5e-4, False, 0.01, False)
    assert (config.env.num_envs, ppo.num_steps, ppo.minibatch_size, ppo.update_epochs) == (64, 256, 2048, 3)
    assert (ppo.gamma, ppo.gae_lambda, ppo.clip_coef, ppo.vf_coef) == (0.999, 0.95, 0.2, 0.5)
    assert (ppo.normalize_rewards, entities.ppo.normalize_rewards) == (True, False)  # OpenAI's
    assert (ppo.clip_vloss, ppo.total_timesteps) == (True, 25_000_000)
    assert config.env.kwargs == {**entities.env.kwargs, "features": "pixels"}  # easy, all levels


def test_a_network_is_trained_judged_shown_and_told_about(entitize: Run, tmp_path: Path) -> None:
    run = tmp_path / "run"
    small = ("--baseline", "channels=[4]", "hidden=8", "--eval.episodes", "2", "--eval.num-envs", "2")
    sizes = ("--ppo.num-steps", "8", "--ppo.minibatch-size", "8", "--ppo.total-timesteps", "32")
    words = ("--env.id", "Procgen/starpilot", *ENV, *small, *sizes)
    code, out, err = entitize("train", "--config", "procgen_impala", "--run", run, *words)
    assert (code, err) == (0, "")
    code, out, err = entitize("eval", run)
    assert (code, err) == (0, "")
    assert "run" in out
    code, out, err = entitize("play", run, "--out", tmp_path / "a.gif", "--max-steps", 3)
    assert (code, err) == (0, "")
    assert "a.gif: 3 steps" in out
    code, out, err = entitize("info", "--run", run)
    assert (code, err) == (0, "")
    assert "Frame\n  64 × 64 × 3\nActions\n" in out and "Entities" not in out


def test_the_summary_tells_of_621_thousand_parameters(entitize: Run) -> None:
    words = ("info", "Procgen/coinrun", "--network", "ImpalaNet")
    code, out, err = entitize(*words, "--kwargs", "features=pixels")
    assert (code, err) == (0, "")
    assert "encoder weights                                        621,488\n" in out
    code, _, err = entitize(*words)
    assert code == 2
    assert err.count("ImpalaNet: ") == 1 and "the option features=pixels" in err
    code, _, err = entitize("info", "Procgen/coinrun", "--kwargs", "features=pixels")
    assert code == 2
    assert "RogueNet: " in err and "ImpalaNet" in err
    code, _, err = entitize(*words, "--kwargs", "features=pixels", "--baseline", "height=64")
    assert code == 2
    assert "unknown key 'baseline.height'" in err
