"""Environments that are idle for a while: what is learned from, what is counted, and what comes meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import entitize as ez
import numpy as np
import pytest
import torch
from entitize.datasets import EntityDataset
from entitize.envs import EntityVectorEnv
from entitize.policies import ActResult
from entitize.ragged import RaggedArray
from entitize.trainers import (
    PPO,
    EpisodeStatistics,
    NonFiniteError,
    PPOConfig,
    RandomActor,
    Shown,
    active_lanes,
    evaluate,
    generalized_advantages,
)
from entitize.trainers.advantages import next_values
from entitize.trainers.runs import derived_seed

from facts import raises

CONFIG = PPOConfig(
    seed=5, num_steps=9, minibatch_size=8, update_epochs=2, learning_rate=0.01, checkpoint_interval=50
)
#: What a trainer resets the environments with.
START = derived_seed(CONFIG.seed, 0)


def stop_at(update: int) -> Any:
    return lambda trainer, _: trainer.updates == update


class Replay:
    """What two rollouts should hold, by stepping the same environments with the same policy by hand."""

    def __init__(self, policy: Any, venv: Any, num_steps: int) -> None:
        rng = np.random.default_rng(CONFIG.seed)
        batch, info = venv.reset(seed=START)
        policy.update_normalization(batch.gather(np.flatnonzero(~info["inactive"])))
        shape = (num_steps, venv.num_envs)
        self.batches, self.acted = [], []
        self.active, self.terminated, self.truncated = (np.zeros(shape, bool) for _ in range(3))
        self.rewards, self.values, self.finals = (np.zeros(shape, np.float32) for _ in range(3))
        for t in range(num_steps):
            acted = policy.act(batch, rng)  # of idle lanes as well, which have no actors
            self.batches.append(batch)
            self.acted.append(acted)
            self.values[t], self.active[t] = acted.values, ~info["inactive"]
            batch, self.rewards[t], self.terminated[t], self.truncated[t], info = venv.step(acted.actions)
            lanes = np.flatnonzero(info["_final_obs"])
            self.finals[t, lanes] = policy.value(info["final_obs"]) if len(lanes) else []
        last = [self.values[self.active[:, lane], lane][-1] for lane in range(venv.num_envs)]
        next_values = np.where(info["inactive"], last, policy.value(batch)).astype(np.float32)
        self.advantages, self.returns = generalized_advantages(
            *(self.rewards, self.values, next_values, self.finals, self.terminated, self.truncated),
            *(CONFIG.gamma, CONFIG.gae_lambda, self.active),
        )


def test_a_rollout_holds_the_steps_at_which_lanes_were_active(toy_policy: Any, waiting_venv: Any) -> None:
    trainer = PPO(toy_policy(scale=1.0), waiting_venv(4), CONFIG)
    samples = trainer.collect()
    replay = Replay(toy_policy(scale=1.0), waiting_venv(4), CONFIG.num_steps)
    active = replay.active
    assert 0 < active.sum() < active.size and not active[-1].all(), "some are idle, also at the end"
    idle_cut = replay.truncated & ~active
    assert idle_cut.any() and (replay.terminated & ~active).any(), "both ends must come while idle"
    assert len(samples) == active.sum()
    np.testing.assert_allclose(samples.values, replay.values[active], rtol=1e-6)
    np.testing.assert_allclose(samples.advantages, replay.advantages[active], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(samples.returns, replay.returns[active], rtol=1e-5, atol=1e-5)
    first = 0
    for t, (batch, acted) in enumerate(zip(replay.batches, replay.acted, strict=True)):
        lanes = np.flatnonzero(active[t])
        rows = slice(first, first + len(lanes))
        assert samples.observations[rows].equals(batch.gather(lanes))
        for name in acted.actions:
            assert samples.actions[name][rows] == acted.actions[name].gather(lanes)
            assert samples.log_probs[name][rows] == acted.log_probs[name].gather(lanes)
        first = rows.stop


def test_a_lane_that_is_idle_at_the_end_is_bootstrapped_from_its_last_active_step(
    toy_policy: Any, waiting_venv: Any
) -> None:
    policy, batch_and_info = toy_policy(scale=1.0), waiting_venv(6).reset(seed=3)
    batch, idle = batch_and_info[0], batch_and_info[1]["inactive"]
    last_values = np.arange(10, 16, dtype=np.float32)
    found = next_values(policy, last_values, Shown.of(*batch_and_info))
    assert 0 < idle.sum() < 6
    np.testing.assert_allclose(found, np.where(idle, last_values, policy.value(batch)), rtol=1e-6)


def test_idle_steps_count_nowhere(toy_policy: Any, waiting_venv: Any) -> None:
    class Counting(toy_policy):  # type: ignore[misc]
        def evaluate(self, batch: Any, actions: Any) -> Any:
            sizes.append(len(batch))
            return super().evaluate(batch, actions)

        def update_normalization(self, batch: Any) -> None:
            normalized.append(len(batch))
            super().update_normalization(batch)

    sizes: list[int] = []
    normalized: list[int] = []
    trainer = PPO(Counting(), waiting_venv(4), CONFIG)
    samples = trainer.collect()
    metrics = trainer.update()
    active = len(samples)
    assert trainer.step == active < 36
    assert sum(sizes) == CONFIG.update_epochs * active
    assert max(sizes) - min(sizes) <= 1 and max(sizes) <= CONFIG.minibatch_size
    assert normalized == [int((~waiting_idle(waiting_venv)).sum()), active]
    assert metrics["losses/approx_kl"] < 0.1
    whole = trainer.train(100)
    assert trainer.step >= 100 and whole["charts/SPS"] > 0


def waiting_idle(waiting_venv: Any) -> np.ndarray:
    return waiting_venv(4).reset(seed=START)[1]["inactive"]


def test_ratios_start_at_one_although_lanes_are_idle(toy_policy: Any, waiting_venv: Any) -> None:
    config = PPOConfig(num_steps=9, update_epochs=1, minibatch_size=1000)
    trainer = PPO(toy_policy(), waiting_venv(4), config)
    for _ in range(3):
        trainer.collect()
        assert trainer.update()["losses/approx_kl"] == pytest.approx(0, abs=1e-6)


def test_saying_that_nobody_is_idle_changes_nothing(toy_policy: Any, toy_venv: Any) -> None:
    class Telling(toy_venv):  # type: ignore[misc]
        def reset(self, **kwargs: Any) -> Any:
            return super().reset(**kwargs)[0], {"inactive": np.zeros(self.num_envs, bool)}

        def step(self, actions: Any) -> Any:
            *rest, info = super().step(actions)
            return *rest, {**info, "inactive": np.zeros(self.num_envs, bool)}

    weights = []
    for venv in (toy_venv(4), Telling(4)):
        policy = toy_policy()
        PPO(policy, venv, CONFIG).train(108)
        weights.append(torch.cat([p.detach().flatten() for p in policy.parameters()]))
    assert torch.equal(weights[0], weights[1])


def test_where_everybody_is_idle_there_is_nothing_to_learn_and_nothing_breaks(
    toy_policy: Any, waiting_venv: Any, tmp_path: Path
) -> None:
    class Asleep(waiting_venv):  # type: ignore[misc]
        def _show(self) -> Any:
            self.share = 1.0 if self._clock < 23 else 0.4
            return super()._show()

    policy = toy_policy()
    before = {name: tensor.clone() for name, tensor in policy.state_dict().items()}
    steps: list[tuple[int, bool]] = []
    trainer = PPO(
        policy,
        Asleep(4),
        CONFIG,
        tmp_path,
        callbacks=[lambda t, m: steps.append((t.step, "losses/loss" in m))],
    )
    assert len(trainer.collect()) == 0
    assert trainer.update() == {}
    assert all(torch.equal(tensor, before[name]) for name, tensor in policy.state_dict().items())
    trainer.train(60)
    assert steps[0] == (0, False), "idle steps are no steps"
    assert trainer.step >= 60 and steps[-1][1]


def test_a_resumed_run_knows_who_was_idle(toy_policy: Any, waiting_venv: Any, tmp_path: Path) -> None:
    whole = PPO(toy_policy(), waiting_venv(4, share=0.6), CONFIG, callbacks=[stop_at(6)])
    whole.train()
    stopped = PPO(toy_policy(), waiting_venv(4, share=0.6), CONFIG, tmp_path, callbacks=[stop_at(3)])
    stopped.train()
    assert stopped.collector.shown is not None and stopped.collector.shown.active is not None, (
        "some must be idle just then"
    )
    resumed = PPO(
        toy_policy(), waiting_venv(4, share=0.6), CONFIG, tmp_path, resume=True, callbacks=[stop_at(6)]
    )
    resumed.train()
    assert (resumed.step, resumed.updates) == (whole.step, whole.updates)
    for one, other in zip(whole.policy.parameters(), resumed.policy.parameters(), strict=True):
        assert torch.equal(one, other)
    assert resumed.episodes.summary() == whole.episodes.summary()


def test_what_is_not_finite_is_blamed_on_the_right_lane(toy_policy: Any, waiting_venv: Any) -> None:
    class Spoiling(waiting_venv):  # type: ignore[misc]
        def _show(self) -> Any:
            batch = super()._show()
            robots = batch.entities["Robot"]
            if self._clock == 5:
                self.spoiled = int(np.flatnonzero(~self.idle)[-1])
                robots.values[robots.offsets[self.spoiled], 1] = np.inf
            return batch

    venv = Spoiling(6)
    trainer = PPO(toy_policy(), venv, CONFIG)
    with raises(NonFiniteError, "Robot", "row 0", "feature 'x'", "inf") as error:
        trainer.train()
    assert f"lane {venv.spoiled}:" in str(error.value)


def test_a_value_that_is_not_finite_is_of_the_right_lane(toy_policy: Any, waiting_venv: Any) -> None:
    class Doubting(toy_policy):  # type: ignore[misc]
        def act(self, batch: Any, rng: Any, deterministic: bool = False) -> ActResult:
            acted = super().act(batch, rng, deterministic)
            acted.values[-1] = np.nan
            return acted

    venv = waiting_venv(6, share=0.6)
    last = int(np.flatnonzero(~venv.reset(seed=START)[1]["inactive"])[-1])
    with raises(NonFiniteError, "value estimate", last, "nan"):
        PPO(Doubting(), venv, CONFIG).collect()


def test_actions_of_active_lanes_are_spread_over_all() -> None:
    chosen = RaggedArray.from_arrays([[[1.0]], [[2.0], [3.0]]], dtype=np.float32)
    shown = Shown(None, np.array([False, True, False, False, True]))  # type: ignore[arg-type]
    spread = shown.for_all({"Steer": chosen})["Steer"]
    assert [part.tolist() for part in spread] == [[], [[1.0]], [], [], [[2.0], [3.0]]]
    assert active_lanes({}) is None and active_lanes({"inactive": np.zeros(3, bool)}) is None


# -- episodes ----------------------------------------------------------------------------------------------


def test_lengths_count_active_steps_and_ends_without_any_end_no_episode() -> None:
    statistics = EpisodeStatistics(2)
    here, gone = np.array([True, True]), np.array([True, False])
    nobody, second, both = np.array([False, False]), np.array([False, True]), np.array([True, True])
    assert statistics.record(np.array([1.0, 1.0]), nobody, here) == []
    assert statistics.record(np.array([1.0, 5.0]), second, gone) == [(1, 6.0, 1)], "it ends while it is idle"
    assert statistics.record(np.array([1.0, 0.0]), both, gone) == [(0, 3.0, 3)], (
        "its game is over: no episode"
    )
    assert statistics.record(np.array([0.0, -1.0]), nobody, gone) == []
    assert statistics.record(np.array([2.0, 1.0]), both) == [(0, 2.0, 2), (1, 0.0, 1)]
    means = {name: statistics.summary()[f"charts/episodic_{name}"] for name in ("return", "length")}
    assert means == {"return": 2.75, "length": 1.75}


class Arena(EntityVectorEnv):
    """Games of three agents, one per lane: 0 plays to the end at 6, 1 dies at 2, 2 may not move before 4.

    The dead agent waits, and its lane's end comes a second time when the game is over.
    """

    num_envs = 3

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self._time = 0
        return "batch", self._info()

    def _info(self) -> dict[str, Any]:
        return {"inactive": np.array([False, self._time >= 2, self._time < 4])}

    def step(self, actions: Any) -> Any:
        self._time += 1
        over = self._time == 6
        ended = np.array([over, over or self._time == 2, over])
        rewards = np.array([1.0, 10.0 if self._time == 2 else 0.0, 100.0 if self._time in (1, 5) else 0.0])
        self._time %= 6
        return "batch", rewards.astype(np.float32), ended, np.zeros(3, bool), self._info()


class Nobody:
    def act(self, batch: Any, rng: np.random.Generator, deterministic: bool = False) -> ActResult:
        return ActResult({}, {}, np.zeros(0, np.float32))


def test_evaluation_plays_the_episodes_of_agents_that_die_and_of_those_that_wait() -> None:
    results = evaluate(Nobody(), Arena(), episodes=8)
    assert results.lanes.tolist() == [0, 0, 0, 1, 1, 1, 2, 2]
    assert results.returns.tolist() == [6, 6, 6, 10, 10, 10, 200, 200]
    assert results.lengths.tolist() == [6, 6, 6, 2, 2, 2, 2, 2]


def test_as_many_episodes_are_recorded_as_evaluated(waiting_venv: Any, tmp_path: Path) -> None:
    venv = waiting_venv(4)
    results = evaluate(RandomActor(venv.single_action_space), venv, 13, seed=3)
    dataset = ez.datasets.EntityDataset(
        ez.record(waiting_venv(4), None, tmp_path / "plays", episodes=13, seed=3)
    )
    found = sorted(dataset.episodes, key=lambda episode: (episode.lane, episode.number))
    assert [episode.lane for episode in found] == results.lanes.tolist()
    np.testing.assert_allclose([episode.total_reward for episode in found], results.returns, rtol=1e-5)
    lengths = [int((~dataset.gather(e.rows).inactive & ~dataset.gather(e.rows).final).sum()) for e in found]
    assert lengths == results.lengths.tolist()


def test_a_recording_holds_the_episodes_that_evaluation_counts(
    waiting_venv: Any, toy_policy: Any, tmp_path: Path
) -> None:
    played = ez.evaluate(toy_policy(), waiting_venv(4, share=0.8), episodes=13, seed=11)
    ez.record(waiting_venv(4, share=0.8), toy_policy(), tmp_path / "plays", episodes=13, seed=11)
    episodes = sorted(EntityDataset(tmp_path / "plays").episodes, key=lambda one: (one.lane, one.number))
    assert [episode.lane for episode in episodes] == played.lanes.tolist()
    np.testing.assert_allclose([episode.total_reward for episode in episodes], played.returns, rtol=1e-5)
