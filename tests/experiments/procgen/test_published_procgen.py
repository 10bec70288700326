"""The published numbers of Procgen agree with each other, and normalize returns."""

from __future__ import annotations

import numpy as np
import pytest
from entitize.adapters.procgen import GAMES
from entitize.experiments.procgen import (
    IMPALA_MEAN_NORMALIZED,
    IMPALA_STEPS,
    PROGRAM_EASY_RANGES,
    PUBLISHED_PROCGEN,
    RANGES,
    Reference,
    impala_return,
    normalize,
)

from facts import raises


def test_they_are_about_the_sixteen_games() -> None:
    assert set(PUBLISHED_PROCGEN) == set(RANGES["easy"]) == set(RANGES["hard"]) == set(GAMES)
    assert set(PROGRAM_EASY_RANGES) < set(GAMES)
    assert all(tuple(game.impala) == IMPALA_STEPS for game in PUBLISHED_PROCGEN.values())


@pytest.mark.parametrize("step", IMPALA_MEAN_NORMALIZED)
def test_the_games_make_the_published_mean(step: int) -> None:
    mean = np.mean([normalize(name, game.impala[step]) for name, game in PUBLISHED_PROCGEN.items()])
    assert mean == pytest.approx(IMPALA_MEAN_NORMALIZED[step], abs=0.003)  # returns are rounded to 0.1


def test_returns_between_published_points_are_interpolated() -> None:
    assert impala_return("bigfish", 5_000_000) == Reference(8.6, False)
    half = impala_return("bigfish", 7_500_000)  # between 8.6 and 12.4
    assert half is not None and half.is_interpolated and half.value == pytest.approx(10.5)
    early = impala_return("bigfish", 250_000)  # a quarter of the way from the random policy's 0.9 to 1.4
    assert early is not None and early.is_interpolated and early.value == pytest.approx(1.025)
    assert impala_return("bigfish", 50_000_001) is None
    with raises(ValueError, "'pong'", "bigfish, bossfight"):
        impala_return("pong", 1)


@pytest.mark.parametrize("step", IMPALA_STEPS[1:-1])
def test_lines_past_a_point_are_on_average_too_low(step: int) -> None:
    place = IMPALA_STEPS.index(step)
    ends = [IMPALA_STEPS[place - 1], IMPALA_STEPS[place + 1]]
    too_low = []
    for name, game in PUBLISHED_PROCGEN.items():
        line = np.interp(step, ends, [game.impala[end] for end in ends])
        too_low.append(normalize(name, game.impala[step]) - normalize(name, line))
    assert np.mean(too_low) > 0.01


def test_impala_learns_and_experts_are_no_worse_than_random() -> None:
    for game in PUBLISHED_PROCGEN.values():
        assert game.random < game.impala[25_000_000] < 1.1 * game.impala[50_000_000]
        assert min(game.expert, game.dataset_expert) > game.random


def test_ranges_map_to_zero_and_one() -> None:
    np.testing.assert_allclose(normalize("fruitbot", [[-1.5, 32.4], [15.45, 49.35]]), [[0, 1], [0.5, 1.5]])
    np.testing.assert_allclose(normalize("fruitbot", [-0.5, 27.2], "hard"), [0, 1])
    assert all(low < high for ranges in RANGES.values() for low, high in ranges.values())


def test_what_has_no_range() -> None:
    with raises(ValueError, "'pong'", "bigfish, bossfight"):
        normalize("pong", 1.0)
    with raises(ValueError, "easy, hard", "'extreme'"):
        normalize("maze", 1.0, "extreme")  # type: ignore[arg-type]
