from __future__ import annotations

import io
import re

import pytest
from entitize.trainers.progress import TrainingProgress, clock_time
from rich.console import Console

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


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00"), (59.6, "1:00"), (3599, "59:59"), (3723, "1:02:03")]
)
def test_times_read_like_a_clock(seconds: float, text: str) -> None:
    assert clock_time(seconds) == text
