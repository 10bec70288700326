"""What the trainer does around the loss: order of rows, bootstraps, statistics, annealing, guards."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import entitize as ez
import numpy as np
import pytest
import torch
from entitize.envs import batch_observations
from entitize.ragged import get_num_threads
from entitize.trainers import PPO, NonFiniteError, PPOConfig, Samples
from entitize.trainers.runs import check_batch, derived_seed
from gymnasium.vector import AutoresetMode

from facts import raises

CONFIG = PPOConfig(total_timesteps=96, num_steps=6, minibatch_size=8, update_epochs=2, learning_rate=0.01)


def test_rows_are_time_major_and_hold_what_was_seen_and_done(toy_policy: Any, toy_venv: Any) -> None:
    trainer = PPO(toy_policy(), toy_venv(4), CONFIG)
    samples = trainer.collect()
    assert len(samples) == 24 and trainer.step == 24

    replay, rng = toy_venv(4), np.random.default_rng(CONFIG.seed)
    batch, _ = replay.reset(seed=derived_seed(CONFIG.seed, 0))
    policy = toy_policy()
    policy.update_normalization(batch)
    for t in range(6):
        acted = policy.act(batch, rng)
        rows = slice(4 * t, 4 * t + 4)
        assert samples.observations[rows].entities["Robot"] == batch.entities["Robot"]
        assert samples.actions["Push"][rows] == acted.actions["Push"]
        assert samples.log_probs["Paint"][rows] == acted.log_probs["Paint"]
        np.testing.assert_array_equal(samples.values[rows], acted.values)
        batch, *_ = replay.step(acted.actions)


@pytest.mark.parametrize("gives_final_obs", [True, False])
def test_a_truncated_episode_bootstraps_from_its_last_observation(
    toy_policy: Any, toy_venv: Any, gives_final_obs: bool
) -> None:
    finals: list[dict[str, Any]] = []
    rewards: list[np.ndarray] = []

    class Recording(toy_venv):  # type: ignore[misc]
        def step(self, actions: Any) -> Any:
            *rest, info = super().step(actions)
            finals.append(info)
            rewards.append(rest[1])
            return *rest, info if gives_final_obs else {}

    policy = toy_policy(scale=1.0)
    trainer = PPO(policy, Recording(4), PPOConfig(num_steps=6))
    samples = trainer.collect()
    values = samples.values.reshape(6, 4)
    advantages = samples.advantages.reshape(6, 4)
    # lanes 0 and 2 end their episodes by termination, 1 and 3 by truncation, after lane + 2 steps
    checked = 0
    for t, info in enumerate(finals):
        for position, lane in enumerate(np.flatnonzero(info.get("_final_obs", []))):
            bootstrap = 0.0
            if lane % 2 == 1:
                final = policy.value(info["final_obs"])[position]
                bootstrap = final if gives_final_obs else values[t, lane]
            expected = rewards[t][lane] + 0.99 * bootstrap - values[t, lane]
            assert advantages[t, lane] == pytest.approx(expected, abs=1e-5)
            checked += lane % 2
    assert checked == 3


def test_ratios_start_at_one_because_statistics_move_after_the_update(toy_policy: Any, toy_venv: Any) -> None:
    policy = toy_policy()
    config = PPOConfig(num_steps=6, update_epochs=1, minibatch_size=1000)
    trainer = PPO(policy, toy_venv(4), config)
    for update in range(3):
        trainer.collect()
        assert policy.normalizations == update + 1, "once for the reset batch, then once per rollout"
        metrics = trainer.update()
        assert metrics["losses/approx_kl"] == pytest.approx(0, abs=1e-6)
        assert metrics["losses/clipfrac"] == 0
        assert policy.normalizations == update + 2


def test_training_makes_well_rewarded_actions_more_likely(toy_policy: Any, toy_venv: Any) -> None:
    config = PPOConfig(
        total_timesteps=960, num_steps=8, minibatch_size=64, update_epochs=4, learning_rate=0.5, ent_coef=0.0
    )
    rewards: list[float] = []

    class Recording(toy_venv):  # type: ignore[misc]
        def step(self, actions: Any) -> Any:
            result = super().step(actions)
            rewards.append(result[1].mean())
            return result

    PPO(toy_policy(), Recording(8), config).train()
    assert np.mean(rewards[-24:]) > np.mean(rewards[:8]) + 0.1, "of the last three rollouts, and of the first"


def test_training_ends_at_the_number_of_steps_asked_for_and_goes_on_from_there(
    toy_policy: Any, toy_venv: Any
) -> None:
    trainer = PPO(toy_policy(), toy_venv(4), CONFIG)
    trainer.train(48)
    assert (trainer.step, trainer.updates) == (48, 2)
    trainer.train()
    assert (trainer.step, trainer.updates) == (96, 4)
    assert trainer.train() == {}


def test_hyper_parameters_have_defaults(toy_policy: Any, toy_venv: Any) -> None:
    trainer = PPO(toy_policy(), toy_venv(4))
    assert trainer.config == PPOConfig()
    trainer.train(512)
    assert trainer.step == PPOConfig().num_steps * 4 * -(-512 // (PPOConfig().num_steps * 4))


def test_a_training_in_which_nobody_acts_is_told() -> None:
    class Nobody(ez.EntityEnv):
        action_space = ez.EntityActionSpace({"Go": ez.Categorical(2)})
        observation_space = ez.EntitySpace({"Unit": ["x"]}, action_space)

        def _reset(self, options: Any) -> ez.Observation:
            return ez.Observation(entities={"Unit": np.ones((1, 1))})

        def _step(self, actions: Any) -> Any:
            return self._reset(None), 0.0, False, False, {}

    venv = ez.make_vec(Nobody, 2)
    policy = ez.RogueNet(venv.single_observation_space, venv.single_action_space, d_model=8, n_layer=1)
    trainer = PPO(policy, venv, replace(CONFIG, num_steps=300, total_timesteps=1200))
    trainer.collect()  # in 600 steps the actors may just be busy
    with pytest.warns(UserWarning, match="no action had an actor in the first 1,200 steps"):
        trainer.train()
    trainer.train(1800)  # says it once


def test_a_rollout_that_waits_for_its_update_is_not_in_a_checkpoint(
    toy_policy: Any, toy_venv: Any, tmp_path: Path
) -> None:
    config = replace(CONFIG, total_timesteps=24)
    trainer = PPO(toy_policy(), toy_venv(4), config, tmp_path / "run")
    trainer.collect()
    assert trainer.save_checkpoint().name == "step_000000000000"
    resumed = PPO(toy_policy(), toy_venv(4), config, tmp_path / "run", resume=True)
    assert (resumed.step, resumed.updates) == (0, 0)
    trainer.train()
    assert trainer.updates == 1
    saved = PPO(toy_policy(), toy_venv(4), config, tmp_path / "run", resume=True)
    assert (saved.step, saved.updates) == (24, 1)
    for ours, theirs in zip(saved.policy.parameters(), trainer.policy.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_learning_rate_and_entropy_bonus_fall_with_the_steps_taken(toy_policy: Any, toy_venv: Any) -> None:
    seen: list[tuple[float, float]] = []

    def record(trainer: PPO, metrics: dict[str, float]) -> None:
        assert trainer.optimizer.param_groups[0]["lr"] == metrics["charts/learning_rate"]
        seen.append((metrics["charts/learning_rate"], metrics["charts/entropy_coef"]))

    PPO(toy_policy(), toy_venv(4), CONFIG, callbacks=[record]).train()
    expected = [(0.01 * share, 0.01 * share) for share in (1, 0.75, 0.5, 0.25)]
    np.testing.assert_allclose(seen, expected)


def test_environments_are_told_before_each_rollout_how_far_training_is(
    toy_policy: Any, toy_venv: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[float] = []
    venv = toy_venv(4)
    monkeypatch.setattr(venv, "set_progress", told.append)
    PPO(toy_policy(), venv, CONFIG).train()
    assert told == [0.0, 0.25, 0.5, 0.75]


def test_a_time_limit_ends_training_and_what_is_annealed_with_it(toy_policy: Any, toy_venv: Any) -> None:
    seen: list[float] = []

    def record(trainer: PPO, metrics: dict[str, float]) -> None:
        seen.append(metrics["charts/learning_rate"])
        trainer.elapsed_seconds = 10.0 * trainer.updates

    trainer = PPO(toy_policy(), toy_venv(4), CONFIG, callbacks=[record])
    trainer.train(max_seconds=25.0)
    assert trainer.updates == 3, "time is over after 30 seconds"
    np.testing.assert_allclose(seen, [0.01, 0.006, 0.002], err_msg="time is further than steps")
    assert trainer.train(max_seconds=25.0) == {}, "the seconds count on"
    trainer.train(max_seconds=1000.0)
    assert trainer.step == CONFIG.total_timesteps
    assert seen[3] == pytest.approx(0.0025), "steps are further than time"
    with raises(ValueError, "max_seconds", 0):
        trainer.train(max_seconds=0)


def test_a_true_callback_stops_the_training(toy_policy: Any, toy_venv: Any) -> None:
    trainer = PPO(toy_policy(), toy_venv(4), CONFIG, callbacks=[lambda t, _: t.updates == 2])
    trainer.train()
    assert trainer.updates == 2


def test_target_kl_ends_the_epochs_early(toy_policy: Any, toy_venv: Any) -> None:
    for target_kl, epochs in ((1e-6, 1.0), (None, 4.0)):
        trainer = PPO(
            toy_policy(),
            toy_venv(4),
            PPOConfig(
                num_steps=6, update_epochs=4, minibatch_size=12, learning_rate=0.2, target_kl=target_kl
            ),
        )
        trainer.collect()
        assert trainer.update()["charts/epochs"] == epochs


@pytest.mark.parametrize(("kl", "epochs"), [(0.9, 4.0), (1.1, 1.0)])
def test_the_mean_divergence_of_an_epoch_is_compared_with_target_kl(
    toy_policy: Any, toy_venv: Any, kl: float, epochs: float
) -> None:
    config = PPOConfig(num_steps=6, update_epochs=4, minibatch_size=12, target_kl=0.02)
    trainer = PPO(toy_policy(), toy_venv(4), config)
    step, made = trainer.learner.step, []

    def told(minibatch: Any, ent_coef: float) -> Any:
        losses = step(minibatch, ent_coef)
        made.append({**losses, "approx_kl": 0.02 * kl + (0.01 if len(made) % 2 else -0.01)})
        return made[-1]

    trainer.learner.step = told  # type: ignore[method-assign]
    trainer.collect()
    metrics = trainer.update()
    assert metrics["charts/epochs"] == epochs
    for name in ("loss", "entropy", "grad_norm"):
        assert metrics[f"losses/{name}"] == pytest.approx(np.mean([losses[name] for losses in made]))


def test_the_optimizer_is_adamw_with_the_options_of_the_config(toy_policy: Any, toy_venv: Any) -> None:
    config = PPOConfig(learning_rate=0.003, adam_eps=0.1, weight_decay=0.2)
    (group,) = PPO(toy_policy(), toy_venv(4), config).optimizer.param_groups
    assert (group["lr"], group["eps"], group["weight_decay"], group["betas"]) == (
        0.003,
        0.1,
        0.2,
        (0.9, 0.999),
    )


def test_minibatches_are_of_equal_size(toy_policy: Any, toy_venv: Any) -> None:
    class Counting(toy_policy):  # type: ignore[misc]
        def evaluate(self, batch: Any, actions: Any) -> Any:
            sizes.append(len(batch))
            return super().evaluate(batch, actions)

    for minibatch, micro, expected in ((7, None, [6, 6, 6, 6]), (100, None, [24]), (12, 5, [5, 5, 2] * 2)):
        sizes: list[int] = []
        config = PPOConfig(num_steps=6, update_epochs=1, minibatch_size=minibatch, microbatch_size=micro)
        trainer = PPO(Counting(), toy_venv(4), config)
        trainer.collect()
        trainer.update()
        assert sizes == expected


def test_microbatches_train_the_same_weights(toy_policy: Any, toy_venv: Any) -> None:
    weights = []
    for micro in (None, 3):
        policy = toy_policy(dtype=torch.float64)
        config = PPOConfig(total_timesteps=72, num_steps=6, minibatch_size=12, microbatch_size=micro)
        PPO(policy, toy_venv(4), config).train()
        weights.append(torch.cat([p.detach().flatten() for p in policy.parameters()]))
    torch.testing.assert_close(weights[0], weights[1], rtol=0, atol=1e-6)


def test_torch_and_gathers_use_one_thread_while_training_and_as_many_as_before_after(
    toy_policy: Any, toy_venv: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Looking(toy_policy):  # type: ignore[misc]
        def evaluate(self, batch: Any, actions: Any) -> Any:
            seen.add((torch.get_num_threads(), get_num_threads()))
            return super().evaluate(batch, actions)

    seen: set[tuple[int, int]] = set()
    before = torch.get_num_threads(), get_num_threads()
    PPO(Looking(), toy_venv(4), CONFIG).train()
    assert seen == {(1, 1)}
    assert (torch.get_num_threads(), get_num_threads()) == before

    seen.clear()
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 3, 5}, raising=False)
    PPO(Looking(), toy_venv(4), replace(CONFIG, num_threads=None)).train()
    assert seen == {(3, 3)}, "as many as this process may run on"
    assert (torch.get_num_threads(), get_num_threads()) == before


def test_the_clock_tells_where_the_time_goes(toy_policy: Any, toy_venv: Any) -> None:
    trainer = PPO(toy_policy(), toy_venv(4), CONFIG)
    metrics = trainer.train()
    parts = ("env", "inference", "storage", "update")
    assert set(trainer.clock.wall) == set(trainer.clock.cpu) == set(trainer.clock.own) == set(parts)
    assert all(0 < trainer.clock.own[part] <= trainer.clock.cpu[part] * 1.2 + 1e-3 for part in parts)
    assert all(trainer.clock.wall[part] > metrics[f"time/{part}"] > 0 for part in parts)


def test_an_update_without_a_rollout_is_refused(toy_policy: Any, toy_venv: Any) -> None:
    trainer = PPO(toy_policy(), toy_venv(4), CONFIG)
    with raises(RuntimeError, "collect", "update"):
        trainer.update()
    trainer.collect()
    trainer.update()
    with raises(RuntimeError, "collect", "update"):
        trainer.update()


def test_what_does_not_fit_together_is_refused(toy_policy: Any, toy_venv: Any) -> None:
    with raises(TypeError, "policy", "nn.Module", "str"):
        PPO("policy", toy_venv(), CONFIG)  # type: ignore[arg-type]
    with raises(TypeError, "Linear", "Policy"):
        PPO(torch.nn.Linear(1, 1), toy_venv(), CONFIG)  # type: ignore[arg-type]
    other = toy_policy()
    other.action_space = type(other.action_space)({"Shout": other.action_space["Shout"]})
    with raises(ValueError, "actions", "policy", "environments"):
        PPO(other, toy_venv(), CONFIG)
    venv = toy_venv()
    venv.metadata = {**venv.metadata, "autoreset_mode": AutoresetMode.NEXT_STEP}
    with raises(ValueError, "SAME_STEP", "ToyVectorEnv", "vectorization_mode="):
        PPO(toy_policy(), venv, CONFIG)


# -- the guard against NaN ----------------------------------------------------------------------------------


def breaking_after(venv_class: Any, steps: int, breakage: Any) -> Any:
    class Breaking(venv_class):  # type: ignore[misc]
        def step(self, actions: Any) -> Any:
            result = super().step(actions)
            if self._clock > steps:
                breakage(result)
            return result

    return Breaking(4)


def spoil_reward(result: Any) -> None:
    result[1][2] = np.nan


def spoil_feature(result: Any) -> None:
    robots = result[0].entities["Robot"]
    robots.values[robots.offsets[3], 1] = np.inf


@pytest.mark.parametrize(
    ("breakage", "facts"),
    [
        (spoil_reward, ["lane 2", "reward", "nan"]),
        (spoil_feature, ["lane 3", "'Robot'", "row 0", "feature 'x'", "inf"]),
    ],
)
def test_what_the_environments_give_must_be_finite(
    toy_policy: Any, toy_venv: Any, tmp_path: Any, breakage: Any, facts: list[str]
) -> None:
    policy = toy_policy()
    config = PPOConfig(total_timesteps=960, num_steps=6, checkpoint_interval=24)
    trainer = PPO(policy, breaking_after(toy_venv, 14, breakage), config, run_dir=tmp_path / "run")
    with raises(NonFiniteError, "update 3", "step 48", *facts, "checkpoint", "step_000000000048"):
        trainer.train()
    assert all(bool(torch.isfinite(p).all()) for p in policy.parameters())


def test_a_loss_that_is_not_finite_names_itself_and_leaves_the_weights(
    toy_policy: Any, toy_venv: Any
) -> None:
    class Poisoned(toy_policy):  # type: ignore[misc]
        poisoned = False

        def evaluate(self, batch: Any, actions: Any) -> Any:
            evaluation = super().evaluate(batch, actions)
            if self.poisoned and len(calls) > 2:
                evaluation.values[0] = float("nan")
            calls.append(1)
            return evaluation

    calls: list[int] = []
    policy = Poisoned()
    trainer = PPO(policy, toy_venv(4), CONFIG)
    trainer.train(24)
    before = {name: tensor.clone() for name, tensor in policy.state_dict().items()}
    moments = trainer.optimizer.state_dict()["state"][0]["exp_avg"].clone()
    calls.clear()
    policy.poisoned = True
    with raises(NonFiniteError, "update 2", "value_loss is nan", "no checkpoint"):
        trainer.train()
    assert len(calls) == 4, "three minibatches had changed the weights by then"
    for name, tensor in policy.state_dict().items():
        assert torch.equal(tensor, before[name]), name
    assert torch.equal(trainer.optimizer.state_dict()["state"][0]["exp_avg"], moments)
    assert trainer.updates == 1
    policy.poisoned = False
    assert trainer.train()["charts/learning_rate"] > 0, "the trainer can go on"


def test_statistics_and_weights_that_are_not_finite_are_named(toy_policy: Any, toy_venv: Any) -> None:
    class Overflowing(toy_policy):  # type: ignore[misc]
        def update_normalization(self, batch: Any) -> None:
            super().update_normalization(batch)
            if self.normalizations == 2:
                self.mean[1] = float("inf")

    policy = Overflowing()
    trainer = PPO(policy, toy_venv(4), CONFIG)
    with raises(NonFiniteError, "update 1", "mean", "finite"):
        trainer.train()
    assert bool(torch.isfinite(policy.mean).all())

    exploding = PPO(
        toy_policy(), toy_venv(4), PPOConfig(num_steps=6, learning_rate=1e38, minibatch_size=1000)
    )
    with raises(NonFiniteError, "update"):
        exploding.train()
    assert all(bool(torch.isfinite(p).all()) for p in exploding.policy.parameters())


def test_features_whose_sum_overflows_are_still_finite(make_toy_batch: Any, toy_venv: Any) -> None:
    batch, space = make_toy_batch(np.random.default_rng(0), 6), toy_venv.single_observation_space
    batch.entities["Robot"].values[:] = 3e38
    batch.globals[:] = -3e38
    check_batch(batch, space, 2)
    batch.globals[3, 0] = -np.inf
    with raises(NonFiniteError, "lane 1", f"global feature {space.global_features[0]!r}", "-inf"):
        check_batch(batch, space, 2)
    step = int(np.argmax(batch.entities["Robot"].lengths > 1))
    batch.entities["Robot"].values[batch.entities["Robot"].offsets[step] + 1, 1] = np.nan
    feature = space.entities["Robot"][1]
    with raises(NonFiniteError, f"lane {step % 2}", "'Robot'", "row 1", f"feature {feature!r}", "nan"):
        check_batch(batch, space, 2)


def test_samples_of_another_trainer_that_are_not_finite_name_their_step(
    toy_policy: Any, toy_venv: Any, waiting_venv: Any
) -> None:
    trainer, other = PPO(toy_policy(), waiting_venv(4), CONFIG), PPO(toy_policy(), toy_venv(4), CONFIG)
    own, samples = trainer.collect(), other.collect()
    assert len(own) < len(samples) == 24
    samples.observations.globals[-1] = np.nan
    with raises(NonFiniteError, "step 23", "global feature", "nan"):
        trainer.update(samples)


def test_after_an_error_in_a_rollout_training_goes_on_with_new_episodes(
    toy_policy: Any, toy_venv: Any
) -> None:
    class Dying(toy_venv):  # type: ignore[misc]
        def step(self, actions: Any) -> Any:
            if len(self.seeds) == 1 and self._clock == 9:
                raise OSError("worker died")
            return super().step(actions)

    venv = Dying(4)
    trainer = PPO(toy_policy(), venv, CONFIG)
    with raises(OSError, "worker died"):
        trainer.train()
    assert (trainer.step, trainer.updates) == (24, 1)
    trainer.train()
    assert (trainer.step, trainer.updates) == (96, 4)
    assert len(venv.seeds) == 2 and venv.seeds[1] != venv.seeds[0]
    assert trainer.episodes.running_lengths.max() <= 5, "no episode is counted across the break"


def test_an_error_in_a_rollout_loses_no_update(toy_policy: Any, toy_venv: Any, tmp_path: Path) -> None:
    class Dying(toy_venv):  # type: ignore[misc]
        def step(self, actions: Any) -> Any:
            if self._clock == 9:
                raise OSError("worker died")
            return super().step(actions)

    trainer = PPO(toy_policy(), Dying(4), CONFIG, tmp_path)
    with raises(OSError, "worker died"):
        trainer.train()
    policy = toy_policy()
    with torch.no_grad():
        policy.paint += 1
    again = PPO(policy, toy_venv(4), CONFIG, tmp_path, resume=True)
    assert (again.step, again.updates) == (24, 1)
    for ours, theirs in zip(trainer.policy.parameters(), again.policy.parameters(), strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("error", [OSError("the disk of the plots is full"), SystemExit(1)])
def test_an_error_in_a_callback_loses_no_update(
    error: BaseException, toy_policy: Any, toy_venv: Any, tmp_path: Path
) -> None:
    def failing(trainer: PPO, metrics: dict[str, float]) -> None:
        if trainer.updates == 3:
            raise error

    trainer = PPO(toy_policy(), toy_venv(4), CONFIG, tmp_path, callbacks=[failing])
    with pytest.raises(type(error)):
        trainer.train()
    again = PPO(toy_policy(), toy_venv(4), CONFIG, tmp_path, resume=True)
    assert (again.step, again.updates) == (trainer.step, 3)
    for ours, theirs in zip(trainer.policy.parameters(), again.policy.parameters(), strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("game", ["MineSweeper", "CartPole-v1"])
def test_evaluating_in_the_environments_of_training_starts_new_episodes(game: str) -> None:
    def trained(evaluated: bool) -> tuple[PPO, Samples]:
        torch.manual_seed(0)
        venv = ez.make_vec(game, num_envs=2)
        policy = ez.RogueNet(venv.single_observation_space, venv.single_action_space, d_model=8, n_layer=1)
        trainer = PPO(policy, venv, PPOConfig(num_steps=8, minibatch_size=8, total_timesteps=64))
        trainer.train(32, progress=False)
        if evaluated:
            ez.evaluate(policy, venv, 3)
            venv.step(venv.action_space.sample())
        return trainer, trainer.collect()

    trainer, samples = trained(True)
    assert trainer.episodes.running_lengths.max() <= 8, "no episode is counted across the evaluation"
    acted = trainer.policy.evaluate(samples.observations, samples.actions).log_probs
    for name, chosen in samples.log_probs.items():  # of what the environments showed when these were chosen
        np.testing.assert_allclose(acted[name].detach().numpy(), chosen.values, rtol=1e-4, atol=1e-5)
    assert trained(False)[0].episodes.running_lengths.max() > 8, "without it the episodes continue"


def test_an_optimizer_of_another_network_is_refused(toy_policy: Any, toy_venv: Any) -> None:
    trainer = PPO(toy_policy(), toy_venv(4), CONFIG)
    with raises(ValueError, "optimizer", "parameters"):
        trainer.optimizer = torch.optim.SGD(toy_policy().parameters(), lr=0.1)


def test_a_rollout_of_a_policy_that_reads_a_wider_space_is_learned_from() -> None:
    move = ez.EntityActionSpace({"go": ez.Categorical(2)})
    narrow = ez.EntitySpace({"P": ["x"]}, move)
    wide = ez.EntitySpace({"P": ["x"], "New": ["y"]}, move)
    policy = ez.RogueNet(narrow, move, d_model=8, n_layer=1)
    policy.adapt_to(wide)
    observation = {
        "entities": {"P": np.ones((1, 1), np.float32), "New": np.ones((2, 1), np.float32)},
        "actions": {"go": {"actors": np.array([0]), "mask": np.ones((1, 2), np.int8)}},
    }
    batch = batch_observations(wide, [observation] * 8)
    acted = policy.act(batch, np.random.default_rng(0))
    numbers = np.random.default_rng(0).standard_normal((2, 8)).astype(np.float32)
    samples = Samples(batch, acted.raw, acted.log_probs, acted.values, *numbers)

    class Wide(ez.EntityEnv):
        observation_space, action_space = wide, move

        def _reset(self, options: Any) -> Any:
            return observation

        def _step(self, actions: Any) -> Any:
            raise AssertionError("the rollout is another trainer's")

    trainer = PPO(policy, ez.make_vec(Wide, num_envs=2), PPOConfig(minibatch_size=4, total_timesteps=8))
    assert np.isfinite(trainer.update(samples)["losses/loss"])
