"""Games of μRTS for evaluations: which are played, how they are counted, and what they come to."""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
from dataclasses import asdict
from pathlib import Path
from typing import Any

import entitize as ez
import numpy as np
import pytest
from entitize.envs import EntityBatch, sample_actions
from entitize.experiments import RANDOM, UserError
from entitize.experiments.microrts import (
    Duel,
    MatchJob,
    MatchPlayer,
    MatchSettings,
    PlayedMatches,
    mean_rate_interval,
    num_distinct,
    plan_jobs,
    play_games,
    play_jobs,
    report,
    score_all,
)
from entitize.trainers import bootstrap_interval, wilson_interval
from rich.console import Console

from facts import mentions, raises

BOARD = "basesWorkers8x8"
SETTINGS = MatchSettings({}, {"max_steps": 40}, seed=7)


def without_time(played: PlayedMatches) -> dict[str, Any]:
    return {name: value for name, value in asdict(played).items() if name != "seconds"}


# -- which games ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("games", [1, 2, 7, 100])
def test_every_game_is_planned_once(games: int) -> None:
    sides = (0, 1) if games > 1 else (1,)
    jobs = plan_jobs(["a", RANDOM], [BOARD, "m"], ["coacAI", "tiamat"], sides, games)
    for agent in ("a", RANDOM):
        for board in (BOARD, "m"):
            for bot, most in (("coacAI", 20), ("tiamat", 2)):
                mine = [job for job in jobs if (job.agent, job.map, job.bot) == (agent, board, bot)]
                numbers = [(j.side, n) for j in mine for n in range(j.first, j.first + j.games)]
                assert len(set(numbers)) == len(numbers) == games
                counts = [sum(side == s for side, _ in numbers) for s in sides]
                assert max(counts) - min(counts) <= 1
                assert all(1 <= job.lanes <= job.games <= most for job in mine)
    assert len({job.seed(0) for job in jobs if job.agent == "a"}) == len(jobs) / 2


def test_agents_meet_the_same_dice() -> None:
    ours, random = plan_jobs(["a", RANDOM], [BOARD], ["coacAI"], [0], 1)
    assert ours.seed(3) == random.seed(3) != ours.seed(4)


# -- playing them --------------------------------------------------------------------------------------------


class Dice:
    """Stands in for a vector environment: games of 1 or 9 steps; the longer ones are won."""

    num_envs = 4

    def reset(self, seed: int) -> Any:
        self._rng = np.random.default_rng(seed)
        self._length, self._left = np.zeros(4, int), np.zeros(4, int)
        self._draw(np.arange(4))
        return "batch", {}

    def _draw(self, lanes: Any) -> None:
        self._length[lanes] = self._left[lanes] = np.where(self._rng.random(len(lanes)) < 0.5, 1, 9)

    def step(self, actions: Any) -> Any:
        self._left -= 1
        ended = self._left == 0
        info = {"raw_rewards": np.ones((4, 6)) * [0, 1, 2, 3, 4, 5]}
        if ended.any():
            words = np.where(self._length == 9, "win", "draw").astype(object)
            info["outcome"] = np.where(ended, words, None)
            info["bot_error"] = np.where(ended & (self._length == 1), "the bot raised", None)
            self._draw(np.flatnonzero(ended))
        return "batch", None, ended, np.zeros(4, bool), info


class Still:
    """An agent that gives no orders."""

    def act(self, batch: Any, rng: Any, deterministic: bool = False) -> Any:
        return type("Nothing", (), {"actions": {}})


def test_short_games_are_not_favoured_and_each_is_told_whole() -> None:
    venv: Any = Dice()
    games = play_games(Still(), venv, np.arange(4), 2002, False, 1)
    assert len(games) == 2002
    wins = sum(game.outcome == "win" for game in games)
    assert abs(wins - 1001) < 4 * 22.4  # standard deviations
    for game in games:
        assert game.steps == (9 if game.outcome == "win" else 1)
        assert game.rewards == [game.steps * number for number in range(6)]
        assert game.failure == (None if game.outcome == "win" else "the bot raised")


@pytest.mark.parametrize("side", [0, 1])
def test_games_are_those_that_a_plain_loop_plays(side: int) -> None:
    job = MatchJob(RANDOM, BOARD, "workerRushAI", side, 0, 12)
    settings = MatchSettings({}, {"max_steps": 250}, seed=7)
    played = MatchPlayer(settings).play(job)
    seed = job.seed(7)
    rng, found = np.random.default_rng(seed), {lane: [] for lane in range(10)}
    with ez.make_vec(f"MicroRTS/{BOARD}", 10, opponents=job.bot, side=side, max_steps=250) as venv:
        batch, _ = venv.reset(seed=seed)
        started, sums = [0] * 10, np.zeros((10, 6))
        for step in range(1, 501):
            actions = sample_actions(venv.single_action_space, batch, rng)
            batch, _, terminated, truncated, info = venv.step(actions)
            sums += info["raw_rewards"]
            for lane in range(10):
                if terminated[lane] or truncated[lane]:
                    found[lane].append((info["outcome"][lane], step - started[lane], sums[lane].tolist()))
                    started[lane], sums[lane] = step, 0
    expected = found[0][:2] + found[1][:2] + [found[lane][0] for lane in range(2, 10)]
    assert list(zip(played.outcomes, played.steps, played.rewards, strict=True)) == expected
    assert {"loss"} <= set(played.outcomes)


def test_two_agents_play_each_other_on_their_own_lanes() -> None:
    with ez.make_vec(f"MicroRTS/{BOARD}", 6, selfplay=6) as venv:
        batch, _ = venv.reset(seed=0)
        own = np.array([1, 3, 5])
        actor = ez.evaluation.RandomActor(venv.single_action_space)

        class Waiting:
            def act(self, part: EntityBatch, rng: Any, deterministic: bool = False) -> Any:
                assert len(part) == 3
                result = actor.act(part, rng)
                result.actions["order"].values[:] = 0
                return result

        orders = Duel(actor, Waiting(), own, 6).act(batch, np.random.default_rng(3)).actions["order"]
        assert [len(order) for order in orders] == [2] * 6  # a worker and a base
        assert all((orders[lane] == 0).all() for lane in (0, 2, 4))
        assert any((orders[lane] != 0).any() for lane in own)
        venv.step({"order": orders})


# -- in worker processes -------------------------------------------------------------------------------------


def test_a_worker_that_dies_is_told_by_its_job_and_what_was_finished_stays() -> None:
    quick, endless = (
        MatchJob(RANDOM, BOARD, "passiveAI", 1, 0, 2),
        MatchJob(RANDOM, BOARD, "passiveAI", 0, 0, 20),
    )
    finished: list[PlayedMatches] = []

    def kill(played: PlayedMatches) -> None:
        finished.append(played)
        (worker,) = multiprocessing.active_children()
        os.kill(worker.pid or 0, signal.SIGKILL)

    with pytest.raises(UserError) as caught:
        play_jobs([quick, endless], SETTINGS, 1, kill)
    sentence = f"{RANDOM} against passiveAI on {BOARD}, side 0, games 0–19: its worker died (exit code -9)"
    assert str(caught.value).startswith(sentence)
    assert [without_time(played) for played in finished] == [without_time(MatchPlayer(SETTINGS).play(quick))]
    assert not multiprocessing.active_children()


def test_a_job_that_cannot_be_played_is_told(tmp_path: Path) -> None:
    settings = MatchSettings({"mine": tmp_path}, {"max_steps": 40})
    with raises(UserError, "checkpoint.json"):
        play_jobs([MatchJob("mine", BOARD, "passiveAI", 0, 0, 1)], settings, 0, lambda played: None)


# -- what they come to ---------------------------------------------------------------------------------------


def games_of(bot: str, side: int, outcomes: str, reward: float) -> PlayedMatches:
    words = [{"w": "win", "t": "draw", "l": "loss"}[letter] for letter in outcomes]
    rewards = [[float(word == "win") - (word == "loss"), reward, 0, 0, 0, n] for n, word in enumerate(words)]
    return PlayedMatches(
        MatchJob("a", BOARD, bot, side, 0, len(words)), words, [10] * len(words), rewards, ["x"], 2.0
    )


def test_scores_are_those_of_a_count_by_hand() -> None:
    played = [games_of("b", 0, "wwtl", 3), games_of("c", 0, "ll", 0), games_of("b", 1, "www", 1)]
    only_wins = np.array([1.0, 0, 0, 0, 0, 0])
    scores = {(score.bot, score.side): score for score in score_all(played, only_wins)}
    assert list(scores) == [
        *(("b", "both"), ("b", "0"), ("b", "1")),
        *(("c", "both"), ("c", "0")),
        ("all", "both"),
    ]
    both = scores["b", "both"]
    assert (both.games, both.bot_failures, both.seconds, both.steps) == (7, 2, 4.0, 10)
    assert (both.wins, both.ties, both.losses) == tuple(wilson_interval(count, 7) for count in (5, 1, 1))
    # 10 for a win, -10 for a loss, what was gathered, and 4 for each combat unit
    returns = [10 + 3, 10 + 3 + 4, 3 + 8, -10 + 3 + 12, 10 + 1, 10 + 1 + 4, 10 + 1 + 8]
    assert both.shaped_return == bootstrap_interval(returns, resamples=2000)
    assert both.own_return == bootstrap_interval([1, 1, 0, -1, 1, 1, 1], resamples=2000)
    assert both.rates == both.rates.__class__(71.4, 14.3, 14.3)
    everything = scores["all", "both"]  # each bot counts equally: c lost all of its two games
    assert (everything.games, everything.outcomes) == (9, (5, 1, 3))
    assert everything.wins.mean == pytest.approx((5 / 7 + 0) / 2)
    assert everything.losses.mean == pytest.approx((1 / 7 + 1) / 2)
    assert everything.shaped_return.mean == pytest.approx((np.mean(returns) + (-10 - 10 + 4) / 2) / 2)
    equal = 4 / (1 / 7 + 1 / 2)  # games with the variance of the mean of two equal rates
    assert everything.wins == wilson_interval(5 / 14 * equal, equal)
    fair = score_all([games_of("b", 0, "wwl", 1), games_of("c", 0, "lll", 0)])[-1]
    assert fair.wins == wilson_interval(2, 6)
    assert scores["b", "1"].shaped_return.mean == pytest.approx(15)
    assert score_all(played)[0].own_return is None
    assert ez.microrts.weights_array(None).tolist() == [10, 1, 1, 0.2, 1, 4]


def test_an_interval_of_games_that_were_all_won_or_lost_has_a_width() -> None:
    won = score_all([games_of("b", 0, "www", 1), games_of("c", 0, "wwww", 1)])[-1]
    few, more = wilson_interval(3, 3), wilson_interval(4, 4)
    low = 1 - np.hypot(1 - few.low, 1 - more.low) / 2
    assert (won.wins.mean, won.wins.high, won.losses.mean, won.losses.low) == (1, 1, 0, 0)
    assert won.wins.low == pytest.approx(low) == pytest.approx(0.63, abs=0.005)
    assert won.losses.high == pytest.approx(1 - low)
    assert wilson_interval(6, 6).low < low < wilson_interval(8, 8).low


@pytest.mark.parametrize("games", [(5, 8), (10, 20, 100), (20,) * 7 + (14,), (10,) * 6 + (100,) * 8])
@pytest.mark.parametrize("rate", [0.5, 0.8, 0.9, 0.95, 0.98, "up", "down", "one"])
def test_intervals_of_mean_rates_cover_the_truth(games: tuple[int, ...], rate: float | str) -> None:
    mixed = {
        "up": np.linspace(0.5, 0.98, len(games)),
        "down": np.linspace(0.98, 0.5, len(games)),
        "one": [0.5] + [1.0] * (len(games) - 1),
    }
    rates = np.array(mixed[rate] if isinstance(rate, str) else [rate] * len(games))
    rng, covered = np.random.default_rng(5), 0
    for won in rng.binomial(games, rates, (1000, len(games))).tolist():
        interval = mean_rate_interval(won, games)
        assert 0 <= interval.low <= interval.mean <= interval.high <= 1
        covered += interval.low <= rates.mean() <= interval.high
    assert covered >= 925  # 950, less some standard deviations of 7


def test_the_mean_length_counts_every_bot_equally() -> None:
    def games(bot: str, steps: list[int]) -> PlayedMatches:
        rewards = [[1.0, 0, 0, 0, 0, 0]] * len(steps)
        return PlayedMatches(
            MatchJob("a", "m", bot, 0, 0, len(steps)), ["win"] * len(steps), steps, rewards, [], 1.0
        )

    scores = {score.bot: score.steps for score in score_all([games("b", [10, 20, 30]), games("c", [100])])}
    assert scores == {"b": 20, "c": 100, "all": 60}


def test_games_that_repeat_others_are_told(tmp_path: Path) -> None:
    same = PlayedMatches(
        MatchJob("a", BOARD, "b", 0, 0, 4), ["win"] * 4, [10] * 4, [[1.0, 0, 0, 0, 0, 2]] * 4, [], 1.0
    )
    longer = PlayedMatches(
        MatchJob("a", BOARD, "b", 0, 4, 2), ["win"] * 2, [10, 11], [[1.0, 0, 0, 0, 0, 2]] * 2, [], 1.0
    )
    others = games_of("c", 1, "wtl", 0)
    assert num_distinct([same]) == 1
    assert num_distinct([same, longer]) == 2
    assert num_distinct([same, longer, others]) == 5
    for played, is_told in (([same, longer], True), ([same, others], False)):
        report(tmp_path, score_all(played), {}, played, Console(quiet=True))
        lines = (tmp_path / "table.md").read_text().splitlines()
        told = [line for line in lines if "differ in length or rewards" in line]
        assert len(told) == is_told
        assert all(re.search(mentions(6, 2), line) for line in told)
