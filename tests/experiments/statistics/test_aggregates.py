"""Metrics and intervals against values by hand, plain Python, SciPy, and the enumeration of all resamples."""

from __future__ import annotations

import itertools
import math
import statistics
from fractions import Fraction

import numpy as np
import pytest
import scipy.stats
from entitize.experiments.statistics import (
    METRICS,
    Metric,
    aggregate,
    bootstrap,
    improvements,
    metric_of,
    performance_profiles,
    probability_of_improvement,
)
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import ArrayLike

from facts import raises

Ragged = dict[str, list[float]]

#: Quarters are exact, and tie often.
score = st.integers(-4, 8).map(lambda quarters: quarters / 4)
ragged = st.lists(st.lists(score, min_size=1, max_size=5), min_size=1, max_size=5).map(
    lambda tasks: {f"game {i}": scores for i, scores in enumerate(tasks)}
)


def slow_iqm(scores: Ragged) -> float:
    """By copies: of each score as many as make tasks equally heavy and the cut a whole number."""
    num_scores = sum(map(len, scores.values()))
    common = math.lcm(*map(len, scores.values()))
    copies = sorted(
        Fraction(value)
        for values in scores.values()
        for value in values
        for _ in range(num_scores * common // len(values))
    )
    cut = num_scores // 4 * common * len(scores)
    kept = copies[cut : len(copies) - cut]
    return float(sum(kept) / len(kept))


def slow_mean(scores: Ragged) -> float:
    return statistics.fmean(map(statistics.fmean, scores.values()))


def slow_median(scores: Ragged) -> float:
    return statistics.median(map(statistics.fmean, scores.values()))


def slow_gap(scores: Ragged, gamma: float = 1.0) -> float:
    return statistics.fmean(
        statistics.fmean(gamma - min(value, gamma) for value in values) for values in scores.values()
    )


def slow_improvement(scores: Ragged, other: Ragged) -> float:
    wins = []
    for task, values in scores.items():
        pairs = list(itertools.product(values, other[task]))
        wins.append(statistics.fmean(1.0 if x > y else 0.5 if x == y else 0.0 for x, y in pairs))
    return statistics.fmean(wins)


SLOW = {"median": slow_median, "iqm": slow_iqm, "mean": slow_mean, "optimality_gap": slow_gap}


def all_resamples(scores: Ragged) -> list[Ragged]:
    draws = [list(itertools.product(values, repeat=len(values))) for values in scores.values()]
    return [dict(zip(scores, map(list, drawn), strict=True)) for drawn in itertools.product(*draws)]


def assert_percentile(bound: float, share: float, exact: ArrayLike) -> None:
    """`bound` is a quantile of the exact distribution for a share close to the one asked for."""
    values = np.asarray(exact)
    assert np.mean(values < bound - 1e-9) - 0.02 <= share <= np.mean(values <= bound + 1e-9) + 0.02


class TestByHand:
    def test_interquartile_mean(self) -> None:
        # Eight scores: two are dropped at each end, wherever they come from.
        scores = [[0.0, 100.0], [1.0, 2.0], [3.0, 4.0], [5.0, -90.0]]
        assert metric_of(scores, "iqm") == (1 + 2 + 3 + 4) / 4

    def test_interquartile_mean_of_a_number_of_scores_that_four_does_not_divide(self) -> None:
        assert metric_of([[9.0], [0.0], [1.0], [2.0], [5.0]], "iqm") == pytest.approx((1 + 2 + 5) / 3)
        assert metric_of([[9.0], [0.0], [6.0]], "iqm") == pytest.approx(5.0)

    def test_interquartile_mean_weighs_tasks_alike(self) -> None:
        # Five scores, so a fifth of the weight is dropped at each end. Task a's weigh 1/8 each: all of 0
        # and 0.075 of 1 go; that of b weighs 1/2, of which 0.2 goes.
        scores = {"a": [0.0, 1.0, 2.0, 3.0], "b": [10.0]}
        kept = 0.05 * 1 + 0.125 * 2 + 0.125 * 3 + 0.3 * 10
        assert metric_of(scores, "iqm") == pytest.approx(kept / 0.6)

    def test_optimality_gap(self) -> None:
        assert metric_of([[0.5, 2.0], [0.0, 1.0]], "optimality_gap") == (0.5 + 0 + 1 + 0) / 4
        assert metric_of({"a": [0.5, 0.0, 0.1], "b": [2.0]}, "optimality_gap") == pytest.approx((0.8 + 0) / 2)
        assert metric_of([[0.5, 2.0], [0.0, 1.0]], "optimality_gap", gamma=2.0) == (1.5 + 0 + 2 + 1) / 4

    def test_mean_and_median_are_of_the_means_of_tasks(self) -> None:
        scores = {"a": [0.0, 1.0, 2.0], "b": [5.0], "c": [1.0, 3.0]}
        assert (metric_of(scores, "mean"), metric_of(scores, "median")) == (pytest.approx(8 / 3), 2.0)

    def test_probability_of_improvement(self) -> None:
        ours, theirs = {"a": [1.0, 3.0], "b": [0.0]}, {"a": [2.0, 3.0, 0.0], "b": [1.0]}
        # a: 1 beats 0; 3 beats 2 and 0 and ties with 3: 3.5 of 6. b: none.
        assert probability_of_improvement(ours, theirs) == pytest.approx(3.5 / 6 / 2)

    def test_profiles(self) -> None:
        scores = {"x": {"a": [0.0, 0.5, 1.0], "b": [0.75]}}
        runs = performance_profiles(scores, [-1.0, 0.0, 0.5, 0.8, 1.0])["x"]
        np.testing.assert_allclose(runs.share, [1, (2 / 3 + 1) / 2, (1 / 3 + 1) / 2, 1 / 6, 0])
        averages = performance_profiles(scores, [0.4, 0.5, 0.7, 0.75], "averages")["x"]
        np.testing.assert_array_equal(averages.share, [1, 0.5, 0.5, 0])


class TestAgainstPlainPython:
    @given(ragged)
    def test_metrics(self, scores: Ragged) -> None:
        assert metric_of(scores, "iqm") == pytest.approx(slow_iqm(scores), abs=1e-12)
        assert metric_of(scores, "mean") == pytest.approx(slow_mean(scores), abs=1e-12)
        assert metric_of(scores, "median") == pytest.approx(slow_median(scores), abs=1e-12)
        assert metric_of(scores, "optimality_gap", 0.6) == pytest.approx(slow_gap(scores, 0.6), abs=1e-12)

    @given(ragged, st.data())
    def test_probability_of_improvement(self, scores: Ragged, data: st.DataObject) -> None:
        other = {task: data.draw(st.lists(score, min_size=1, max_size=4)) for task in reversed(scores)}
        probability = probability_of_improvement(scores, other)
        assert probability == pytest.approx(slow_improvement(scores, other))
        assert probability_of_improvement(other, scores) == pytest.approx(1 - probability)

    @given(ragged, st.lists(score, min_size=1, max_size=4))
    def test_profiles(self, scores: Ragged, thresholds: list[float]) -> None:
        runs = performance_profiles({"x": scores}, thresholds, resamples=2)["x"]
        for threshold, share in zip(thresholds, runs.share, strict=True):
            above = [statistics.fmean(value > threshold for value in values) for values in scores.values()]
            assert share == pytest.approx(statistics.fmean(above))

    @pytest.mark.parametrize("metric", METRICS)
    def test_bounds_are_the_percentiles_of_all_resamples(self, metric: Metric) -> None:
        scores = {"a": [0.1, 0.5, 0.35], "b": [0.9, 1.2], "c": [0.4]}
        exact = [SLOW[metric](drawn) for drawn in all_resamples(scores)]
        assert len(exact) == 27 * 4
        interval = bootstrap(scores, metric, level=0.8, resamples=4000, least_runs=1)
        assert interval.mean == pytest.approx(SLOW[metric](scores))
        assert_percentile(interval.low, 0.1, exact)
        assert_percentile(interval.high, 0.9, exact)

    def test_bounds_of_improvement_and_profiles_are_those_of_all_resamples(self) -> None:
        ours, theirs = {"a": [0.1, 0.5], "b": [0.9, 1.2]}, {"b": [1.0], "a": [0.3, 0.5]}
        exact = [
            slow_improvement(x, y) for x, y in itertools.product(all_resamples(ours), all_resamples(theirs))
        ]
        interval = improvements({"ours": ours, "theirs": theirs}, level=0.7, least_runs=1)["ours", "theirs"]
        assert interval.mean == pytest.approx(slow_improvement(ours, theirs))
        assert_percentile(interval.low, 0.15, exact)
        assert_percentile(interval.high, 0.85, exact)
        options = {"level": 0.7, "least_runs": 1}
        profile = performance_profiles({"ours": ours}, [0.3, 1.0], "averages", **options)["ours"]
        above = np.array(
            [
                [np.mean([np.mean(own) > limit for own in drawn.values()]) for limit in (0.3, 1.0)]
                for drawn in all_resamples(ours)
            ]
        )
        for column in range(2):
            assert_percentile(profile.low[column], 0.15, above[:, column])
            assert_percentile(profile.high[column], 0.85, above[:, column])


class TestAgainstScipy:
    @pytest.mark.parametrize("shape", [(1, 1), (3, 3), (3, 16), (7, 5)])
    def test_interquartile_mean_is_the_trimmed_mean(self, shape: tuple[int, int]) -> None:
        scores = np.random.default_rng(1).normal(size=shape)
        assert metric_of(scores, "iqm") == pytest.approx(scipy.stats.trim_mean(scores, 0.25, axis=None))

    def test_probability_of_improvement_is_the_statistic_of_mann_and_whitney(self) -> None:
        rng = np.random.default_rng(2)
        ours, theirs = rng.integers(0, 6, (5, 4)), rng.integers(0, 6, (7, 4))
        statistic = scipy.stats.mannwhitneyu(ours, theirs, method="asymptotic").statistic
        assert probability_of_improvement(ours, theirs) == pytest.approx(np.mean(statistic / 35))


class TestIntervals:
    scores = np.random.default_rng(3).normal(0.5, 0.2, (4, 6))

    def test_a_seed_says_what_is_drawn(self) -> None:
        first, again, other = (bootstrap(self.scores, resamples=1500, seed=seed) for seed in (4, 4, 5))
        assert first == again
        assert (first.low, first.high) != (other.low, other.high)
        assert first.mean == other.mean

    def test_an_algorithm_has_the_same_interval_whoever_is_beside_it(self) -> None:
        both = aggregate({"other": self.scores[:3] + 1, "this": self.scores}, ["iqm", "mean"], resamples=200)
        assert both["iqm"]["this"] == bootstrap(self.scores, "iqm", resamples=200)
        assert (
            both["mean"]
            == aggregate({"this": self.scores, "other": self.scores[:3] + 1}, ["mean"], resamples=200)["mean"]
        )

    def test_tasks_are_not_drawn(self) -> None:
        """Runs agree and tasks differ: nothing is uncertain."""
        interval = bootstrap(np.tile([0.0, 1.0, 5.0], (4, 1)), "mean", resamples=200)
        assert (interval.low, interval.high) == pytest.approx((2.0, 2.0))

    def test_fewer_than_three_runs_of_a_task_have_no_interval(self) -> None:
        scores = {"many": [0.1, 0.2, 0.3, 0.4], "few": [0.1, 0.3]}
        assert math.isnan(bootstrap(scores, "mean", resamples=100).low)
        assert bootstrap(scores, "mean", resamples=100, least_runs=2).low < 0.22
        enough = {**scores, "few": [0.1, 0.3, 0.2]}
        assert bootstrap(enough, "mean", resamples=100).low < 0.22
        assert math.isnan(improvements({"x": scores, "y": enough}, resamples=10)["x", "y"].high)

    def test_single_runs_have_no_interval(self) -> None:
        interval = bootstrap([[0.2, 0.4]], "mean")
        assert interval.mean == pytest.approx(0.3)
        assert math.isnan(interval.low) and math.isnan(interval.high)
        profile = performance_profiles({"x": [[0.2, 0.4]]}, [0.3])["x"]
        assert profile.share == 0.5
        assert np.isnan([profile.low, profile.high]).all()
        assert math.isnan(improvements({"x": [[1.0]], "y": [[0.0]]})["x", "y"].low)

    def test_they_cover_the_truth_about_as_often_as_they_say(self) -> None:
        rng = np.random.default_rng(6)
        truth = np.linspace(0, 1, 5)
        covered = 0
        for _ in range(200):
            interval = bootstrap(truth + rng.normal(0, 0.3, (10, 5)), "mean", resamples=300)
            covered += interval.low <= truth.mean() <= interval.high
        assert 0.85 <= covered / 200 <= 0.99  # of a bootstrap with 10 runs a bit less than 0.95

    def test_pairs_are_each_algorithm_and_those_after_it(self) -> None:
        three = {"a": self.scores, "b": self.scores + 0.1, "c": self.scores - 9}
        found = improvements(three, resamples=100)
        assert list(found) == [("a", "b"), ("a", "c"), ("b", "c")]
        assert (found["a", "c"].low, found["a", "c"].mean, found["a", "c"].high) == pytest.approx((1, 1, 1))
        assert list(improvements(three, [("c", "a")], resamples=100)) == [("c", "a")]


class TestWrongInput:
    @pytest.mark.parametrize(
        ("scores", "facts"),
        [
            ([1.0, 2.0], ("scores", "(runs, tasks)", "(2,)")),
            ({}, ("scores", "no tasks")),
            ({"maze": [1.0], "heist": []}, ("scores: heist", "finite", "(0,)")),
            (
                {"maze": [1.0, math.nan]},
                ("scores: maze", "finite", "(2,)", "nan"),
            ),
            (np.ones((0, 2)), ("scores: task 0", "finite")),
        ],
    )
    def test_scores(self, scores: object, facts: tuple[object, ...]) -> None:
        with raises(ValueError, *facts):
            metric_of(scores, "iqm")  # type: ignore[arg-type]

    def test_the_algorithm_is_named(self) -> None:
        with raises(ValueError, "IMPALA: maze", "finite", "inf"):
            aggregate({"RogueNet": {"maze": [1.0]}, "IMPALA": {"maze": [math.inf]}})

    def test_options(self) -> None:
        with raises(ValueError, "level", 0, 1, 95):
            bootstrap([[1.0]], level=95)
        with raises(ValueError, "resamples", 0):
            improvements({"a": [[1.0]]}, resamples=0)
        with raises(ValueError, "'IQM'", "'median', 'iqm', 'mean', 'optimality_gap'"):
            bootstrap([[1.0]], "IQM")  # type: ignore[arg-type]
        with raises(ValueError, "'runs'", "'averages'", "'tasks'"):
            performance_profiles({"a": [[1.0]]}, [0.5], "tasks")  # type: ignore[arg-type]
        with raises(ValueError, "thresholds", "finite", "()"):
            performance_profiles({"a": [[1.0]]}, 0.5)

    def test_different_tasks(self) -> None:
        with raises(ValueError, "a and b", "tasks", "heist, maze"):
            improvements({"a": {"maze": [1.0], "ninja": [1.0]}, "b": {"heist": [1.0], "ninja": [1.0]}})
        with raises(ValueError, "task 1"):
            probability_of_improvement([[1.0, 2.0]], [[1.0]])


def test_a_misspelt_option_is_refused() -> None:
    with raises(TypeError, "'resample'", "resamples"):
        bootstrap({"a": [1.0, 2.0, 3.0]}, "mean", resample=100)  # type: ignore[call-arg]
