"""PPO with continuous actions: what is stored, learned, saved and loaded."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from entitize import RogueNet, wrap_vec
from entitize.envs import (
    ActionMask,
    Continuous,
    EntityActionSpace,
    EntityBatch,
    EntitySpace,
    EntityVectorEnv,
    GlobalCategorical,
    GlobalContinuous,
    validate_actions,
)
from entitize.ragged import RaggedArray
from entitize.trainers import PPO, NonFiniteError, PPOConfig, evaluate, load_policy
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.vector import NormalizeReward

from facts import raises

STEER = Continuous([-1.0, 0.0], [3.0, 1.0])
ACTIONS = EntityActionSpace(
    {"Steer": STEER, "Gear": GlobalCategorical(2), "Throttle": GlobalContinuous(0, 10)}
)
SPACE = EntitySpace({"Car": ["place"]}, ACTIONS, ["slope"])


class Reach(EntityVectorEnv):
    """Episodes of one step: 0 to 3 cars steer to where their place says, and gear and throttle fit the slope.

    The return of the best actions is 0. Everything is a function of the seed and of the steps taken.
    """

    single_observation_space, single_action_space = SPACE, ACTIONS

    def __init__(self, num_envs: int) -> None:
        self.num_envs = num_envs
        self.metadata = {**EntityVectorEnv.metadata}

    def _show(self) -> EntityBatch:
        rng = np.random.default_rng([self._seed, self._clock])
        counts = rng.integers(0, 4, self.num_envs)
        cars = RaggedArray.from_lengths(rng.uniform(-1, 1, (counts.sum(), 1)).astype(np.float32), counts)
        each = RaggedArray(np.full(self.num_envs, -1), np.arange(self.num_envs + 1))
        nothing = np.zeros((self.num_envs, 0), bool)
        masks = {
            "Steer": ActionMask(
                cars.with_values(cars.item_indices()), cars.with_values(np.zeros((cars.num_items, 0), bool))
            ),
            "Gear": ActionMask(each, each.with_values(np.ones((self.num_envs, 2), bool))),
            "Throttle": ActionMask(each, each.with_values(nothing)),
        }
        slopes = rng.uniform(-1, 1, (self.num_envs, 1)).astype(np.float32)
        self._shown = EntityBatch({"Car": cars}, slopes, masks)
        return self._shown

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[EntityBatch, dict[str, Any]]:
        self._seed, self._clock = seed or 0, 0
        return self._show(), {}

    def step(self, actions: Any) -> Any:
        orders = validate_actions(SPACE, self._shown, actions)
        cars, slopes = self._shown.entities["Car"], self._shown.globals[:, 0]
        best = np.concatenate([1 + 1.5 * cars.values, 0.5 - 0.4 * cars.values], 1)
        squares = cars.with_values(((orders["Steer"].values - best) / [2, 0.5]) ** 2)
        errors = np.array([square.sum() / max(square.size, 1) for square in squares])
        errors = errors + ((orders["Throttle"].values[:, 0] - (5 + 4 * slopes)) / 5) ** 2
        errors = errors + (orders["Gear"].values != (slopes > 0))
        self._clock += 1
        ended = np.ones(self.num_envs, bool)
        return self._show(), -errors.astype(np.float32), ended, ~ended, {}

    def get_state(self) -> dict[str, np.ndarray]:
        return {"counters": np.array([self._seed, self._clock])}

    def set_state(self, state: Mapping[str, np.ndarray]) -> EntityBatch:
        self._seed, self._clock = map(int, state["counters"])
        return self._show()


def make_net(**options: Any) -> RogueNet:
    torch.manual_seed(0)
    return RogueNet(SPACE, ACTIONS, n_layer=1, **options)


CONFIG = PPOConfig(total_timesteps=96, num_steps=4, minibatch_size=16, checkpoint_interval=32)


@pytest.mark.parametrize("squash", [False, True])
def test_ppo_reaches_the_optimum_of_a_toy_with_three_kinds_of_actions(squash: bool) -> None:
    net = make_net(squash=squash)
    venv = Reach(64)
    before = evaluate(net, venv, 256, deterministic=True, seed=5).returns.mean()
    config = PPOConfig(
        total_timesteps=16_384, num_steps=8, minibatch_size=256, learning_rate=0.02, gamma=0.0, ent_coef=0.0
    )
    PPO(net, venv, config).train()
    after = evaluate(net, venv, 256, deterministic=True, seed=5).returns.mean()
    assert before < -0.7, "there must be something to learn"
    assert after > -0.02, "0 is the optimum"
    for name in ("Steer", "Throttle"):
        assert float(net.action_heads[name].log_std.detach().max()) < -0.5, "it has become sure"


def test_the_rollout_keeps_what_was_drawn_and_the_environments_get_what_is_legal() -> None:
    given: list[np.ndarray] = []

    class Recording(Reach):
        def step(self, actions: Any) -> Any:
            given.append(actions["Steer"].values)
            return super().step(actions)

    samples = PPO(make_net(log_std_init=1.0), Recording(8), CONFIG).collect()
    drawn, legal = samples.actions["Steer"].values, np.concatenate(given)
    np.testing.assert_allclose(
        legal, ([1, 0.5] + [2, 0.5] * drawn).clip([-1, 0], [3, 1]), rtol=1e-6, atol=1e-6
    )
    assert (np.abs(drawn) > 1).any() and drawn.dtype == np.float32
    assert samples.actions["Gear"].dtype == np.int64


@pytest.mark.parametrize("squash", [False, True])
@pytest.mark.parametrize("joint", [False, True])
def test_ratios_start_at_one(squash: bool, joint: bool) -> None:
    """Also for numbers far beyond the bounds, and in minibatches that are gathered and split."""
    net = make_net(squash=squash, log_std_init=1.5)
    config = PPOConfig(
        num_steps=4, update_epochs=1, minibatch_size=1000, microbatch_size=7, joint_log_prob=joint
    )
    trainer = PPO(net, Reach(8), config)
    for _ in range(2):
        trainer.collect()
        metrics = trainer.update()
        assert metrics["losses/approx_kl"] == pytest.approx(0, abs=1e-6)
        assert metrics["losses/clipfrac"] == 0
        assert np.isfinite(metrics["losses/entropy"])


def test_the_entropy_bonus_widens_and_its_absence_does_not() -> None:
    ends = []
    for ent_coef in (0.0, 1.0):
        net = make_net()
        PPO(net, Reach(16), PPOConfig(
            total_timesteps=1024, num_steps=8, minibatch_size=64, ent_coef=ent_coef, anneal_entropy=False,
        )).train()  # fmt: skip
        ends.append(float(net.action_heads["Steer"].log_std.detach().min()))
    assert ends[1] > ends[0] + 0.03


@pytest.mark.parametrize("squash", [False, True])
def test_a_resumed_run_is_bit_equal_and_a_loaded_network_acts_alike(squash: bool, tmp_path: Path) -> None:
    whole = PPO(make_net(squash=squash), Reach(4), CONFIG, tmp_path / "whole")
    whole.train()
    stop = [lambda trainer, _: trainer.step == 32]
    PPO(make_net(squash=squash), Reach(4), CONFIG, tmp_path / "parts", callbacks=stop).train()
    torch.manual_seed(9)
    resumed = PPO(make_net(squash=squash), Reach(4), CONFIG, tmp_path / "parts", resume=True)
    resumed.train()
    assert resumed.step == whole.step == 96
    for one, other in zip(whole.policy.parameters(), resumed.policy.parameters(), strict=True):
        assert torch.equal(one, other)
    loaded = load_policy(tmp_path / "parts")
    assert loaded.observation_space == SPACE and loaded.action_space == ACTIONS
    batch, _ = Reach(4).reset(seed=3)
    results = [net.act(batch, np.random.default_rng(1)) for net in (whole.policy.eval(), loaded)]
    assert results[0].actions == results[1].actions and results[0].raw == results[1].raw


def test_a_network_that_has_gone_wrong_is_named_before_the_environments_see_its_actions() -> None:
    net = make_net()
    trainer = PPO(net, Reach(4), CONFIG)
    with torch.no_grad():
        net.action_heads["Steer"].log_std[0] = float("nan")
    with raises(NonFiniteError, "action_heads.Steer.log_std", "finite"):
        trainer.train()


# -- Gymnasium's environments ------------------------------------------------------------------------------


def test_pendulum_is_trained_evaluated_and_reloaded(tmp_path: Path) -> None:
    venv = wrap_vec(gymnasium.make_vec("Pendulum-v1", num_envs=2, vectorization_mode="sync"))
    net = RogueNet(venv.single_observation_space, venv.single_action_space, n_layer=1, squash=True)
    config = PPOConfig(total_timesteps=1200, num_steps=220, minibatch_size=220)
    metrics = PPO(net, venv, config, tmp_path).train()
    assert metrics["charts/episodic_length"] == 200
    results = evaluate(load_policy(tmp_path), venv, 2)
    assert results.lengths.tolist() == [200, 200] and (results.returns < 0).all()


def test_an_engine_that_resets_by_itself_is_refused_with_a_way_out() -> None:
    venv = wrap_vec(gymnasium.make_vec("CartPole-v1", num_envs=2, vectorization_mode="vector_entry_point"))
    net = RogueNet(venv.single_observation_space, venv.single_action_space)
    with raises(
        ValueError, "WrappedVectorEnv", "NEXT_STEP", "vectorization_mode='sync'", "'async'", "AsyncVectorEnv"
    ):
        PPO(net, venv, CONFIG)
    for mode in ("sync", "async"):
        with wrap_vec(gymnasium.make_vec("CartPole-v1", num_envs=2, vectorization_mode=mode)) as single:
            net = RogueNet(single.single_observation_space, single.single_action_space)
            assert PPO(net, single, PPOConfig(num_steps=2)).collect().values.shape == (4,)


def test_rewards_that_gymnasium_normalizes_are_scaled_by_the_returns_of_each_lane_s_own_episodes() -> None:
    """CartPole's lanes end at different times; the running returns of the others must go on."""
    gamma, options = 0.9, {"autoreset_mode": AutoresetMode.SAME_STEP}
    made = gymnasium.make_vec("CartPole-v1", 4, "sync", vector_kwargs=options)
    venv = wrap_vec(NormalizeReward(made, gamma=gamma))
    assert venv.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
    batch, _ = venv.reset(seed=1)
    venv.action_space.seed(1)
    running, returns, ends = np.zeros(4), [], 0
    for _ in range(60):
        actions = venv.action_space.sample(mask=batch)
        batch, scaled, terminated, _, _ = venv.step(actions)
        running = running * gamma * ~terminated + 1  # every step's reward is 1
        returns.append(running)
        if len(returns) > 9:  # before that, what Gymnasium starts from shows
            np.testing.assert_allclose(scaled, 1 / np.std(returns), rtol=1e-3)
        running = np.where(terminated, 0, running)
        ends += int(terminated.sum())
    assert ends >= 4 and scaled.dtype == np.float32
