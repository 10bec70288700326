"""Normalized rewards: against VecNormalize and NormalizeReward, over idle lanes, and in runs that go on."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest
from entitize.trainers import PPO, PPOConfig, RewardNormalizer, generalized_advantages
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.vector import NormalizeReward
from numpy.typing import NDArray

STEPS, LANES = 200, 5
CLIP = 10.0  # of VecNormalize and of ours
OPTIONS: dict[str, Any] = {
    "total_timesteps": 144,
    "num_steps": 6,
    "minibatch_size": 12,
    "update_epochs": 2,
    "learning_rate": 0.01,
    "normalize_rewards": True,
}


def rollout(seed: int) -> tuple[NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_]]:
    """Rewards of a changing scale, with rare large ones, and ends of both kinds; each (T, E)."""
    rng = np.random.default_rng(seed)
    rewards = rng.normal(0.3, 1, (STEPS, LANES)) * np.linspace(0.1, 5, STEPS)[:, None]
    rewards[rng.random((STEPS, LANES)) < 0.01] = 500
    return rewards.astype(np.float32), *(rng.random((2, STEPS, LANES)) < 0.04)


class Replayed:
    """Gives recorded rewards and ends, as the vector environment of SB3 or of Gymnasium that is asked for."""

    def __init__(self, rewards: Any, terminated: Any, truncated: Any) -> None:
        self.steps = iter(zip(rewards, terminated, truncated, strict=True))
        self.num_envs = rewards.shape[1]
        self.space = gymnasium.spaces.Box(-1, 1, (1,))
        self.shown = np.zeros((self.num_envs, 1), np.float32)

    def for_sb3(self) -> Any:
        vec_env = pytest.importorskip("stable_baselines3.common.vec_env")
        replayed = self

        class Env(vec_env.DummyVecEnv):  # type: ignore[misc, name-defined]
            def __init__(self) -> None:
                vec_env.VecEnv.__init__(self, replayed.num_envs, replayed.space, replayed.space)

            def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
                return [None] * self.num_envs

            def reset(self) -> Any:
                return replayed.shown

            def step_async(self, actions: Any) -> None:
                pass

            def step_wait(self) -> Any:
                rewards, terminated, truncated = next(replayed.steps)
                return replayed.shown, rewards, terminated | truncated, [{} for _ in rewards]

        return Env()

    def for_gymnasium(self) -> Any:
        replayed = self

        class Env(gymnasium.vector.VectorEnv[Any, Any, Any]):
            metadata: ClassVar = {"autoreset_mode": AutoresetMode.SAME_STEP}
            num_envs = replayed.num_envs
            single_observation_space = single_action_space = replayed.space
            observation_space = action_space = gymnasium.vector.utils.batch_space(
                replayed.space, replayed.num_envs
            )

            def reset(self, **_: Any) -> Any:
                return replayed.shown, {}

            def step(self, actions: Any) -> Any:
                return replayed.shown, *next(replayed.steps), {}

        return Env()


@pytest.mark.parametrize("gamma", [0.9, 0.999, 1.0])
def test_rewards_are_those_of_stable_baselines3_s_vec_normalize(gamma: float) -> None:
    vec_env = pytest.importorskip("stable_baselines3.common.vec_env")
    rewards, terminated, truncated = rollout(1)
    reference = vec_env.VecNormalize(
        Replayed(rewards, terminated, truncated).for_sb3(), norm_obs=False, clip_reward=CLIP, gamma=gamma
    )
    reference.reset()
    expected = np.array([reference.step(np.zeros((LANES, 1)))[1] for _ in range(STEPS)])
    assert (np.abs(expected) == CLIP).any() and (np.abs(expected) < CLIP).any()

    normalizer = RewardNormalizer(LANES, gamma)
    parts = [
        normalizer.normalize(rewards[part], (terminated | truncated)[part])
        for part in (slice(0, 64), slice(64, 65), slice(65, STEPS))
    ]
    np.testing.assert_allclose(np.concatenate(parts), expected, rtol=1e-6)
    np.testing.assert_allclose(normalizer.deviation, np.sqrt(reference.ret_rms.var + 1e-8), rtol=1e-9)


def test_rewards_are_those_of_gymnasium_where_nothing_terminates_and_none_is_clipped() -> None:
    rewards, nowhere, truncated = rollout(2)
    nowhere[:] = False
    reference = NormalizeReward(Replayed(rewards, nowhere, truncated).for_gymnasium(), gamma=0.95)
    reference.reset()
    expected = np.array([reference.step(np.zeros((LANES, 1)))[1] for _ in range(STEPS)])
    normalized = RewardNormalizer(LANES, 0.95).normalize(rewards, truncated)
    # Gymnasium keeps the running sums as float32.
    np.testing.assert_allclose(normalized, np.clip(expected, -CLIP, CLIP), rtol=1e-4)


def test_a_step_at_which_a_lane_is_idle_is_none() -> None:
    rewards, terminated, truncated = rollout(3)
    ended = terminated | truncated
    active = np.random.default_rng(3).random((STEPS, LANES)) < 0.6
    active[10] = False
    sums, seen, deviation = np.zeros(LANES), [], 1.0
    expected = np.zeros((STEPS, LANES))
    for t in range(STEPS):
        sums = np.where(active[t], 0.9 * sums, sums) + rewards[t]
        seen.extend(sums[active[t]])
        deviation = float(np.std(seen))
        expected[t] = np.clip(rewards[t] / deviation, -CLIP, CLIP)
        sums[ended[t]] = 0
    normalizer = RewardNormalizer(LANES, 0.9)
    # The prior, a ten-thousandth of a number, is not in the reference.
    np.testing.assert_allclose(normalizer.normalize(rewards, ended, active)[20:], expected[20:], rtol=1e-4)
    assert normalizer.deviation == pytest.approx(deviation, rel=1e-4)


def test_the_trainer_learns_from_normalized_rewards_and_logs_raw_ones(
    toy_policy: Any, waiting_venv: Any
) -> None:
    """Lanes are idle at times; what is learned from them is computed here by hand."""
    trainers = {
        on: PPO(toy_policy(), waiting_venv(4), PPOConfig(**OPTIONS | {"normalize_rewards": on}))
        for on in (False, True)
    }
    normalizer = RewardNormalizer(4, 0.99)
    samples = {on: trainer.collect() for on, trainer in trainers.items()}
    buffer = trainers[True].collector.player.buffer
    np.testing.assert_array_equal(buffer.rewards, trainers[False].collector.player.buffer.rewards)
    rewards = normalizer.normalize(buffer.rewards, buffer.terminated | buffer.truncated, buffer.active)
    following = trainers[True].policy.value(trainers[True].collector.shown.active_steps())  # type: ignore[union-attr]
    values = buffer.last_values.copy()
    values[trainers[True].collector.shown.active] = following  # type: ignore[union-attr]
    advantages, returns = generalized_advantages(
        *(rewards, buffer.values, values, buffer.final_values, buffer.terminated, buffer.truncated),
        *(0.99, 0.95, buffer.active),
    )
    np.testing.assert_array_equal(samples[True].advantages, advantages[buffer.active])
    np.testing.assert_array_equal(samples[True].returns, returns[buffer.active])
    assert not np.array_equal(samples[True].advantages, samples[False].advantages)
    logged = [trainer.update() for trainer in trainers.values()]
    assert logged[0]["charts/episodic_return"] == logged[1]["charts/episodic_return"]
    assert "charts/reward_deviation" not in logged[0]
    assert logged[1]["charts/reward_deviation"] == normalizer.deviation


def test_a_resumed_run_is_bit_equal_to_an_uninterrupted_one(
    toy_policy: Any, stateful_toy_venv: Any, tmp_path: Path
) -> None:
    config = PPOConfig(**OPTIONS, checkpoint_interval=48)
    whole = PPO(toy_policy(), stateful_toy_venv(4), config)
    whole.train()
    PPO(
        toy_policy(),
        stateful_toy_venv(4),
        config,
        tmp_path,
        callbacks=[lambda trainer, _: trainer.step >= 48],
    ).train()
    resumed = PPO(toy_policy(scale=0.1), stateful_toy_venv(4), config, tmp_path, resume=True)
    assert resumed.step == 48
    resumed.train()
    assert whole.collector.reward_normalizer is not None and resumed.collector.reward_normalizer is not None
    for name, array in whole.collector.reward_normalizer.state().items():
        np.testing.assert_array_equal(array, resumed.collector.reward_normalizer.state()[name], err_msg=name)
    for ours, theirs in zip(whole.policy.parameters(), resumed.policy.parameters(), strict=True):
        assert ours.equal(theirs)


def test_statistics_go_on_with_other_lanes_and_begin_anew_where_there_were_none(
    toy_policy: Any, stateful_toy_venv: Any, tmp_path: Path
) -> None:
    off, on = PPOConfig(**OPTIONS | {"normalize_rewards": False}), PPOConfig(**OPTIONS)
    PPO(toy_policy(), stateful_toy_venv(4), off, tmp_path / "off").train(24)
    fresh = PPO(toy_policy(), stateful_toy_venv(4), on, tmp_path / "off", resume=True)
    assert (
        fresh.collector.reward_normalizer is not None
        and fresh.collector.reward_normalizer.deviation == pytest.approx(1)
    )

    PPO(toy_policy(), stateful_toy_venv(4), on, tmp_path / "on").train(24)
    wider = PPO(toy_policy(), stateful_toy_venv(6), on, tmp_path / "on", resume=True)
    same = PPO(toy_policy(), stateful_toy_venv(4), on, tmp_path / "on", resume=True)
    assert wider.collector.reward_normalizer is not None and same.collector.reward_normalizer is not None
    assert wider.collector.reward_normalizer.deviation == same.collector.reward_normalizer.deviation != 1
    assert not wider.collector.reward_normalizer.state()["reward_sums"].any()
    assert same.collector.reward_normalizer.state()["reward_sums"].any()
    wider.train(48)


def test_new_episodes_begin_with_nothing_summed(toy_policy: Any, toy_venv: Any) -> None:
    trainer = PPO(toy_policy(), toy_venv(4), PPOConfig(**OPTIONS))
    reference = RewardNormalizer(4, 0.99)
    for _ in range(2):
        trainer.collect()
        rollout = trainer.collector.rollout
        assert rollout is not None
        ended = rollout.ended.copy()
        ended[-1] = True  # its episodes are not continued
        reference.normalize(rollout.rewards, ended)
        trainer.collector.continue_episodes(None)
    assert trainer.collector.reward_normalizer is not None
    assert trainer.collector.reward_normalizer.deviation == reference.deviation
