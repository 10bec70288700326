"""Curves from run folders, on common grids, with intervals over runs."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from entitize.experiments.statistics import (
    RETURN,
    Curve,
    aggregate_curve,
    bootstrap,
    common_bins,
    mean_curve,
    range_curve,
    read_curve,
)
from entitize.trainers import read_metrics

from facts import raises


def curve(*points: tuple[int, float]) -> Curve:
    return Curve(
        np.array([step for step, _ in points], np.int64), np.array([value for _, value in points], float)
    )


LINES = '{"step": 8, "charts/SPS": 1.0}\n' + "".join(
    json.dumps({"step": step, RETURN: value, "charts/SPS": 2.0}) + "\n"
    for step, value in ((16, 1.5), (24, -2.0))
)


class TestRead:
    def test_a_run_folder_its_file_and_its_compressed_file(self, tmp_path: Path) -> None:
        (tmp_path / "metrics.jsonl").write_text(LINES + '{"step": 32, "charts/epis')  # being written
        packed = tmp_path / "packed"
        packed.mkdir()
        (packed / "metrics.jsonl.gz").write_bytes(gzip.compress(LINES.encode()))
        for path in (tmp_path, tmp_path / "metrics.jsonl", packed, packed / "metrics.jsonl.gz"):
            found = read_curve(path)
            assert (found.steps.tolist(), found.values.tolist()) == ([16, 24], [1.5, -2.0])
        assert read_curve(packed, "charts/SPS").steps.tolist() == [8, 16, 24]
        assert read_metrics(packed / "metrics.jsonl.gz") == read_metrics(tmp_path / "metrics.jsonl")

    def test_a_folder_with_both_files(self, tmp_path: Path) -> None:
        (tmp_path / "metrics.jsonl").write_text(LINES)
        (tmp_path / "metrics.jsonl.gz").write_bytes(gzip.compress(LINES.encode()))
        with raises(ValueError, tmp_path, "metrics.jsonl", "metrics.jsonl.gz"):
            read_curve(tmp_path)

    def test_a_run_of_ours(self, trained: Path) -> None:
        found = read_curve(trained, "charts/SPS")
        assert found.steps.tolist() == [16, 32]
        assert (found.values > 0).all()

    def test_what_is_no_run(self, tmp_path: Path) -> None:
        with raises(FileNotFoundError, "metrics.jsonl", "metrics.jsonl.gz", str(tmp_path)):
            read_curve(tmp_path)
        (tmp_path / "metrics.jsonl").write_text(LINES + LINES)
        with raises(ValueError, "metrics.jsonl", "step 24", "step 16"):
            read_curve(tmp_path)


class TestMeanBefore:
    def test_the_window_ends_with_the_step(self) -> None:
        line = curve((100, 1.0), (200, 2.0), (300, 4.0), (400, 8.0))
        assert line.mean_before(300, 200) == 3.0
        assert line.mean_before(399, 100) == 4.0

    def test_there_must_be_values(self) -> None:
        with raises(ValueError, "50 steps", "1,000", 100, 200):
            curve((100, 1.0), (200, 2.0)).mean_before(1000, 50)
        with raises(ValueError, "empty"):
            curve().mean_before(1000, 50)


class TestBins:
    def test_values_of_a_bin_are_averaged(self) -> None:
        steps, values = common_bins(
            [curve((1, 1.0), (10, 3.0), (11, 5.0), (20, 6.0)), curve((4, 7.0), (15, 8.0))], 10
        )
        assert steps.tolist() == [10, 20]
        np.testing.assert_array_equal(values, [[2.0, 5.5], [7.0, 8.0]])

    def test_bins_that_a_curve_has_not_reached_or_has_no_value_in_are_left_out(self) -> None:
        whole = curve(*((step, float(step)) for step in range(1, 41)))
        assert common_bins([whole, curve((5, 0.0), (25, 0.0), (36, 0.0))], 10)[0].tolist() == [10, 30, 40]
        assert common_bins([whole, curve((5, 0.0), (12, 0.0))], 10)[0].tolist() == [10]
        steps, values = common_bins([whole, curve()], 10)
        assert (len(steps), values.shape) == (0, (2, 0))

    @pytest.mark.parametrize("width", [1, 7, 30, 1000])
    def test_they_are_those_of_a_loop(self, width: int) -> None:
        rng = np.random.default_rng(0)
        curves = []
        for _ in range(3):
            own = np.sort(rng.choice(200, 60, replace=False)) + 1
            curves.append(Curve(own, rng.normal(size=60)))
        expected = {}
        for end in range(width, 200 + width, width):
            inside = [(c.steps > end - width) & (c.steps <= end) for c in curves]
            if all(
                own.any() and c.steps[-1] >= end - width / 2 for own, c in zip(inside, curves, strict=True)
            ):
                expected[end] = [c.values[own].mean() for own, c in zip(inside, curves, strict=True)]
        steps, values = common_bins(curves, width)
        assert steps.tolist() == list(expected)
        np.testing.assert_allclose(values, np.reshape(list(expected.values()), (-1, 3)).T)

    def test_wrong_input(self) -> None:
        with raises(ValueError, "curves"):
            common_bins([], 10)
        with raises(ValueError, "width", "positive", 0):
            common_bins([curve((1, 1.0))], 0)


class TestAggregates:
    def test_the_range_over_runs(self) -> None:
        found = range_curve([curve((5, value), (15, 2 * value)) for value in (1.0, 2.0, 6.0)], 10)
        assert (found.low.tolist(), found.mean.tolist(), found.high.tolist()) == ([1, 2], [3, 6], [6, 12])

    def test_the_mean_over_runs(self) -> None:
        runs = [curve((5, value), (15, 2 * value)) for value in (1.0, 2.0, 6.0)]
        found = mean_curve(runs, 10)
        assert (found.steps.tolist(), found.mean.tolist()) == ([10, 20], [3.0, 6.0])
        interval = bootstrap([[1.0], [2.0], [6.0]], "mean", resamples=2000)
        assert (found.low[0], found.high[0]) == (interval.low, interval.high)
        np.testing.assert_allclose([found.low[1], found.high[1]], [2 * found.low[0], 2 * found.high[0]])

    def test_one_run_has_no_interval_and_no_step_no_points(self) -> None:
        found = mean_curve([curve((5, 1.0))], 10)
        assert found.mean.tolist() == [1.0]
        assert np.isnan([found.low, found.high]).all()
        assert len(mean_curve([curve(), curve((5, 1.0))], 10).mean) == 0

    def test_a_metric_over_tasks(self) -> None:
        tasks = {
            "a": [curve((5, 0.0), (15, 0.5)), curve((6, 0.2), (16, 0.7))],
            "b": [curve((5, 1.0), (15, 2.0))],
        }
        found = aggregate_curve(tasks, 10, "optimality_gap", resamples=100, least_runs=1)
        np.testing.assert_allclose(found.mean, [0.45, 0.2])
        at_end = bootstrap({"a": [0.5, 0.7], "b": [2.0]}, "optimality_gap", resamples=100, least_runs=1)
        assert (found.low[1], found.high[1]) == (at_end.low, at_end.high)
