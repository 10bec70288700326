"""Pictures of experiments: what is drawn, read back from Matplotlib's objects, and PNG files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from entitize.experiments.reports import plots
from entitize.experiments.statistics import Curve, MeanCurve, Profile
from entitize.trainers import Interval
from matplotlib.figure import Figure
from PIL import Image

STEPS = np.array([1_000_000, 2_000_000])
CURVE = MeanCurve(STEPS, np.array([1.0, 2.0]), np.array([0.5, 1.5]), np.array([1.5, 3.0]))
UNSURE = MeanCurve(STEPS, np.array([0.5, 0.7]), np.full(2, np.nan), np.full(2, np.nan))


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures that are saved."""
    figures: list[Figure] = []
    save = plots.save

    def keep(figure: Figure, path: Path) -> None:
        figures.append(figure)
        save(figure, path)

    monkeypatch.setattr(plots, "save", keep)
    return figures


def test_learning_curves(tmp_path: Path, drawn: list[Figure]) -> None:
    panels = {
        "maze": plots.CurvePanel(
            {"RogueNet": CURVE}, {"IMPALA": {1_000_000: 1.2, 5_000_000: 4.0}}, {"random": 0.3}
        ),
        "heist": plots.CurvePanel({"IMPALA": UNSURE}),
        **{f"game {index}": plots.CurvePanel({"RogueNet": UNSURE}) for index in range(3)},
    }
    path = tmp_path / "new" / "curves.png"
    plots.learning_curves(path, panels, "Procgen, easy")
    with Image.open(path) as picture:
        assert picture.format == "PNG"
    (figure,) = drawn
    shown = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.get_title() for axes in shown] == list(panels)
    curve, dots, level = shown[0].get_lines()
    np.testing.assert_array_equal(curve.get_xydata(), [[1e6, 1.0], [2e6, 2.0]])
    np.testing.assert_array_equal(dots.get_xydata(), [[1e6, 1.2], [5e6, 4.0]])
    np.testing.assert_array_equal(level.get_ydata(), [0.3, 0.3])
    (band,) = shown[0].collections
    assert {(1e6, 0.5), (2e6, 3.0)} <= set(map(tuple, band.get_paths()[0].vertices))
    assert dots.get_color() == shown[1].get_lines()[0].get_color() != curve.get_color()
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["RogueNet", "IMPALA", "random"]
    assert [axes.get_xlabel() for axes in shown] == ["", *["environment steps"] * 4]


def test_learning_curves_over_hours_beside_a_line_and_single_runs(
    tmp_path: Path, drawn: list[Figure]
) -> None:
    seconds = MeanCurve(np.array([3600, 9000]), *([np.array([1.0, 2.0])] * 3))
    alone = Curve(np.array([9000, 18000]), np.array([2.0, 5.0]))
    panel = plots.CurvePanel(
        {"ours": seconds},
        points={"theirs": {}},
        levels={"random": 0.5},
        guides={"theirs": {0.0: 0.5, 18000.0: 3.0}},
        tails={"ours": [alone]},
    )
    plots.learning_curves(tmp_path / "hours.png", {"maze": panel}, "", over="hours")
    axes = drawn[0].axes[0]
    mean, single, dots, line, level = axes.get_lines()
    np.testing.assert_array_equal(mean.get_xydata(), [[1, 1], [2.5, 2]])
    np.testing.assert_array_equal(single.get_xydata(), [[2.5, 2], [5, 5]])
    assert len(dots.get_xydata()) == 0
    np.testing.assert_array_equal(line.get_xydata(), [[0, 0.5], [5, 3]])
    assert mean.get_color() == single.get_color() == plots.COLOURS[0]
    assert line.get_color() == dots.get_color() != level.get_color()
    assert {line.get_color(), level.get_color()}.isdisjoint(plots.COLOURS)
    assert axes.get_xlabel() == "hours of training"
    ticks = [text.get_text() for text in axes.get_xticklabels()]
    assert {"0", "1", "2", "3", "4", "5"} <= set(ticks)
    assert [text.get_text() for text in drawn[0].legends[0].get_texts()] == ["ours", "theirs", "random"]


def test_a_curve_of_one_point_is_seen(tmp_path: Path, drawn: list[Figure]) -> None:
    point = MeanCurve(np.array([16384]), *([np.array([1.0])] * 3))
    plots.learning_curves(tmp_path / "point.png", {"maze": plots.CurvePanel({"a": point, "b": CURVE})}, "")
    assert [line.get_marker() for line in drawn[0].axes[0].get_lines()] == [".", "None"]


def test_intervals(tmp_path: Path, drawn: list[Figure]) -> None:
    panels = {
        "IQM": {"RogueNet": Interval(0.6, 0.5, 0.8), "IMPALA": Interval(0.4, np.nan, np.nan)},
        "Mean": {"IMPALA": Interval(0.7, 0.6, 0.75)},
    }
    plots.intervals(tmp_path / "intervals.png", panels, "25 M steps")
    left, right = drawn[0].axes
    assert [label.get_text() for label in left.get_yticklabels()] == ["RogueNet", "IMPALA"]
    assert left.patches[0].get_x() == 0.5
    assert left.patches[0].get_x() + left.patches[0].get_width() == pytest.approx(0.8)
    assert left.get_xlim()[0] < 0.4 and left.get_xlim()[1] > 0.8
    assert [tuple(line.get_xydata()[0]) for line in left.get_lines()] == [(0.6, 0), (0.4, 1)]
    assert [tuple(line.get_xydata()[0]) for line in right.get_lines()] == [(0.7, 1)]


def test_performance_profile(tmp_path: Path, drawn: list[Figure]) -> None:
    limits = np.array([0.0, 0.5])
    profile = Profile(limits, np.array([1.0, 0.25]), np.array([0.75, 0.0]), np.array([1.0, 0.5]))
    plots.performance_profile(tmp_path / "profile.png", {"RogueNet": profile}, "25 M steps", quantity="games")
    (axes,) = drawn[0].axes
    np.testing.assert_array_equal(axes.get_lines()[0].get_xydata(), [[0, 1], [0.5, 0.25]])
    assert {(0.0, 0.75), (0.5, 0.5)} <= set(map(tuple, axes.collections[0].get_paths()[0].vertices))
    assert axes.get_ylabel() == "share of games with a score above τ"
