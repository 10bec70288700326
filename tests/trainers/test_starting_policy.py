"""PPO from a trained policy: value warm-up, the penalty for leaving it, resume, other spaces."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import entitize as ez
import numpy as np
import pytest
import torch
from entitize.cli import main
from entitize.experiments import TrainConfig, UserError, initial_policy
from entitize.ragged import RaggedArray
from entitize.trainers import (
    PPO,
    CheckpointError,
    PPOConfig,
    generalized_advantages,
    load_policy,
    read_checkpoint,
    read_metrics,
    write_checkpoint,
)

from facts import raises

OPTIONS: dict[str, Any] = {
    "total_timesteps": 192,
    "num_steps": 6,
    "minibatch_size": 12,
    "update_epochs": 2,
    "learning_rate": 0.01,
}


def network(venv: Any, **options: Any) -> ez.RogueNet:
    torch.manual_seed(0)
    spaces = venv.single_observation_space, venv.single_action_space
    net = ez.RogueNet(*spaces, d_model=8, n_layer=1, **options)
    batch, _ = venv.reset(seed=5)
    net.update_normalization(batch)
    return net


def is_of_the_value(name: str) -> bool:
    return name.startswith(("value_head.", "value_net."))


@pytest.mark.parametrize("engine", ["auto", "torch", "graphs"])
@pytest.mark.parametrize("separate", [False, True])
def test_value_warm_up_leaves_the_policy_as_it_is(engine: str, separate: bool, toy_venv: Any) -> None:
    net = network(toy_venv(4), engine=engine, separate_value_net=separate)
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    trainer = PPO(net, toy_venv(4), PPOConfig(**OPTIONS, value_warmup_steps=48))
    metrics = trainer.train(48, progress=False)
    changed = {name for name, tensor in net.state_dict().items() if not torch.equal(tensor, before[name])}
    assert changed == {name for name, _ in net.named_parameters() if is_of_the_value(name)}
    assert metrics["losses/approx_kl"] == pytest.approx(0, abs=1e-6)
    trainer.train(96, progress=False)
    changed = {name for name, tensor in net.state_dict().items() if not torch.equal(tensor, before[name])}
    for part in ("policy_net.", "action_heads.", "normalization."):
        assert any(name.startswith(part) for name in changed), part


@pytest.mark.parametrize("engine", ["auto", "torch", "graphs"])
def test_value_warm_up_is_not_held_back_by_clipping(engine: str, toy_venv: Any) -> None:
    options = OPTIONS | {"update_epochs": 40, "clip_coef": 1e-6}
    trainer = PPO(
        network(toy_venv(4), engine=engine), toy_venv(4), PPOConfig(**options, value_warmup_steps=24)
    )
    errors = []
    for _ in range(2):  # warm-up, and after it
        samples = trainer.collect()
        trainer.update()
        after = trainer.policy.evaluate(samples.observations, samples.actions).values.detach().numpy()
        errors.append([float(((v - samples.returns) ** 2).mean()) for v in (samples.values, after)])
        assert trainer.learner.config.clip_vloss == (len(errors) == 2)
    assert errors[0][1] < 0.5 * errors[0][0]
    assert errors[1][1] > 0.5 * errors[1][0]


def test_a_policy_without_a_part_for_the_value_is_named(toy_policy: Any, toy_venv: Any) -> None:
    with raises(ValueError, "value_warmup_steps", "ToyPolicy", "value_head", "critic"):
        PPO(toy_policy(), toy_venv(4), PPOConfig(**OPTIONS, value_warmup_steps=1))


@pytest.mark.parametrize("engine", ["auto", "torch"])
def test_the_penalty_is_its_definition_in_float64(engine: str, toy_venv: Any) -> None:
    """Advantages are linear in the rewards: the penalty changes them by its own discounted sum."""
    coef = 0.3

    class Ends(toy_venv):  # type: ignore[misc, valid-type]
        ended: list[np.ndarray]

        def step(self, actions: Any) -> Any:
            result = super().step(actions)
            self.ended.append(result[2] | result[3])
            return result

    samples, venvs = [], []
    for weight in (0.0, coef):
        venv = Ends(4)
        venv.ended = []
        net = network(venv, engine=engine)
        start = {name: tensor.clone() for name, tensor in net.state_dict().items()}
        config = PPOConfig(**OPTIONS, start_kl_coef=weight, value_warmup_steps=1)
        trainer = PPO(net, venv, config)
        generator = torch.Generator().manual_seed(1)
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
        samples.append(trainer.collect())
        venvs.append(venv)
    plain, penalized = samples
    assert all(plain.actions[name] == penalized.actions[name] for name in plain.actions)

    exact = [
        ez.RogueNet(net.observation_space, net.action_space, **net.config | {"engine": "torch"}).double()
        for _ in "12"
    ]
    exact[0].load_state_dict(net.state_dict())
    exact[1].load_state_dict(start)
    evaluations = [e.eval().evaluate(plain.observations, plain.actions).log_probs for e in exact]
    ratios = np.zeros(len(plain))
    for name, chosen in plain.actions.items():
        difference = (evaluations[0][name] - evaluations[1][name]).detach().numpy()
        for step in range(len(plain)):
            ratios[step] += difference[chosen.offsets[step] : chosen.offsets[step + 1]].sum()
    assert np.abs(ratios).max() > 0.05
    change, following = np.zeros((6, 4)), np.zeros(4)
    for t in reversed(range(6)):
        goes_on = ~venvs[1].ended[t]
        following = -coef * ratios.reshape(6, 4)[t] + config.gamma * config.gae_lambda * goes_on * following
        change[t] = following
    np.testing.assert_allclose(penalized.advantages - plain.advantages, change.ravel(), atol=2e-5)
    metrics = trainer.update()
    assert metrics["losses/start_kl"] == pytest.approx(ratios.mean(), abs=1e-5)
    assert metrics["charts/start_kl_coef"] == coef


def test_the_weight_of_the_penalty_falls_to_0(toy_venv: Any) -> None:
    found = []
    config = PPOConfig(**OPTIONS, start_kl_coef=0.4, start_kl_share=0.5)
    trainer = PPO(
        network(toy_venv(4)), toy_venv(4), config, callbacks=[lambda _, metrics: found.append(metrics)]
    )
    trainer.train(progress=False)
    weights = [metrics["charts/start_kl_coef"] for metrics in found]
    assert weights == pytest.approx([0.4, 0.3, 0.2, 0.1, 0, 0, 0, 0])
    assert ["losses/start_kl" in metrics for metrics in found] == [True] * 4 + [False] * 4


def test_advantages_are_estimated_once_without_a_penalty(
    toy_venv: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = []

    def counted(*arguments: Any) -> Any:
        counts.append(1)
        return generalized_advantages(*arguments)

    monkeypatch.setattr("entitize.trainers.rollout.generalized_advantages", counted)
    config = PPOConfig(**OPTIONS | {"total_timesteps": 48}, start_kl_coef=0.4, start_kl_share=0.5)
    PPO(network(toy_venv(4)), toy_venv(4), config).train(progress=False)
    assert len(counts) == 2 + 1  # with β > 0, and with β = 0


def test_inactive_lanes_have_no_penalty(waiting_venv: Any) -> None:
    config = PPOConfig(**{**OPTIONS, "total_timesteps": 96}, start_kl_coef=0.4)
    trainer = PPO(network(waiting_venv(4)), waiting_venv(4), config)
    assert np.isfinite(trainer.train(progress=False)["losses/start_kl"])


def test_a_large_weight_keeps_the_policy_near_its_start(toy_venv: Any) -> None:
    distances = []
    for weight in (1e-9, 3.0):
        config = PPOConfig(**{**OPTIONS, "total_timesteps": 960, "num_steps": 24}, start_kl_coef=weight)
        trainer = PPO(network(toy_venv(4)), toy_venv(4), config)
        distances.append(trainer.train(progress=False)["losses/start_kl"])
    assert abs(distances[1]) < 0.5 * distances[0]


def test_a_resumed_run_is_bit_equal_and_needs_no_other_folder(stateful_toy_venv: Any, tmp_path: Path) -> None:
    config = PPOConfig(**OPTIONS, checkpoint_interval=48, value_warmup_steps=72, start_kl_coef=0.3)
    PPO(network(stateful_toy_venv(4)), stateful_toy_venv(4), PPOConfig(**OPTIONS), tmp_path / "first").train(
        24
    )

    def start() -> Any:
        return load_policy(tmp_path / "first")

    whole = PPO(start(), stateful_toy_venv(4), config, tmp_path / "whole")
    whole.train(progress=False)
    stop = [lambda trainer, _: trainer.step >= 96]
    PPO(start(), stateful_toy_venv(4), config, tmp_path / "parts", callbacks=stop).train(progress=False)
    fresh = network(stateful_toy_venv(4))
    shutil.rmtree(tmp_path / "first")
    parts = PPO(fresh, stateful_toy_venv(4), config, tmp_path / "parts", resume=True)
    assert parts.step == 96
    parts.train(progress=False)
    for name, tensor in whole.policy.state_dict().items():
        assert torch.equal(tensor, parts.policy.state_dict()[name]), name
    logs = [read_metrics(tmp_path / part / "metrics.jsonl") for part in ("whole", "parts")]
    for left, right in zip(*logs, strict=True):
        assert left["losses/loss"] == right["losses/loss"]
        assert left["losses/start_kl"] == right["losses/start_kl"]


def test_a_checkpoint_without_a_starting_policy_is_named(toy_venv: Any, tmp_path: Path) -> None:
    PPO(network(toy_venv(4)), toy_venv(4), PPOConfig(**OPTIONS), tmp_path / "run").train(24, progress=False)
    config = PPOConfig(**OPTIONS, start_kl_coef=0.1)
    with raises(CheckpointError, "start_kl_coef"):
        PPO(network(toy_venv(4)), toy_venv(4), config, tmp_path / "run", resume=True)


@pytest.mark.parametrize("damage", ["name", "shape", "finite", "later"])
def test_a_starting_policy_is_checked_before_anything_changes(
    damage: str, stateful_toy_venv: Any, tmp_path: Path
) -> None:
    config = PPOConfig(**OPTIONS, start_kl_coef=0.1)
    trainer = PPO(network(stateful_toy_venv(4)), stateful_toy_venv(4), config, tmp_path / "run")
    stored = read_checkpoint(trainer.save_checkpoint())
    tensors = {group: dict(entries) for group, entries in stored.tensors.items()}
    metadata = {n: v for n, v in stored.metadata.items() if n not in ("format", "step", "sha256")}
    start = tensors["start"] = {name: tensor + 1 for name, tensor in tensors["start"].items()}
    name = next(name for name in start if name.endswith("weight"))
    if damage == "name":
        start["another"] = start.pop(name)
    elif damage == "shape":
        start[name] = torch.zeros(3)
    elif damage == "finite":
        start[name] = torch.full_like(start[name], torch.nan)
    else:  # the starting policy is sound, but not what is restored after it
        tensors["environments"] = {"nothing": torch.zeros(1)}
    broken = write_checkpoint(tmp_path / "broken", 0, tensors, metadata)
    assert trainer.collector.start is not None
    before = {name: tensor.clone() for name, tensor in trainer.collector.start.policy.state_dict().items()}
    with raises(CheckpointError, broken):
        trainer.restore(broken)
    for name, tensor in trainer.collector.start.policy.state_dict().items():
        assert torch.equal(tensor, before[name]), name


def test_a_wider_space_is_read_by_name(stateful_toy_venv: Any, tmp_path: Path) -> None:
    narrow = stateful_toy_venv(4).single_observation_space
    entities = {"Robot": ["size", "x", "hue"], "Crate": ["weight"], "Wall": ["x"]}
    space = ez.EntitySpace(entities, narrow.actions, ["score", "time"])

    def widened(batch: ez.EntityBatch) -> ez.EntityBatch:
        robots, count = batch.entities["Robot"], len(batch)
        wide = np.concatenate([np.ones_like(robots.values[:, :1]), robots.values[:, ::-1]], 1)
        walls = RaggedArray.from_lengths(np.zeros((2 * count, 1), np.float32), np.full(count, 2))
        rows = {"Robot": robots.with_values(wide), "Crate": batch.entities["Crate"], "Wall": walls}
        globals_ = np.concatenate([np.full_like(batch.globals, 7), batch.globals], 1)
        return ez.EntityBatch(rows, globals_, batch.actions)

    class Wide(stateful_toy_venv):  # type: ignore[misc, valid-type]
        single_observation_space = space

        def reset(self, **options: Any) -> Any:
            batch, info = super().reset(**options)
            return widened(batch), info

        def step(self, actions: Any) -> Any:
            batch, *rest, info = super().step(actions)
            if "final_obs" in info:
                info = {**info, "final_obs": widened(info["final_obs"])}
            return widened(batch), *rest, info

        def set_state(self, state: Any) -> Any:
            return widened(super().set_state(state))

    run = tmp_path / "first"
    PPO(network(stateful_toy_venv(4)), stateful_toy_venv(4), PPOConfig(**OPTIONS), run).train(24)
    config = TrainConfig(ppo=PPOConfig(**OPTIONS, start_kl_coef=0.1), init_from=str(run))
    weights = []
    for kind in (stateful_toy_venv, Wide):
        policy, resolved = initial_policy(config, kind(4), tmp_path / "second")
        assert resolved.net.d_model == 8
        folder = tmp_path / kind.__name__
        PPO(policy, kind(4), config.ppo, folder).train(96, progress=False)
        again, _ = initial_policy(config, kind(4), folder)
        resumed = PPO(again, kind(4), config.ppo, folder, resume=True)
        resumed.train(144, progress=False)
        weights.append(resumed.policy.state_dict())
    for name, tensor in weights[0].items():
        assert torch.equal(tensor, weights[1][name]), name
    with raises(UserError, "init_from", run, "hue"):
        poor = ez.EntitySpace({"Robot": ["x"], "Crate": ["weight"]}, narrow.actions, ["time"])
        Wide.single_observation_space = poor
        initial_policy(config, Wide(4), tmp_path / "third")


def test_training_starts_from_a_run_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    common = ["--env.num-envs", "4", "--ppo.num-steps", "8", "--progress", "none"]
    small = ["--net.d-model", "8", "--net.n-layer", "1", "--ppo.total-timesteps", "256"]
    assert main(["train", "--env.id", "MineSweeper", "--run", str(first), *common, *small]) == 0
    warm = ["--ppo.value-warmup-steps", "32", "--ppo.start-kl-coef", "0.1", "--ppo.total-timesteps", "32"]
    words = ["train", "--env.id", "MineSweeper", "--env.kwargs", "nmines=3", "--run", str(second), *common]
    assert main([*words, "--init-from", str(first), *warm]) == 0
    before, after = load_policy(first), load_policy(second)
    for name, tensor in after.state_dict().items():
        assert torch.equal(tensor, before.state_dict()[name]) != is_of_the_value(name), name
    shutil.rmtree(first)
    assert main(["train", "--resume", str(second), "--ppo.total-timesteps", "64", "--progress", "none"]) == 0
    assert (
        read_checkpoint(second / "checkpoints" / "step_000000000064").metadata["policy"]["config"]["d_model"]
        == 8
    )
    capsys.readouterr()
    words = ["train", "--env.id", "MineSweeper", "--run", str(tmp_path / "third"), "--init-from", str(second)]
    assert main([*words, "--net.d-model", "32"]) == 2
    error = capsys.readouterr().err
    assert "another network" in error and "32" in error and "8" in error
    assert main([*words, "--net.d-model", "16"]) == 2  # the default of a fresh network
    error = capsys.readouterr().err
    assert "another network" in error and "16" in error and "8" in error
    there = ["train", "--env.id", "MineSweeper", "--run", str(second), "--init-from", str(tmp_path)]
    assert main([*there, "--net.d-model", "32"]) == 2
    error = capsys.readouterr().err
    assert "contains a run already" in error and str(second) in error
    assert main(["train", "--resume", str(second), "--init-from", "elsewhere"]) == 2
    assert "--init-from" in capsys.readouterr().err
    assert main([*words[:-1], str(tmp_path / "nowhere")]) == 2
    assert "nowhere" in capsys.readouterr().err
