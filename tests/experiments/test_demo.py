from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from entitize.experiments import (
    TrainConfig,
    UserError,
    find_config,
    make_environments,
    make_policy,
    read_config,
    read_run_config,
)
from entitize.trainers import Interval
from PIL import Image
from rich.console import Console

from demo import clear, learning_curve, main, run_demo, shortened
from facts import raises


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of a quick demo, and what it printed."""
    out = tmp_path_factory.mktemp("demo") / "run"
    text = io.StringIO()
    config = shortened(read_config(TrainConfig, find_config("demo")))
    run_demo(config, out, max_frames=6, console=Console(file=text, width=100))
    return out, text.getvalue()


def test_the_demo_ends_with_a_table_of_random_before_and_after(quick: tuple[Path, str]) -> None:
    out, text = quick
    rows = {row[1].strip(): row for row in (line.split("│") for line in text.splitlines()) if len(row) == 7}
    assert list(rows) == ["random policy", "before", "after"]
    for row in rows.values():
        low, high = map(float, row[3].split("…"))
        assert low <= float(row[2]) <= high
        assert int(row[4]) == 4
    assert "which training did not see" in text
    assert (out / "results.txt").read_text() in text


def test_the_demo_leaves_curve_and_videos(quick: tuple[Path, str]) -> None:
    out, _ = quick
    with Image.open(out / "learning-curve.png") as picture:
        assert picture.size[0] > 600
    with Image.open(out / "play.gif") as video:
        assert video.n_frames == 3
    assert (out / "play.mp4").stat().st_size > 1000


def test_the_demo_is_a_run_like_any_other(quick: tuple[Path, str]) -> None:
    out, _ = quick
    config = read_run_config(out)
    assert config.env.id.startswith("Procgen/")
    assert config.max_minutes is not None
    assert len(list((out / "checkpoints").iterdir())) == 1


def test_the_network_before_training_is_the_one_that_is_trained() -> None:
    config = read_config(TrainConfig, find_config("mine_sweeper"))
    with make_environments(config.env) as venv:
        first, second = (make_policy(config, venv).state_dict() for _ in range(2))
    assert all(np.array_equal(first[name], second[name]) for name in first)


def test_a_former_demo_makes_room_and_anything_else_does_not(tmp_path: Path) -> None:
    run = tmp_path / "run"
    clear(run)
    run.mkdir()
    (run / "precious.txt").write_text("keep me")
    with raises(UserError, str(run), "no run folder"):
        clear(run)
    (run / "config.yaml").write_text("")
    clear(run)
    assert not run.exists()


def test_an_unknown_configuration_of_the_demo_is_told() -> None:
    with raises(UserError, "demmo"):
        main(["--config", "demmo"])


def test_a_learning_curve_shows_where_the_marks_are(tmp_path: Path) -> None:
    metrics = [{"step": 1000.0 * i, "charts/episodic_return": float(i)} for i in range(10)]
    learning_curve(tmp_path / "plain.png", metrics, {}, "game")
    learning_curve(tmp_path / "marked.png", metrics, {"after": Interval(5, 4, 6)}, "game")
    learning_curve(tmp_path / "empty.png", [{"step": 0.0}], {}, "game")
    plain, marked, empty = (
        np.asarray(Image.open(tmp_path / f"{name}.png").convert("RGB")).astype(int)
        for name in ("plain", "marked", "empty")
    )
    blue = np.array([0x00, 0x72, 0xB2])
    assert (np.abs(plain - blue).max(2) < 8).sum() > (np.abs(empty - blue).max(2) < 8).sum() + 100
    assert plain.shape == marked.shape
    assert (plain != marked).any()
