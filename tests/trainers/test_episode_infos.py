"""What the infos of the episodes' last steps say: success rates, results of levels."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, ClassVar

import entitize as ez
import gymnasium
import numpy as np
import pytest
from entitize.evaluation import RandomActor, bootstrap_interval
from entitize.trainers import EpisodeStatistics
from pettingzoo import ParallelEnv

from facts import raises, warns


def observed() -> ez.Observation:
    return ez.Observation(entities={"Unit": np.ones((1, 1))}, actions={"Go": ez.actions.CategoricalMask()})


class Levels(ez.EntityEnv):
    """Level n takes n + 1 steps and returns n; levels below 3 are successes.

    Infos name the level at every step and at the reset, so that those of the next episode are wrong ones.
    """

    action_space = ez.EntityActionSpace({"Go": ez.Categorical(["on", "off"])})
    observation_space = ez.EntitySpace({"Unit": ["x"]}, action_space)

    def _reset(self, options: Any) -> Any:
        self.level, self.time = int(self.np_random.integers(6)), 0
        return observed(), {"level": self.level}

    def _step(self, actions: Any) -> Any:
        self.time += 1
        is_over = self.time > self.level
        info: dict[str, Any] = {"level": self.level}
        if is_over:
            info |= {"outcome": "win" if self.level < 3 else "loss", "is_success": self.level < 3}
            if self.level == 5:
                del info["is_success"]  # nobody knows
        return observed(), float(self.level) if is_over else 0.0, is_over, False, info


def results_in(venv: Any, keys: Any = ("level", "outcome"), episodes: int = 60) -> Any:
    with venv:
        return ez.evaluate(RandomActor(venv.single_action_space), venv, episodes, info_keywords=keys)


@pytest.mark.parametrize("workers", [0, 2])
def test_infos_are_those_of_the_episode_and_not_of_the_next(workers: int) -> None:
    results = results_in(ez.make_vec(Levels, 4, num_workers=workers))
    assert len(set(results.returns)) == 6, "all levels are played"
    assert (results.infos["level"] == results.returns).all()
    assert (results.lengths == results.infos["level"] + 1).all()
    assert ((results.infos["outcome"] == "win") == (results.returns < 3)).all()


def test_the_success_rate_is_that_of_the_episodes_that_say_so() -> None:
    results = results_in(ez.make_vec(Levels, 4), ())
    given = results.returns < 5
    assert results.success_rate == bootstrap_interval(
        (results.returns < 3)[given], groups=results.games[given]
    )
    assert set(results.infos) == {"is_success"} and f"success rate {results.success_rate}" in repr(results)
    assert all(
        (value is None) == (level == 5)
        for value, level in zip(results.infos["is_success"], results.returns, strict=True)
    )
    venv = ez.make_vec("CherryPick", num_envs=2)
    assert results_in(venv, ()).success_rate is None


def test_results_split_by_level() -> None:
    results = results_in(ez.make_vec(Levels, 4))
    parts = results.split("level")
    assert list(parts) == [0, 1, 2, 3, 4, 5]
    for level, part in parts.items():
        assert (part.returns == level).all() and (part.lengths == level + 1).all()
        assert (part.infos["outcome"] == ("win" if level < 3 else "loss")).all()
        chosen = results.infos["level"] == level
        assert (part.lanes == results.lanes[chosen]).all() and (part.games == results.games[chosen]).all()
    assert list(results.split("outcome")) == ["loss", "win"]
    assert list(results.split("is_success")) == [False, True, None]


def test_an_interval_draws_whole_levels() -> None:
    results = results_in(ez.make_vec(Levels, 4))
    whole = results.interval(by="level")
    assert whole == bootstrap_interval(results.returns, groups=results.infos["level"])
    plain = results.interval()
    assert whole.mean == plain.mean and whole.high - whole.low > 1.5 * (plain.high - plain.low)


@pytest.mark.parametrize("value", [np.nan, None])
def test_episodes_without_a_value_are_no_level(value: Any) -> None:
    class Some(Levels):
        def _step(self, actions: Any) -> Any:
            *step, info = super()._step(actions)
            return *step, {**info, "level": value if self.level == 5 else float(self.level)}

    results = results_in(ez.make_vec(Some, 4))
    parts = results.split("level")
    assert list(parts) == [0, 1, 2, 3, 4, None] and (parts[None].returns == 5).all()
    groups = [100 + k if level == 5 else level for k, level in enumerate(results.returns)]
    assert results.interval(by="level") == bootstrap_interval(results.returns, groups=groups)


@pytest.mark.parametrize("value", [2.5, -1, math.inf, 10**400, "yes", np.ones(2)])
def test_what_is_no_rate_is_no_answer(value: Any) -> None:
    class Odd(Levels):
        def _step(self, actions: Any) -> Any:
            *step, info = super()._step(actions)
            return *step, {**info, "is_success": value if self.level else np.array([1.0])}

    results = results_in(ez.make_vec(Odd, 4))
    assert results.success_rate is not None and results.success_rate.mean == 1
    policy = ez.RogueNet(Odd.observation_space, Odd.action_space, d_model=8, n_layer=1, n_head=1)
    trainer = ez.PPO(policy, ez.make_vec(Odd, 4), ez.PPOConfig(num_steps=16, minibatch_size=32))
    trainer.train(128, progress=False)
    assert trainer.episodes.summary()["charts/success_rate"] == 1


def test_infos_of_wrapped_environments() -> None:
    class Coins(gymnasium.Env):  # type: ignore[type-arg]
        observation_space = gymnasium.spaces.Box(-1, 1, (2,))
        action_space = gymnasium.spaces.Discrete(2)

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            super().reset(seed=seed)
            return np.zeros(2, np.float32), {"is_success": True}

        def step(self, action: Any) -> Any:
            heads = bool(self.np_random.random() < 0.5)
            return np.zeros(2, np.float32), float(heads), True, False, {"is_success": np.bool_(heads)}

    vector = gymnasium.vector.SyncVectorEnv([Coins] * 3)
    for venv in (ez.make_vec(Coins, 3), ez.wrap_vec(vector)):
        results = results_in(venv, ())
        assert (results.infos["is_success"] == results.returns).all() and len(set(results.returns)) == 2


def test_infos_of_agents_of_a_game() -> None:
    class Duel(ez.EntityGame):
        def __init__(self) -> None:
            self.possible_agents = ["first", "second"]
            self.spaces = Levels.observation_space, Levels.action_space

        def _reset(self, options: Any) -> Any:
            self.winner = int(self.np_random.integers(2))
            return self.look()

        def _step(self, actions: Any) -> Any:
            won = {agent: k == self.winner for k, agent in enumerate(self.possible_agents)}
            infos = {agent: {"is_success": is_winner} for agent, is_winner in won.items()}
            return (
                self.look(),
                {agent: float(is_winner) for agent, is_winner in won.items()},
                True,
                False,
                infos,
            )

        def look(self) -> Any:
            return {agent: observed() for agent in self.possible_agents}

    results = results_in(ez.make_vec(Duel, 4), ())
    assert (results.infos["is_success"] == results.returns).all() and len(set(results.returns)) == 2
    assert results.success_rate == results.interval()


class TwoAgents(ParallelEnv):  # type: ignore[type-arg,misc]
    """Games of PettingZoo, numbered from the last seed on."""

    metadata: ClassVar[dict[str, Any]] = {"name": "two"}
    possible_agents: ClassVar[list[str]] = ["a", "b"]
    game = -1

    def observation_space(self, agent: str) -> Any:
        return gymnasium.spaces.Box(-1, 1, (2,))

    def action_space(self, agent: str) -> Any:
        return gymnasium.spaces.Discrete(2)


def test_an_agent_that_joins_some_games_counts_with_those_that_it_was_in() -> None:
    class Duo(TwoAgents):
        """b joins the odd games, after a step; both get the same reward, which is the game's number."""

        def reset(self, seed: int | None = None, options: Any = None) -> Any:
            self.game = 0 if seed is not None else self.game + 1
            self.time, self.agents = 0, ["a"]
            return {"a": np.zeros(2, np.float32)}, {"a": {}}

        def step(self, actions: Any) -> Any:
            self.time += 1
            before, is_over = list(self.agents), self.time == 3
            if self.time == 1 and self.game % 2:
                self.agents = ["a", "b"]
            seen = {agent: np.zeros(2, np.float32) for agent in self.agents}
            rewards = {agent: float(self.game) if is_over else 0.0 for agent in before}
            ended = dict.fromkeys(before, is_over)
            if is_over:
                self.agents = []
            return seen, rewards, ended, dict.fromkeys(before, False), {agent: {} for agent in seen}

    results = results_in(ez.make_vec(Duo, num_envs=1), (), 12)
    assert sorted(results.returns) == [0, 1, 1, 2, 3, 3, 4, 5, 5, 7, 9, 11]
    assert len(set(results.games)) == len(set(results.returns)), "the players of a game have one number"
    assert len(set(zip(results.games, results.returns, strict=True))) == len(set(results.returns))


def test_games_of_past_self_play_have_numbers_of_their_own() -> None:
    lanes = ez.make_vec("MultiSnake/lanes", 4, max_steps=8)
    policy = ez.RogueNet(lanes.single_observation_space, lanes.single_action_space, d_model=8, n_layer=1)
    venv = ez.self_play.past_self_play(lanes, ez.self_play.OpponentPool(policy), latest_share=0.0, seed=0)
    venv.set_progress(0.0)  # as training does, which takes the first snapshot
    results = ez.evaluate(policy, venv, 16)
    assert len(set(results.lanes)) == 4 and len(set(results.games)) == 16, "it plays one lane of each game"


def test_agents_that_take_turns_with_whole_games_share_none() -> None:
    class Alternate(TwoAgents):
        def reset(self, seed: int | None = None, options: Any = None) -> Any:
            self.game = 0 if seed is not None else self.game + 1
            self.agents = [self.possible_agents[self.game % 2]]
            return {agent: np.zeros(2, np.float32) for agent in self.agents}, {self.agents[0]: {}}

        def step(self, actions: Any) -> Any:
            (agent,), self.agents = self.agents, []
            seen, info = {agent: np.zeros(2, np.float32)}, {agent: {"game": self.game}}
            return seen, {agent: 1.0}, {agent: True}, {agent: False}, info

    results = results_in(ez.from_pettingzoo(Alternate()), ["game"], 8)
    assert (results.games == results.infos["game"]).all() and len(set(results.games)) == 8


def test_keys_that_nothing_has() -> None:
    venv = ez.make_vec(Levels, 2)
    with warns(UserWarning, "info_keywords", "'levle'"):
        results = results_in(venv, ["levle", "level"], 4)
    assert "level" in results.infos and "levle" not in results.infos
    with raises(KeyError, "'levle'", "level", "info_keywords"):
        results.split("levle")
    with raises(TypeError, "info_keywords", "'level'"):
        results_in(ez.make_vec(Levels, 2), "level", 4)


def test_values_that_do_not_split() -> None:
    class Boards(Levels):
        def _step(self, actions: Any) -> Any:
            *step, info = super()._step(actions)
            return *step, {**info, "board": np.full(self.level, 7)}

    results = results_in(ez.make_vec(Boards, 2), ["board"], 10)
    assert [len(board) for board in results.infos["board"]] == results.returns.tolist()
    with raises(TypeError, "board", "ndarray"):
        results.split("board")


def test_statistics_of_training_have_the_success_rate() -> None:
    statistics = EpisodeStatistics(2)
    both, nan = np.array([True, True]), math.nan
    statistics.record(np.zeros(2), both)
    assert "charts/success_rate" not in statistics.summary()
    statistics.record(np.zeros(2), both, None, np.array([1, nan]))
    assert statistics.summary()["charts/success_rate"] == 1
    statistics.record(np.zeros(2), np.array([False, True]), None, np.array([nan, 0.5]))
    assert statistics.summary()["charts/success_rate"] == 0.75
    for _ in range(50):
        statistics.record(np.zeros(2), both, None, np.zeros(2))
    assert statistics.summary()["charts/success_rate"] == 0, "of the last hundred"


def trained(folder: Path, steps: int, start: Path | None = None) -> ez.PPO:
    venv = ez.make_vec(Levels, 4)
    policy = ez.RogueNet(
        venv.single_observation_space, venv.single_action_space, d_model=8, n_layer=1, n_head=1
    )
    config = ez.PPOConfig(total_timesteps=416, num_steps=8, minibatch_size=32, checkpoint_interval=208)
    trainer = ez.PPO(policy, venv, config, folder)
    if start is not None:
        trainer.restore(start)
    trainer.train(steps, progress=False)
    return trainer


def test_training_logs_the_success_rate_and_a_resumed_one_goes_on(tmp_path: Path) -> None:
    once = trained(tmp_path / "once", 416)
    state = once.episodes.state()
    returns, successes = state["recent_returns"], state["recent_successes"]
    assert len(returns) > 60 and (np.isnan(successes) == (returns == 5)).all()
    given = returns < 5
    assert (successes[given] == (returns < 3)[given]).all() and len(set(successes[given])) == 2
    lines = (tmp_path / "once" / "metrics.jsonl").read_text().splitlines()
    assert json.loads(lines[-1])["charts/success_rate"] == pytest.approx(successes[given].mean())
    half = trained(tmp_path / "half", 208)
    (checkpoint,) = (tmp_path / "half" / "checkpoints").iterdir()
    again = trained(tmp_path / "again", half.step, checkpoint)
    for name, numbers in half.episodes.state().items():
        np.testing.assert_array_equal(again.episodes.state()[name], numbers, err_msg=name)


def test_a_checkpoint_of_before_has_no_successes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = EpisodeStatistics.state
    with monkeypatch.context() as patch:
        patch.setattr(
            EpisodeStatistics,
            "state",
            lambda self: {k: v for k, v in whole(self).items() if k != "recent_successes"},
        )
        before = trained(tmp_path, 208)
    (checkpoint,) = (tmp_path / "checkpoints").iterdir()
    summary = trained(tmp_path / "again", before.step, checkpoint).episodes.summary()
    expected = before.episodes.summary()
    assert expected.pop("charts/success_rate") > 0
    assert summary == expected
