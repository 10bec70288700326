from __future__ import annotations

import io
import re
import sys
import types
from typing import Any

import entitize as ez
import pytest
from entitize.trainers import TrainingProgress, clock_time, detail_of
from rich.console import Console

from facts import raises

METRICS = {"charts/SPS": 1234.6, "charts/episodic_return": 3.14159, "losses/entropy": 1.5}


def test_a_line_tells_steps_speed_return_entropy_and_what_is_left() -> None:
    progress = TrainingProgress(1_000_000, console=Console(file=io.StringIO()))
    line = progress.describe(250_000, METRICS, seconds=60)
    assert line == "250,000/1,000,000 steps  1,235 samples/s  return 3.14  entropy 1.500  ETA 3:00"


def test_a_resumed_run_counts_its_speed_from_where_it_began() -> None:
    progress = TrainingProgress(1_000_000, start=200_000, console=Console(file=io.StringIO()))
    assert progress.describe(250_000, METRICS, seconds=60).endswith("ETA 15:00")


def test_the_time_limit_bounds_what_is_left() -> None:
    progress = TrainingProgress(1_000_000, max_seconds=100, console=Console(file=io.StringIO()))
    assert progress.describe(250_000, METRICS, seconds=60).endswith("ETA 0:40")


def test_a_full_line_adds_losses_and_shares_of_time() -> None:
    progress = TrainingProgress(1_000_000, console=Console(file=io.StringIO()), is_full=True)
    metrics = {
        **METRICS,
        "charts/episodic_length": 12.25,
        "losses/value_loss": 0.5,
        "losses/approx_kl": 0.0125,
        "losses/clipfrac": 0.25,
        "losses/explained_variance": -0.5,
        "time/env": 1.0,
        "time/inference": 1.0,
        "time/update": 2.0,
    }
    line = progress.describe(250_000, metrics, seconds=60)
    for part in (
        *("return 3.14", "length 12.2", "value loss 0.5", "KL 0.0125", "clip fraction 0.25"),
        *("explained variance -0.5", "env 25%", "inference 25%", "update 50%"),
    ):
        assert part in line
    assert "value loss" not in progress.describe(250_000, METRICS, seconds=60)  # of a rollout of idle steps


@pytest.mark.parametrize(
    ("progress", "detail"), [(True, "short"), (False, "none"), ("full", "full"), ("none", "none")]
)
def test_progress_has_levels(progress: Any, detail: str) -> None:
    assert detail_of(progress) == detail


def test_an_unknown_level_of_progress_is_told() -> None:
    with raises(ValueError, "progress", "'full'", "'fulll'"):
        detail_of("fulll")  # type: ignore[arg-type]


def test_before_the_first_episode_ends_there_is_no_return() -> None:
    progress = TrainingProgress(100, console=Console(file=io.StringIO()))
    metrics = {name: value for name, value in METRICS.items() if name != "charts/episodic_return"}
    assert "return -  entropy" in progress.describe(50, metrics, seconds=1)


def test_elsewhere_than_on_a_terminal_lines_are_plain_and_the_last_one_is_printed() -> None:
    out = io.StringIO()
    with TrainingProgress(300, console=Console(file=out, width=40), interval=1e9) as progress:
        for step in (100, 200, 300):
            progress.update(step, METRICS)
    lines = out.getvalue().splitlines()
    assert [line.split()[0] for line in lines] == ["100/300", "300/300"]
    assert "\x1b" not in out.getvalue()


def test_on_a_terminal_there_is_a_bar() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=160, color_system=None)
    with TrainingProgress(200, console=console) as progress:
        progress.update(50, METRICS)
        progress.update(100, METRICS)
    assert re.search(r"training\W+━+.*50%.*100/200 steps", out.getvalue())


def test_a_narrow_terminal_shows_what_is_left_of_a_long_training() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=80, color_system=None)
    with TrainingProgress(25_000_000, console=console) as progress:
        progress.update(12_345_678, METRICS)
    assert re.search(r"49%  ETA [\d:]+  12,345,678/25,000,000 steps  1,235 samples/s", out.getvalue())


@pytest.mark.parametrize("name", ["FORCE_COLOR", "TTY_COMPATIBLE"])
def test_a_file_is_no_terminal_where_colours_are_forced(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "1")
    out = io.StringIO()
    with TrainingProgress(200, console=Console(file=out, width=160)) as progress:
        progress.update(50, METRICS)
        progress.update(100, METRICS)
    assert [line.split()[0] for line in out.getvalue().splitlines()] == ["50/200", "100/200"]
    assert "\x1b" not in out.getvalue() and "\r" not in out.getvalue()


def test_a_notebook_shows_one_line_that_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []

    class Output:
        def update(self, data: dict[str, str], raw: bool) -> None:
            shown[-1] = data["text/plain"]

    def display(data: dict[str, str], raw: bool, display_id: bool) -> Output:
        shown.append(data["text/plain"])
        return Output()

    monkeypatch.setitem(sys.modules, "IPython.display", types.SimpleNamespace(display=display))
    console = Console(file=io.StringIO(), force_jupyter=True)
    with TrainingProgress(300, console=console) as progress:
        for step in (100, 200, 300):
            progress.update(step, METRICS)
            assert len(shown) == 1 and "/300 steps" in shown[0]
    assert shown[0].startswith("300/300 steps")


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00"), (59.6, "1:00"), (3599, "59:59"), (3723, "1:02:03")]
)
def test_times_read_like_a_clock(seconds: float, text: str) -> None:
    assert clock_time(seconds) == text


def test_a_training_without_steps_to_go_says_so(
    capfd: pytest.CaptureFixture[str], toy_policy: Any, toy_venv: Any
) -> None:
    config = ez.PPOConfig(num_steps=4, minibatch_size=16, total_timesteps=16)
    trainer = ez.PPO(toy_policy(), toy_venv(4), config)
    trainer.train(progress=False)
    assert capfd.readouterr().err == "" and "16 of 16 steps" in repr(trainer)
    assert trainer.train() == {}
    assert "16 steps of 16" in capfd.readouterr().err
