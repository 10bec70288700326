"""Evaluation: the right episodes, no bias towards short ones, honest intervals."""

from __future__ import annotations

from functools import partial
from typing import Any

import entitize as ez
import gymnasium
import numpy as np
import pytest
import torch
from entitize.envs import EntityVectorEnv, sample_actions
from entitize.policies import ActResult
from entitize.trainers import (
    EpisodeStatistics,
    NonFiniteError,
    bootstrap_interval,
    evaluate,
    explained_variance,
    wilson_interval,
)

from facts import raises, warns


class Lengths(EntityVectorEnv):
    """Each lane draws its episodes' lengths, 1 or 9, evenly; the return is the length."""

    def __init__(self, num_envs: int) -> None:
        self.num_envs = num_envs

    def _draw(self) -> Any:
        return np.where(self._rng.random(self.num_envs) < 0.5, 1, 9)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self._rng = np.random.default_rng(seed)
        self._left = self._draw()
        return "batch", {}

    def step(self, actions: Any) -> Any:
        self._left -= 1
        ended = self._left == 0
        self._left = np.where(ended, self._draw(), self._left)
        cut = ended & (np.arange(self.num_envs) % 2 == 0)
        return "batch", np.ones(self.num_envs, np.float32), ended & ~cut, cut, {}


class Idle:
    """Does nothing and remembers how it was asked."""

    def __init__(self) -> None:
        self.deterministic: set[bool] = set()

    def act(self, batch: Any, rng: np.random.Generator, deterministic: bool = False) -> ActResult:
        self.deterministic.add(deterministic)
        return ActResult({}, {}, np.zeros(0, np.float32))


def test_short_episodes_are_not_favoured() -> None:
    results = evaluate(Idle(), Lengths(50), episodes=1000, seed=3)
    assert len(results.returns) == 1000
    assert results.returns.mean() == pytest.approx(5, abs=0.4)
    np.testing.assert_array_equal(results.returns, results.lengths)
    np.testing.assert_array_equal(np.bincount(results.lanes), 20)


def test_statistics_are_of_the_last_hundred_episodes() -> None:
    statistics, returns = EpisodeStatistics(1), np.random.default_rng(0).normal(size=150)
    for episode_return in returns:
        statistics.record(np.array([episode_return]), np.array([True]))
    summary = statistics.summary()
    assert summary["charts/episodic_return"] == pytest.approx(returns[-100:].mean())
    assert summary["charts/episodic_return_std"] == pytest.approx(returns[-100:].std())


@pytest.mark.parametrize(("episodes", "per_lane"), [(10, [3, 3, 2, 2]), (3, [1, 1, 1]), (1, [1])])
def test_episodes_are_spread_evenly_over_the_environments(episodes: int, per_lane: list[int]) -> None:
    results = evaluate(Idle(), Lengths(4), episodes)
    assert np.bincount(results.lanes).tolist() == per_lane
    assert set(results.lengths.tolist()) <= {1, 9}, "every episode is whole"


def test_the_same_seed_gives_the_same_episodes(toy_policy: Any, toy_venv: Any) -> None:
    policy = toy_policy()
    evaluate(policy.eval(), toy_venv(4), 4)
    assert not policy.training
    policy.train()
    runs = [evaluate(policy, toy_venv(4), 9, seed=seed).returns for seed in (5, 5, 6)]
    np.testing.assert_array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0], runs[2])
    assert policy.training and policy.normalizations == 0, "evaluation leaves mode and statistics alone"


def test_deterministic_evaluation_asks_for_the_best_actions() -> None:
    for deterministic in (False, True):
        idle = Idle()
        evaluate(idle, Lengths(2), 2, deterministic=deterministic)
        assert idle.deterministic == {deterministic}


def test_a_function_plays_as_a_policy_that_does_the_same() -> None:
    venv = ez.make_vec("MultiSnake/lanes", num_envs=4, max_steps=9)
    space = venv.single_action_space

    def draw(batch: Any, rng: np.random.Generator) -> Any:
        return sample_actions(space, batch, rng)

    results = [evaluate(policy, venv, 12).returns for policy in (draw, ez.evaluation.RandomActor(space))]
    np.testing.assert_array_equal(*results)
    with raises(ez.ActionError, "evaluate", "'move'"):
        evaluate(lambda batch, rng: {}, venv, 1)
    with raises(TypeError, "evaluate", "Linear", "act"):
        evaluate(torch.nn.Linear(1, 1), venv, 1)
    with raises(TypeError, "evaluate", "the class RogueNetwork", "act"):
        evaluate(type("RogueNetwork", (), {}), venv, 1)


def test_no_episodes_and_policies_of_other_games_are_refused() -> None:
    with raises(ValueError, "episodes", 0):
        evaluate(Idle(), Lengths(2), 0)
    other = ez.evaluation.RandomActor(ez.make_vec("CherryPick").single_action_space)
    with raises(ValueError, "evaluate", "'Move'", "'Pick Cherry'"):
        evaluate(other, ez.make_vec("MineSweeper"), 1)


def test_a_negative_seed_is_refused() -> None:
    venv = ez.make_vec("CherryPick")
    with raises(ValueError, "seed", -1):
        evaluate(ez.evaluation.RandomActor(venv.single_action_space), venv, 1, seed=-1)


def test_a_reward_that_is_no_number_is_refused() -> None:
    class Broken(Lengths):
        def step(self, actions: Any) -> Any:
            batch, rewards, *rest = super().step(actions)
            return batch, rewards * np.nan, *rest

    with raises(NonFiniteError, "reward", "nan"):
        evaluate(Idle(), Broken(2), 2)


@pytest.mark.parametrize("action", [ez.Categorical(2), ez.Continuous(-1, 1)])
def test_a_feature_that_is_no_number_is_named(action: Any) -> None:
    class Broken(ez.EntityEnv):
        action_space = ez.EntityActionSpace({"go": action})
        observation_space = ez.EntitySpace({"Cat": ["x", "y"]}, action_space)

        def _reset(self, options: Any) -> ez.Observation:
            return ez.Observation(
                {"Cat": [[1, 2], [3, 4]]}, actions={"go": action.mask_type(actor_types=["Cat"])}
            )

        def _step(self, actions: Any) -> Any:
            return self._reset({}), 0.0, False, False, {}

    class Spoiled(ez.vector.ListVectorEnv):
        def step(self, actions: Any) -> Any:
            batch, *rest = super().step(actions)
            batch.entities["Cat"].values[3, 1] = np.nan
            return batch, *rest

    venv = Spoiled([Broken] * 2)
    policy = ez.RogueNet(venv.single_observation_space, venv.single_action_space, d_model=8, n_layer=1)
    with raises(NonFiniteError, "lane 1", "'Cat'", "row 1", "feature 'y'", "nan"):
        evaluate(policy, venv, 2)


def test_policies_that_read_other_features_are_refused_until_they_are_adapted() -> None:
    venv = ez.make_vec("TreasureHunt", num_envs=2)
    space = venv.single_observation_space
    turned = {name: features[::-1] for name, features in space.entities.items()}
    net = ez.RogueNet(ez.EntitySpace(turned, space.actions, space.global_features), space.actions)
    name, features = next((name, features) for name, features in turned.items() if len(features) > 1)
    with raises(ValueError, "evaluate", repr(name), ", ".join(features)):
        evaluate(net, venv, 1)
    with raises(ValueError, "PPO", repr(name), ", ".join(features)):
        ez.PPO(net, venv, ez.PPOConfig())
    net.adapt_to(space)
    assert net.reads == space
    evaluate(net, venv, 1)


def test_environments_that_do_not_reset_in_the_last_step_are_refused() -> None:
    native = gymnasium.make_vec("CartPole-v1", 2, vectorization_mode="vector_entry_point")
    venv = ez.wrap_vec(native)
    with raises(ValueError, "evaluate", "SAME_STEP", "NEXT_STEP"):
        evaluate(ez.evaluation.RandomActor(venv.single_action_space), venv, 1)


def test_the_interval_covers_the_mean_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    covered = 0
    for trial in range(200):
        interval = bootstrap_interval(rng.exponential(2.0, 60), level=0.9, resamples=500, seed=trial)
        assert interval.low < interval.mean < interval.high
        covered += interval.low <= 2.0 <= interval.high
    assert 0.82 <= covered / 200 <= 0.95


def test_the_interval_of_groups_covers_the_mean_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    covered = dict.fromkeys(["groups", "values"], 0)
    for trial in range(200):
        groups = np.repeat(np.arange(40), rng.integers(1, 6, 40))  # of one to five values, which are equal
        values = rng.exponential(2.0, 40)[groups]
        for name, given in (("groups", groups), ("values", None)):
            interval = bootstrap_interval(values, level=0.9, resamples=500, seed=trial, groups=given)
            covered[name] += interval.low <= 2.0 <= interval.high
    assert 0.82 <= covered["groups"] / 200 <= 0.95
    assert covered["values"] / 200 < 0.75  # as if they were independent


def test_players_of_a_game_count_as_one_in_the_interval() -> None:
    venv = ez.make_vec("MultiSnake/lanes", 6, num_snakes=3, board_size=4, max_snake_length=3, max_steps=9)
    results = evaluate(ez.evaluation.RandomActor(venv.single_action_space), venv, 12)
    assert results.lanes.tolist() == [lane for lane in range(6) for _ in range(2)]
    expected = [(lane // 3, k) for lane in range(6) for k in range(2)]  # its game, and the game's episode
    assert len(set(results.games.tolist())) == len(set(expected))
    assert len(set(zip(results.games.tolist(), expected, strict=True))) == len(set(expected))
    assert results.interval() == bootstrap_interval(results.returns, groups=results.games)


def test_an_agent_that_never_joins_its_game_is_left_out() -> None:
    class Absent(Lengths):
        """Two games of two lanes: the first takes 150 steps, the other a step; lane 3 never joins it."""

        lane_games = np.array([0, 0, 1, 1])

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            self._time = 0
            return "batch", {"inactive": np.arange(4) == 3}

        def step(self, actions: Any) -> Any:
            self._time += 1
            ended = np.array([self._time % 150 == 0] * 2 + [True, True])
            return "batch", np.ones(4, np.float32), ended, np.zeros(4, bool), {"inactive": np.arange(4) == 3}

    assert evaluate(Idle(), Absent(4), 3).lengths.tolist() == [150, 150, 1]
    with warns(UserWarning, "lane 3", "lane 2", "never active"):
        results = evaluate(Idle(), Absent(4), 7)
    assert results.lanes.tolist() == [0, 0, 1, 1, 2, 2] and results.lengths.tolist() == [150] * 4 + [1, 1]


def test_an_agent_may_join_after_others_of_its_game_whose_episodes_are_not_asked_for() -> None:
    class Late(Lengths):
        """A game of two lanes: lane 1 plays an episode at each step, lane 0 joins at the fifth."""

        lane_games = np.array([0, 0])

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            self._time = 0
            return "batch", {"inactive": np.array([True, False])}

        def step(self, actions: Any) -> Any:
            self._time += 1
            inactive = np.array([self._time < 5, False])
            ended = np.array([self._time == 7, True])
            return "batch", np.ones(2, np.float32), ended, np.zeros(2, bool), {"inactive": inactive}

    assert evaluate(Idle(), Late(2), 1).lanes.tolist() == [0]


def test_a_group_of_more_values_weighs_more() -> None:
    groups = np.repeat(np.arange(40), [1, 9] * 20)
    interval = bootstrap_interval(groups % 2, groups=groups)
    assert interval.mean == 0.9 and 0.8 < interval.low < 0.9 < interval.high < 1


def test_an_interval_of_equal_values_is_a_point_and_reads_well() -> None:
    interval = bootstrap_interval([3.0] * 10)
    assert (interval.mean, interval.low, interval.high) == (3, 3, 3)
    assert str(interval) == "3.00 [3.00, 3.00]"


def test_a_single_value_has_no_interval() -> None:
    interval = bootstrap_interval([2.5])
    assert interval.mean == 2.5 and np.isnan([interval.low, interval.high]).all()
    assert str(interval) == "2.50" and interval.bounds(" to ") == ""
    assert bootstrap_interval([2.0, 3.0]).bounds(" to ") == "2.00 to 3.00"


def test_values_without_an_interval_are_refused() -> None:
    for values in ([], [1.0, np.nan], [[1.0]]):
        with raises(ValueError, "finite"):
            bootstrap_interval(values)
    with raises(ValueError, "level", 95):
        bootstrap_interval([1.0], level=95)
    with raises(ValueError, "resamples", 0):
        bootstrap_interval([1.0, 2.0], resamples=0)
    with raises(ValueError, "groups", 2, "(3,)"):
        bootstrap_interval([1.0, 2.0], groups=[0, 0, 1])
    assert np.isnan(bootstrap_interval([1.0, 2.0], groups=[7, 7]).low), "one group has no interval"


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [
        (0, 10, 0, 3.841459 / 13.841459),  # z² / (n + z²), by hand
        (10, 10, 10 / 13.841459, 1),
        (50, 100, 0.403832, 0.596168),
        (1, 1, 1 / 4.841459, 1),
    ],
)
def test_wilsons_interval_is_that_of_the_formula(
    successes: int, trials: int, low: float, high: float
) -> None:
    interval = wilson_interval(successes, trials)
    assert interval.mean == successes / trials
    np.testing.assert_allclose([interval.low, interval.high], [low, high], atol=1e-6)
    assert 0 <= interval.low <= interval.mean <= interval.high <= 1


@pytest.mark.parametrize(("successes", "trials"), [(0, 0), (3, 2), (-1, 2)])
def test_rates_of_nothing_are_refused(successes: int, trials: int) -> None:
    with raises(ValueError, successes, trials):
        wilson_interval(successes, trials)
    with raises(ValueError, "level", 1):
        wilson_interval(1, 2, level=1)


def test_episode_statistics_follow_each_environment() -> None:
    statistics = EpisodeStatistics(2)
    assert statistics.summary() == {}
    assert statistics.record(np.array([1.0, 2.0]), np.array([False, True])) == [(1, 2.0, 1)]
    assert statistics.record(np.array([10.0, 5.0]), np.array([True, False])) == [(0, 11.0, 2)]
    assert statistics.summary() == {
        "charts/episodic_return": 6.5,
        "charts/episodic_return_std": 4.5,
        "charts/episodic_return_min": 2.0,
        "charts/episodic_return_max": 11.0,
        "charts/episodic_length": 1.5,
    }
    again = EpisodeStatistics(2)
    again.restore(statistics.state())
    assert again.summary() == statistics.summary() and again.finished == 2
    assert again.record(np.array([0.0, 1.0]), np.array([False, True])) == [(1, 6.0, 2)]
    fewer = EpisodeStatistics(1)
    fewer.restore(statistics.state())
    assert fewer.running_lengths.tolist() == [0], "other environments' running episodes are not ours"


def test_explained_variance_is_1_for_perfect_values_and_0_for_a_constant() -> None:
    returns = np.array([1.0, 2.0, 4.0])
    assert explained_variance(returns, returns) == 1
    assert explained_variance(np.full(3, 7.0), returns) == pytest.approx(0)
    assert explained_variance(returns, np.full(3, 7.0)) is None


@pytest.mark.parametrize("mode", [False, True])
def test_a_policy_keeps_the_mode_that_it_was_in(mode: bool, toy_policy: Any, toy_venv: Any) -> None:
    policy = toy_policy().train(mode)
    evaluate(policy, toy_venv(2), episodes=2)
    assert policy.training is mode


def test_a_game_without_an_end_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    class Endless(ez.EntityEnv):
        action_space = ez.EntityActionSpace({"Go": ez.Categorical(2)})
        observation_space = ez.EntitySpace({"Unit": ["x"]}, action_space)
        time = 0

        def __init__(self, length: int) -> None:
            self.length = length

        def _reset(self, options: Any) -> ez.Observation:
            return self._observe()

        def _step(self, actions: Any) -> Any:
            self.time += 1
            return self._observe(), 1.0, False, self.time % self.length == 0, {}

        def _observe(self) -> ez.Observation:
            return ez.Observation(
                entities={"Unit": np.ones((1, 1))}, actions={"Go": ez.actions.CategoricalMask()}
            )

    monkeypatch.setattr("entitize.trainers.evaluation.episodes.MANY_STEPS", 30)
    venv = ez.vector.ListVectorEnv([partial(Endless, 5), partial(Endless, 40)])
    with warns(UserWarning, "evaluate", 30, "env 1"):
        results = evaluate(ez.evaluation.RandomActor(venv.single_action_space), venv, 2)
    assert results.lengths.tolist() == [5, 40]


def test_results_show_their_mean_and_not_their_arrays() -> None:
    venv = ez.make_vec("CherryPick", num_envs=4)
    results = evaluate(ez.evaluation.RandomActor(venv.single_action_space), venv, 300)
    assert str(results.interval()) in repr(results) and "300 episodes" in repr(results)
    assert len(repr(results)) < 120


@pytest.mark.parametrize("values", [None, np.full(2, np.nan, np.float32)])
def test_policies_of_ones_own_may_have_no_values(values: Any) -> None:
    class Guessing(Idle):
        def act(self, batch: Any, rng: np.random.Generator, deterministic: bool = False) -> ActResult:
            return ActResult(ez.envs.sample_actions(venv.single_action_space, batch, rng), {}, values)

    venv = ez.make_vec("MultiSnake/lanes", 2, num_snakes=2, board_size=5, max_steps=9)
    assert len(evaluate(Guessing(), venv, 4).returns) == 4
