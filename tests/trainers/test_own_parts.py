"""What users put into a training of their own: policies, optimizers, schedules, callbacks, curricula."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import entitize as ez
import gymnasium
import numpy as np
import pytest
import torch
import yaml
from entitize.envs import EntityBatch
from entitize.ragged import RaggedArray
from entitize.trainers import PPO, NonFiniteError, PPOConfig
from numpy.typing import NDArray
from torch import nn

from facts import raises

CONFIG = PPOConfig(total_timesteps=512, num_steps=16, minibatch_size=64, update_epochs=1, device="cpu")


def mines(num_envs: int = 4) -> Any:
    return ez.make_vec("MineSweeper", num_envs=num_envs)


def network(venv: Any, **options: Any) -> ez.RogueNet:
    torch.manual_seed(0)
    sizes = {"d_model": 8, "n_layer": 1, "n_head": 2}
    return ez.RogueNet(venv.single_observation_space, venv.single_action_space, **{**sizes, **options})


def trainer(config: PPOConfig = CONFIG, venv: Any = None, **options: Any) -> PPO:
    venv = mines() if venv is None else venv
    return PPO(network(venv), venv, config, **options)


def starts(batch: EntityBatch) -> set[bytes]:
    """Return the lanes' observations, to be compared."""
    return {b"".join(rows[lane].tobytes() for rows in batch.entities.values()) for lane in range(len(batch))}


# -- episodes -----------------------------------------------------------------------------------------------


def test_neighbouring_seeds_evaluations_and_recordings_share_no_episode(tmp_path: Path) -> None:
    def first(seed: int) -> set[bytes]:
        ppo = trainer(replace(CONFIG, seed=seed), mines(8))
        return starts(ppo.collect().observations[:8])

    class Noted(ez.vector.EntityVectorWrapper):
        seen: set[bytes]

        def _reset(self, seeds: Any, options: Any) -> Any:
            batch, info = self.venv.reset(seed=seeds, options=options)
            self.seen = starts(batch)
            return batch, info

        def _step(self, actions: Any) -> Any:
            return self.venv.step(actions)

    evaluated, recorded = Noted(mines(8)), Noted(mines(8))
    ez.evaluate(network(evaluated), evaluated, episodes=1)
    ez.record(recorded, None, tmp_path / "plays", steps=1)
    groups = [first(1), first(2), first(3), evaluated.seen, recorded.seen]
    assert all(len(group) == 8 for group in groups)
    assert len(set().union(*groups)) == 40


# -- policies -----------------------------------------------------------------------------------------------


class Misshapen(ez.RogueNet):
    """Returns one of its numbers in another shape."""

    wrong = ""

    def evaluate(self, observations: Any, actions: Any) -> Any:
        found = super().evaluate(observations, actions)
        if self.wrong == "values":
            return replace(found, values=found.values[:, None])
        return replace(found, **{self.wrong: {n: x[:, None] for n, x in getattr(found, self.wrong).items()}})


@pytest.mark.parametrize("part", ["values", "log_probs", "entropies"])
def test_an_evaluation_of_another_shape_is_refused(part: str) -> None:
    venv = mines()
    policy = Misshapen(venv.single_observation_space, venv.single_action_space, d_model=8, n_layer=1)
    head = policy.value_head.proj
    ppo = PPO(policy, venv, CONFIG)
    policy.wrong = part
    ppo.collect()
    weights = head.weight.detach().clone()
    with raises(ValueError, "Evaluation", part, ", 1)"):
        ppo.update()
    assert torch.equal(weights, head.weight) and ppo.step == 0


def test_weights_do_not_take_options_with_which_they_compute_something_else(tmp_path: Path) -> None:
    venv = mines()
    path = ez.save_policy(network(venv), tmp_path / "saved")
    batch, _ = venv.reset(seed=1)
    rng = np.random.default_rng(0)
    values = ez.load_policy(path, engine="torch").act(batch, rng).values
    np.testing.assert_allclose(ez.load_policy(path).act(batch, rng).values, values, rtol=1e-5)
    with raises(ValueError, "n_head", "2", "1"):
        ez.load_policy(path, n_head=1)


def test_a_subclass_with_a_head_of_its_own_has_a_summary() -> None:
    class WithHead(ez.RogueNet):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            self.guess = nn.Linear(8, 3)

    venv = mines()
    policy = WithHead(venv.single_observation_space, venv.single_action_space, d_model=8, n_layer=1)
    parts = policy.summary().parameters
    assert parts["guess"] == 27 and sum(parts.values()) == sum(p.numel() for p in policy.parameters())


# -- optimizers and schedules -------------------------------------------------------------------------------


def test_a_parameter_added_between_updates_gets_the_gradient_of_each_step_alone() -> None:
    def gradients(clears: bool) -> list[torch.Tensor]:
        ppo, found = trainer(), []
        ppo.collect()
        ppo.update()
        torch.manual_seed(0)
        added = type(ppo.policy.value_head)(8)
        ppo.policy.value_head = added  # type: ignore[assignment]
        ppo.optimizer.add_param_group({"params": list(added.parameters())})
        ppo.optimizer.register_step_pre_hook(lambda *_: found.append(added.proj.weight.grad.clone()))
        for _ in range(3):
            ppo.collect()
            if clears:
                ppo.optimizer.zero_grad()
            ppo.update()
        return found

    for mine, alone in zip(gradients(False), gradients(True), strict=True):
        torch.testing.assert_close(mine, alone)


def test_an_optimizer_that_is_assigned_again_is_annealed_once() -> None:
    rates = []
    for again in (False, True):
        ppo = trainer(replace(CONFIG, learning_rate=0.01))
        ppo.optimizer = torch.optim.SGD(ppo.policy.parameters(), lr=0.004)
        found = []
        for _ in range(4):
            ppo.collect()
            ppo.update()
            found.append(ppo.optimizer.param_groups[0]["lr"])
            if again:
                ppo.optimizer = ppo.optimizer
        rates.append(found)
    np.testing.assert_allclose(rates[0], [0.004, 0.0035, 0.003, 0.0025])
    np.testing.assert_allclose(rates[1], rates[0])


def test_an_optimizer_that_is_assigned_to_another_trainer_keeps_its_learning_rate() -> None:
    first = trainer(replace(CONFIG, learning_rate=0.01))
    optimizer = first.optimizer = torch.optim.SGD(first.policy.parameters(), lr=0.004)
    second = PPO(first.policy, first.venv, replace(CONFIG, learning_rate=0.001))
    optimizer.param_groups[0]["lr"] = 0.002
    second.optimizer = optimizer
    second.collect()
    second.update()
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.002)


def test_a_schedule_in_a_callback_goes_on_in_a_resumed_run(tmp_path: Path) -> None:
    def halve(ppo: PPO, metrics: dict[str, float]) -> None:
        for group in ppo.optimizer.param_groups:
            group["lr"] /= 2

    def logged(run: Path) -> list[float]:
        lines = (run / "metrics.jsonl").read_text().splitlines()
        return [json.loads(line)["charts/learning_rate"] for line in lines]

    config = replace(CONFIG, anneal_lr=False, learning_rate=0.01)
    run = tmp_path / "run"
    trainer(config, run_dir=run, callbacks=[halve]).train(256, progress=False)
    trainer(config, run_dir=run, callbacks=[halve], resume=True).train(512, progress=False)
    np.testing.assert_allclose(logged(run), 0.01 / 2.0 ** np.arange(8))
    other = trainer(replace(config, learning_rate=0.003), run_dir=run, resume=True)
    assert other.optimizer.param_groups[0]["lr"] == 0.003


def test_the_hyper_parameters_of_a_training_stay_as_they_are() -> None:
    ppo = trainer()
    with pytest.raises(AttributeError):
        ppo.config = replace(CONFIG, gamma=0.5)  # type: ignore[misc]
    assert ppo.config == CONFIG


def test_samples_made_of_the_waiting_rollout_are_counted_once() -> None:
    ppo = trainer()
    for update in (1, 2):
        samples = ppo.collect()
        ppo.update(replace(samples, advantages=samples.advantages.clip(-1, 1)))
        assert ppo.step == 64 * update
    samples = ppo.collect()
    for part in samples.split(24):
        ppo.update(part)
    assert ppo.step == 192


@pytest.mark.parametrize("name", ["values", "advantages", "returns"])
@pytest.mark.parametrize("shape", [(64, 1), (5,)])
def test_samples_of_another_shape_are_refused(name: str, shape: tuple[int, ...]) -> None:
    ppo = trainer()
    samples = replace(ppo.collect(), **{name: np.zeros(shape, np.float32)})
    with raises(ValueError, "samples", name, 64, str(shape)):
        ppo.update(samples)
    assert ppo.step == 0


@pytest.mark.parametrize("part", ["actions", "log_probs"])
@pytest.mark.parametrize("wrong", ["one of a step", "none", "too few steps"])
def test_samples_have_an_item_for_each_actor(part: str, wrong: str) -> None:
    ppo = trainer()
    samples = ppo.collect()
    given = dict(getattr(samples, part))
    if wrong == "none":
        del given["Move"]
    elif wrong == "too few steps":
        given["Move"] = given["Move"][:5]
    else:  # as a joint log-probability would be
        rows = np.resize(given["Move"].values, (64, *given["Move"].inner_shape))
        given["Move"] = ez.RaggedArray.from_lengths(rows, np.ones(64, np.int64))
    facts = {"none": ["expected"], "too few steps": [64, 5], "one of a step": ["step 0", 2, 1]}
    with raises(ValueError, "samples", part, *facts[wrong]):
        ppo.update(replace(samples, **{part: given}))
    assert ppo.step == 0


@pytest.mark.parametrize("numbers", [[0.0] * 64, np.zeros(64, np.float16), np.zeros(64, int)])
def test_numbers_of_samples_are_arrays_of_float32(numbers: Any) -> None:
    ppo = trainer()
    samples = ppo.collect()
    with raises(TypeError, "samples", "advantages", "float32"):
        ppo.update(replace(samples, advantages=numbers))
    spoiled = samples.values.copy()
    spoiled[7] = np.nan
    with raises(NonFiniteError, "samples", "values", 7, "nan"):
        ppo.update(replace(samples, values=spoiled))


def test_hyper_parameters_may_be_numbers_of_numpy(tmp_path: Path) -> None:
    config = PPOConfig(num_steps=np.int64(8), learning_rate=np.float32(0.5), norm_adv=np.True_)  # type: ignore[arg-type]
    assert config == PPOConfig(num_steps=8, learning_rate=0.5) and type(config.num_steps) is int
    with raises(TypeError, "num_steps", 8.5):
        PPOConfig(num_steps=np.float32(8.5))  # type: ignore[arg-type]


def test_the_penalty_for_leaving_a_new_policy_begins_at_zero() -> None:
    ppo = trainer(replace(CONFIG, start_kl_coef=0.1))
    ppo.collect()
    assert ppo.update()["losses/start_kl"] == pytest.approx(0, abs=1e-6)
    ppo.collect()
    assert abs(ppo.update()["losses/start_kl"]) > 1e-5


# -- callbacks and curricula --------------------------------------------------------------------------------


def test_numbers_that_a_callback_adds_are_logged(tmp_path: Path) -> None:
    def add(ppo: PPO, metrics: dict[str, float]) -> None:
        metrics["mine/updates"] = np.float32(ppo.updates)  # type: ignore[assignment]

    trainer(callbacks=[add], run_dir=tmp_path / "run").train(128, progress=False)
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["mine/updates"] for line in lines] == [1, 2]


def test_a_callback_that_returns_a_number_is_told(tmp_path: Path) -> None:
    def loss(ppo: PPO, metrics: dict[str, float]) -> float:
        return metrics["losses/loss"]

    ppo = trainer(callbacks=[loss], run_dir=tmp_path / "run")  # type: ignore[list-item]
    with raises(TypeError, "loss", "True"):
        ppo.train(128, progress=False)
    assert len((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()) == 1
    assert list((tmp_path / "run" / "checkpoints").iterdir())


class Growing(ez.EntityEnv):
    """An author's game whose levels grow with the progress of training."""

    action_space = ez.EntityActionSpace({"go": ez.actions.GlobalCategorical(2)})
    observation_space = ez.EntitySpace({"Thing": ["x"]}, action_space)

    def __init__(self) -> None:
        self.size = 1

    def set_progress(self, fraction: float) -> None:
        if fraction > 0.9:
            raise ValueError("too large")
        self.size = 1 + int(4 * fraction)

    def _reset(self, options: dict[str, Any]) -> ez.Observation:
        return ez.Observation({"Thing": [[float(n)] for n in range(self.size)]})

    def _step(self, actions: Any) -> Any:
        return self._reset({}), 0.0, False, False, {}


@pytest.mark.parametrize("num_workers", [0, 2])
def test_progress_reaches_the_environments_of_an_author(num_workers: int) -> None:
    with ez.make_vec(Growing, num_envs=2, num_workers=num_workers) as venv:
        ppo = PPO(network(venv), venv, replace(CONFIG, num_steps=8, total_timesteps=64))
        seen = []
        for _ in range(3):
            ppo.venv.set_progress(ppo.step / 64)
            seen.append(int(ppo.collect().observations.entities["Thing"].lengths[-1]))
            ppo.update()
        assert seen == [1, 2, 3]
        with raises(ez.errors.WorkerError, "Growing", "too large"):
            venv.set_progress(1.0)


class GrowingBox(gymnasium.Env[Any, Any]):
    """Not of this library."""

    observation_space = gymnasium.spaces.Box(0, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    fraction = 0.0

    def set_progress(self, fraction: float) -> None:
        self.fraction = fraction

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return np.full(1, self.fraction, np.float32), {}

    def step(self, action: Any) -> Any:
        return np.full(1, self.fraction, np.float32), 0.0, False, False, {}


class GrowingGame(ez.EntityGame):
    def __init__(self) -> None:
        self.possible_agents, self.fraction = ["a", "b"], 0.0
        actions = ez.EntityActionSpace({"go": ez.GlobalCategorical(["on"])})
        self.spaces = ez.EntitySpace({"Me": ["x"]}, actions), actions

    def set_progress(self, fraction: float) -> None:
        self.fraction = fraction

    def _reset(self, options: Any) -> Any:
        mask = {"go": ez.actions.GlobalCategoricalMask()}
        return {a: ez.Observation({"Me": [[self.fraction]]}, actions=mask) for a in self.possible_agents}

    def _step(self, actions: Any) -> Any:
        return self._reset({}), dict.fromkeys(self.possible_agents, 0.0), False, False, {}


def in_turns() -> Any:
    return ez.to_pettingzoo(GrowingGame(), api="aec")


@pytest.mark.parametrize(
    "make",
    [
        partial(ez.make_vec, GrowingBox, num_envs=2),
        partial(ez.make_vec, GrowingBox, num_envs=2, num_workers=1),
        partial(ez.make_vec, GrowingGame, num_envs=2),
        partial(ez.from_pettingzoo, in_turns, num_envs=2),
    ],
)
def test_progress_reaches_environments_and_games_of_every_kind(make: Callable[[], Any]) -> None:
    with make() as venv:
        venv.reset(seed=0)
        venv.set_progress(0.75)
        batch, _ = venv.reset(seed=0)
        (features,) = batch.entities.values()
        assert len(features.values) and (features.values[:, 0] == 0.75).all()


class Counting(ez.vector.EntityVectorWrapper):
    """A wrapper with a state of its own beside that of the game."""

    def __init__(self, venv: Any) -> None:
        super().__init__(venv)
        self.count = 0

    def _reset(self, seeds: Any, options: Any) -> Any:
        return self.venv.reset(seed=seeds, options=options)

    def _step(self, actions: Mapping[str, RaggedArray]) -> Any:
        self.count += 1
        return self.venv.step(actions)

    def get_state(self) -> dict[str, NDArray[Any]]:
        state: dict[str, NDArray[Any]] = self.venv.get_state()  # type: ignore[attr-defined]
        return {**state, "count": np.array([self.count])}

    def set_state(self, state: Mapping[str, NDArray[Any]]) -> EntityBatch:
        self.count = int(state["count"][0])
        others = {name: array for name, array in state.items() if name != "count"}
        return self._continue_from(self.venv.set_state(others))  # type: ignore[attr-defined]


def test_a_wrapper_that_saves_its_state_resumes_bit_for_bit(tmp_path: Path) -> None:
    config = replace(CONFIG, anneal_lr=False, anneal_entropy=False)
    whole = trainer(config, Counting(mines()))
    whole.train(256, progress=False)
    first = trainer(config, Counting(mines()), run_dir=tmp_path / "run")
    first.train(128, progress=False)
    second = trainer(config, Counting(mines()), run_dir=tmp_path / "run", resume=True)
    second.train(256, progress=False)
    assert second.venv.count == whole.venv.count == 64  # type: ignore[union-attr]
    for mine, theirs in zip(second.policy.parameters(), whole.policy.parameters(), strict=True):
        assert torch.equal(mine, theirs)


def test_a_run_in_a_wrapper_names_no_environment_that_would_be_another_game(tmp_path: Path) -> None:
    trainer(venv=Counting(mines()), run_dir=tmp_path / "wrapped").train(64, progress=False)
    trainer(venv=mines(), run_dir=tmp_path / "plain").train(64, progress=False)
    configs = [yaml.safe_load((tmp_path / name / "config.yaml").read_text()) for name in ("wrapped", "plain")]
    assert "MineSweeper" not in str(configs[0]) and configs[1]["env"]["id"] == "MineSweeper"
