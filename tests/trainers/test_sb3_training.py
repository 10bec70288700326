"""Stable-Baselines3 trains, evaluates, saves and resumes RogueNet on ragged batches."""

from __future__ import annotations

import base64
import io
import json
import pickletools
import warnings
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

import entitize as ez
import gymnasium
import numpy as np
import pytest
import torch
from entitize.policies import CheckpointError
from gymnasium.vector import SyncVectorEnv
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.callbacks import BaseCallback, CheckpointCallback, EvalCallback
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.logger import configure
from stable_baselines3.common.vec_env import VecCheckNan, VecMonitor, VecNormalize
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from facts import raises

SMALL: dict[str, Any] = {"d_model": 8, "n_layer": 1, "n_head": 2}
OPTIONS: dict[str, Any] = {"n_steps": 8, "n_epochs": 2, "policy_kwargs": SMALL, "seed": 1}


def make_model(venv: Any = None, **options: Any) -> PPO:
    return ez.sb3.PPO(venv or ez.sb3.make_vec("MineSweeper", num_envs=4), **{**OPTIONS, **options})


def weights(model: Any) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in model.policy.state_dict().items()}


def equal(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


class Watch(BaseCallback):
    """Keeps the first losses' facts: what the log-probabilities of a rollout were."""

    def __init__(self) -> None:
        super().__init__()
        self.log_probs: list[np.ndarray] = []

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        buffer = self.model.rollout_buffer  # type: ignore[attr-defined]
        self.model.policy.set_training_mode(True)
        for samples in buffer.get(None):
            with torch.no_grad():
                _, log_probs, _ = self.model.policy.evaluate_actions(  # type: ignore[operator]
                    samples.observations, samples.actions
                )
            self.log_probs.append((log_probs - samples.old_log_prob).numpy())


# tqdm says that its bar with rich is experimental.
@pytest.mark.filterwarnings("ignore:rich is experimental")
def test_the_code_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first example, with numbers that are smaller."""
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs" / "sb3.md").read_text()
    code = page.split("```python no-run\n")[1].split("```")[0]
    for number, smaller in {"=64": "=4", "=256": "=16", "=2048": "=32", "1_000_000": "100"}.items():
        assert number in code
        code = code.replace(number, smaller)
    namespace: dict[str, Any] = {}
    exec(code, namespace)
    assert namespace["model"].num_timesteps == 128
    assert list(tmp_path.glob("runs/PPO_1/events*"))
    namespace["venv"].close()


def environments() -> dict[str, Any]:
    """One action; several of many actors with masks; wrapped; real numbers; no entities at all."""

    def wrapped(name: str, **options: Any) -> ez.EntityVectorEnv:
        return ez.wrap_vec(SyncVectorEnv([partial(gymnasium.make, name, **options)] * 3))

    return {
        "Procgen": partial(ez.make_vec, "Procgen/maze", num_envs=3),
        "MineSweeper": partial(ez.make_vec, "MineSweeper", num_envs=3, max_steps=5),
        "MaskedBandit": partial(ez.make_vec, "MaskedBandit", num_envs=3),
        "CartPole": partial(wrapped, "CartPole-v1"),
        "Pendulum": partial(wrapped, "Pendulum-v1", max_episode_steps=6),
        "lanes": lambda: ez.vector.ListVectorEnv(
            [lambda: gymnasium.make("entitize/Xor-v0", answer="actor")] * 3
        ),
        "workers": partial(ez.make_vec, "MineSweeper", num_envs=2, num_workers=2),
    }


@pytest.mark.parametrize("name", environments())
def test_every_kind_of_environment_trains(name: str) -> None:
    """The update starts from the numbers of the rollout: all log-ratios are 0."""
    venv = ez.sb3.make_vec(environments()[name]())
    model = make_model(venv, ent_coef=0.01)
    before, watch = weights(model), Watch()
    model.learn(2 * 8 * venv.num_envs, callback=watch)
    assert len(watch.log_probs) == 2
    for log_ratios in watch.log_probs:
        assert log_ratios.shape == (8 * venv.num_envs,) and np.abs(log_ratios).max() < 1e-4
    after = weights(model)
    assert all(torch.isfinite(tensor).all() for tensor in after.values())
    assert any(not torch.equal(before[name], after[name]) for name, _ in model.policy.named_parameters())
    venv.close()


class Solved(BaseCallback):
    """Stops once the last 100 episodes were nearly all won."""

    def _on_step(self) -> bool:
        returns = [episode["r"] for episode in self.model.ep_info_buffer or []]
        return len(returns) < 100 or float(np.mean(returns)) < 0.99


def test_it_learns() -> None:
    model = ez.sb3.PPO(
        ez.sb3.make_vec("Xor", num_envs=64), n_steps=16, batch_size=512, learning_rate=0.01, n_epochs=4,
        ent_coef=0.05, normalize_advantage=False, max_grad_norm=2.0, seed=1,
    )  # fmt: skip
    venv = ez.sb3.make_vec("Xor", num_envs=64)
    before, _ = evaluate_policy(model, venv, n_eval_episodes=128)
    model.learn(32_768, callback=Solved())
    after, _ = evaluate_policy(model, venv, n_eval_episodes=128)
    assert before < 0.8 and after >= 0.99


def test_a2c_trains_too() -> None:
    model = A2C(ez.sb3.RogueNetPolicy, ez.sb3.make_vec("MineSweeper", num_envs=4), policy_kwargs=dict(SMALL),
                rollout_buffer_class=ez.sb3.RaggedRolloutBuffer, seed=1)  # fmt: skip
    assert isinstance(model.policy.optimizer, torch.optim.RMSprop)
    before = weights(model)
    model.learn(40)
    assert not equal(before, weights(model))
    assert set(model.predict(_mines())[0]) == {"Move", "Fire Orbital Cannon"}


def _mines() -> Any:
    return gymnasium.make("entitize/MineSweeper-v0").reset(seed=1)[0]


@pytest.mark.filterwarnings("ignore:rich is experimental")
def test_callbacks_loggers_and_the_progress_bar(tmp_path: Path) -> None:
    evaluations = EvalCallback(
        ez.sb3.make_vec("MineSweeper", num_envs=2, max_steps=5), eval_freq=8, n_eval_episodes=4,
        best_model_save_path=str(tmp_path), log_path=str(tmp_path), verbose=0,
    )  # fmt: skip
    checkpoints = CheckpointCallback(8, str(tmp_path), name_prefix="at")
    model = make_model(tensorboard_log=str(tmp_path / "log"))
    model.learn(64, callback=[evaluations, checkpoints], progress_bar=True)
    results = np.load(tmp_path / "evaluations.npz")
    assert results["timesteps"].tolist() == [32, 64] and results["results"].shape == (2, 4)
    best = PPO.load(tmp_path / "best_model.zip")
    assert isinstance(best.policy, ez.sb3.RogueNetPolicy)
    assert sorted(path.name for path in tmp_path.glob("at_*")) == ["at_32_steps.zip", "at_64_steps.zip"]
    assert equal(
        weights(PPO.load(tmp_path / "at_64_steps.zip")), weights(PPO.load(tmp_path / "at_64_steps.zip"))
    )
    events = EventAccumulator(str(tmp_path / "log" / "PPO_1"))
    events.Reload()
    scalars = set(events.Tags()["scalars"])
    assert {"rollout/ep_rew_mean", "train/loss", "eval/mean_reward", "time/fps"} <= scalars
    assert all(np.isfinite(event.value) for event in events.Scalars("train/loss"))


def test_evaluation_is_that_of_entitize() -> None:
    model = make_model()
    model.learn(32)
    venv = ez.sb3.make_vec("MineSweeper", num_envs=4)
    venv.seed(3)
    returns, lengths = evaluate_policy(model, venv, n_eval_episodes=8, return_episode_rewards=True)
    results = ez.evaluate(model.policy.network, ez.make_vec("MineSweeper", 4), 8, deterministic=True, seed=3)
    assert sorted(lengths) == sorted(results.lengths.tolist())
    assert sorted(returns) == sorted(results.returns.tolist())
    single = evaluate_policy(model.policy, venv, n_eval_episodes=4, deterministic=False)
    assert np.isfinite(single).all()


def test_wrappers_of_stable_baselines_go_around(tmp_path: Path) -> None:
    def wrapped(file: str | None = None) -> VecNormalize:
        inner = ez.sb3.vec_env(ez.make_vec("MineSweeper", num_envs=4, max_steps=4))
        return VecNormalize(VecCheckNan(VecMonitor(inner, file), raise_exception=True), norm_obs=False)

    venv = wrapped(str(tmp_path / "monitor.csv"))
    model = make_model(venv)
    model.learn(64)
    assert (tmp_path / "monitor.csv").read_text().count("\n") > 4
    rewards = model.get_vec_normalize_env()
    assert rewards is not None and rewards.ret_rms.count > 60
    venv.save(str(tmp_path / "normalize.pkl"))
    again = VecNormalize.load(str(tmp_path / "normalize.pkl"), ez.sb3.make_vec("MineSweeper", 4))
    assert again.ret_rms.var == rewards.ret_rms.var
    callback = EvalCallback(wrapped(), eval_freq=8, n_eval_episodes=2, verbose=0)
    model.learn(32, callback=callback)
    assert np.isfinite(callback.last_mean_reward)
    venv.close()


def test_a_check_for_nan_finds_one() -> None:
    engine = ez.make_vec("MineSweeper", num_envs=2)
    venv = VecCheckNan(ez.sb3.vec_env(engine), raise_exception=True)
    step = engine.step

    def broken(actions: Any) -> Any:
        batch, *rest = step(actions)
        batch.entities["Mine"].values[0, 0] = np.nan
        return batch, *rest

    engine.step = broken  # type: ignore[method-assign]
    with raises(ValueError, "nan", "observations.values/entities/Mine"):
        make_model(venv).learn(16)


def test_a_run_is_saved_loaded_and_resumed(tmp_path: Path) -> None:
    venv = ez.sb3.make_vec("MineSweeper", num_envs=4)
    model = make_model(venv)
    model.learn(64)
    model.save(tmp_path / "model")
    loaded = PPO.load(tmp_path / "model", env=venv)
    assert equal(weights(model), weights(loaded)) and loaded.num_timesteps == 64
    assert isinstance(loaded.rollout_buffer, ez.sb3.RaggedRolloutBuffer)
    observation = _mines()
    for name, choices in model.predict(observation, deterministic=True)[0].items():
        np.testing.assert_array_equal(loaded.predict(observation, deterministic=True)[0][name], choices)
    moments = [m.policy.optimizer.state_dict()["state"] for m in (model, loaded)]
    assert all(torch.equal(moments[0][i]["exp_avg"], moments[1][i]["exp_avg"]) for i in moments[0])
    loaded.learn(32, reset_num_timesteps=False)
    assert loaded.num_timesteps == 96 and not equal(weights(model), weights(loaded))
    wider = PPO.load(tmp_path / "model", env=ez.sb3.make_vec("MineSweeper", num_envs=6))
    wider.learn(48, reset_num_timesteps=False)
    assert wider.num_timesteps == 112
    with raises(ValueError, "Observation spaces"):
        PPO.load(tmp_path / "model", env=ez.sb3.make_vec("Xor", num_envs=4))


def test_learning_goes_on_where_it_was_left() -> None:
    """Two calls of `learn` are one long one."""
    whole = make_model()
    whole.learn(96)
    parts = make_model()
    for _ in range(3):
        parts.learn(32, reset_num_timesteps=False)
    assert parts.num_timesteps == 96 and equal(weights(whole), weights(parts))


def test_a_seed_repeats_a_run() -> None:
    first, second, other = (weights(make_model(seed=seed).learn(64)) for seed in (1, 1, 2))
    assert equal(first, second) and not equal(first, other)


def test_statistics_move_once_before_and_once_after_each_update() -> None:
    """As in `entitize.PPO`: by the first observations, and by each rollout once it was learned from."""
    model = make_model(n_epochs=3)
    seen: list[Any] = []
    steps: list[Any] = []
    network = model.policy.network
    model.policy.optimizer.register_step_post_hook(lambda *arguments: steps.append(arguments))
    update = network.update_normalization
    network.update_normalization = lambda batch: (seen.append((len(batch), len(steps))), update(batch))[1]
    model.learn(
        96, callback=EvalCallback(ez.sb3.make_vec("MineSweeper", 2, max_steps=3), eval_freq=4, verbose=0)
    )
    assert seen == [(4, 0), (32, 3), (32, 6)]
    model.policy.state_dict()
    assert seen[3:] == [(32, 9)]


def test_the_network_travels_to_entitize_and_back(tmp_path: Path) -> None:
    model = make_model()
    model.learn(32)
    exported = ez.sb3.export_policy(model, tmp_path)
    assert exported.name == "step_000000000032"
    assert not [
        path
        for path in tmp_path.rglob("*")
        if path.is_file() and path.suffix not in (".json", ".safetensors")
    ]
    loaded = ez.load_policy(tmp_path)
    batch, _ = ez.make_vec("MineSweeper", 5).reset(seed=1)
    network = model.policy.network
    acts = [net.eval().act(batch, np.random.default_rng(1)) for net in (network, loaded)]
    assert acts[0].actions == acts[1].actions and acts[0].values.tolist() == acts[1].values.tolist()
    config = ez.PPOConfig(total_timesteps=64, num_steps=8)
    ez.PPO(loaded, ez.make_vec("MineSweeper", 4), config).train()
    back = ez.sb3.PPO(ez.sb3.make_vec("MineSweeper", 4), network=loaded, n_steps=8, learning_rate=0.0)
    assert equal(dict(back.policy.network.state_dict()), dict(loaded.state_dict()))
    assert ez.load_policy(ez.sb3.export_policy(back.policy, tmp_path / "policy")).config == loaded.config
    with raises(TypeError, "RogueNetPolicy", "ActorCriticPolicy"):
        ez.sb3.export_policy(PPO("MlpPolicy", "CartPole-v1"), tmp_path)


def test_an_export_replaces_the_ones_of_more_steps(tmp_path: Path) -> None:
    model = make_model()
    model.learn(64)
    old = ez.sb3.export_policy(model, tmp_path)
    model.learn(32)  # counts from 0 again
    new = ez.sb3.export_policy(model, tmp_path)
    assert (old.name, new.name) == ("step_000000000064", "step_000000000032")
    assert equal(dict(ez.load_policy(tmp_path).state_dict()), dict(model.policy.network.state_dict()))
    assert list((tmp_path / "checkpoints").iterdir()) == [new] == [ez.sb3.export_policy(model, tmp_path)]
    (new / "optimizer.safetensors").touch()  # as in a run folder
    with raises(CheckpointError, "export_policy", str(tmp_path), "another folder"):
        ez.sb3.export_policy(model, tmp_path)
    assert new.exists()


def test_arguments_are_filled_in() -> None:
    model = ez.sb3.PPO(ez.make_vec("Xor", num_envs=3), n_steps=700, policy_kwargs={"n_layer": 0})
    assert type(model) is PPO and isinstance(model.get_env(), VecMonitor)
    assert isinstance(model.policy, ez.sb3.RogueNetPolicy) and model.policy.network.config["n_layer"] == 0
    assert isinstance(model.rollout_buffer, ez.sb3.RaggedRolloutBuffer)
    assert model.batch_size == 1050  # the largest up to 2,048 that divides 2,100
    for steps, expected in ((2053, 1027), (3 * 2053, 1540), (2 * 2063, 1376), (2048, 2048), (3, 3)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the last minibatch is smaller
            model = ez.sb3.PPO(ez.make_vec("Xor", num_envs=1), n_steps=steps)
        assert model.batch_size == expected, steps
    assert model.device == torch.device("cpu")
    own = ez.sb3.PPO(ez.sb3.make_vec("Xor"), batch_size=64, n_steps=64, gamma=0.5, device="cpu")
    assert (own.batch_size, own.gamma) == (64, 0.5)


def globals_of(pickled: bytes) -> set[str]:
    """The classes and functions of Entitize that a pickle names."""
    strings: list[str] = []
    found = set()
    for opcode, argument, _ in pickletools.genops(io.BytesIO(pickled)):
        if opcode.name in ("SHORT_BINUNICODE", "BINUNICODE"):
            strings.append(argument)
        elif opcode.name == "STACK_GLOBAL":
            found.add(".".join(strings[-2:]))
        elif opcode.name == "GLOBAL":
            found.add(argument.replace(" ", "."))
    return {name for name in found if name.startswith("entitize")}


def test_saved_models_name_paths_that_are_to_stay(tmp_path: Path) -> None:
    """Zip files of today can be read only while these classes are where they are."""
    model = make_model()
    model.learn(32)
    model.save(tmp_path / "model.zip")
    data = json.loads(zipfile.ZipFile(tmp_path / "model.zip").read("data"))
    pickles = [
        base64.b64decode(v[":serialized:"])
        for v in data.values()
        if isinstance(v, dict) and ":serialized:" in v
    ]
    named = set().union(*map(globals_of, pickles))
    assert {name for name in named if "sb3" in name or "packed" in name} == {
        "entitize.envs.batch.packed_spaces.PackedActionSpace",
        "entitize.envs.batch.packed_spaces.PackedBatchSpace",
        "entitize.trainers.sb3.sb3_policy.RogueNetPolicy",
        "entitize.trainers.sb3.buffer.RaggedRolloutBuffer",
    }


def test_a_rollout_that_is_not_complete_gives_no_samples() -> None:
    model = make_model()
    with raises(RuntimeError, "rollout", 0, 8):
        next(model.rollout_buffer.get(4))


def test_the_log_tells_of_episodes(tmp_path: Path) -> None:
    model = make_model(ez.sb3.make_vec("MineSweeper", num_envs=4, max_steps=4))
    model.set_logger(configure(str(tmp_path), ["json"]))
    model.learn(64)
    model.logger.close()
    lines = [json.loads(line) for line in (tmp_path / "progress.json").read_text().splitlines()]
    assert lines[-1]["rollout/ep_len_mean"] <= 4 and lines[-1]["time/total_timesteps"] == 64
