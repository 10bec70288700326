from __future__ import annotations

import json
import shutil
from dataclasses import replace
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from entitize.experiments import read_run_config
from entitize.experiments.queue import QueueView, TrainingJob, last_lines, last_metrics
from rich.console import Console


def metrics_line(step: int, seconds: float) -> str:
    values = {"charts/SPS": 1234.5, "charts/episodic_return": 2.345, "time/elapsed": seconds}
    return json.dumps({"step": step, **values}) + "\n"


def test_the_last_whole_line_of_metrics_counts(tmp_path: Path) -> None:
    assert last_metrics(tmp_path) == {}
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1')
    assert last_metrics(tmp_path) == {}
    path.write_text("".join(metrics_line(step, 1.0) for step in range(1000)) + '{"step": 1000')
    assert last_metrics(tmp_path)["step"] == 999


def test_the_last_lines_of_a_log_that_say_something_count(tmp_path: Path) -> None:
    assert last_lines(tmp_path, 2) == []
    (tmp_path / "log.txt").write_bytes(b"first\n\nsecond \n\nthird \xff\n\n")
    assert last_lines(tmp_path, 2) == ["second", "third \ufffd"]


def shown(trained: Path, directory: Path, **console: Any) -> str:
    """What is told of three runs of 400 steps: one after 100 steps in 50 s, one evaluated, one waiting."""
    config = read_run_config(trained)
    config = replace(config, ppo=replace(config.ppo, total_timesteps=400))
    jobs = [TrainingJob(case, "roguenet", 0, config) for case in ("trained", "judged", "waiting")]
    for job in jobs[:2]:
        shutil.copytree(trained, job.folder(directory))
    (jobs[0].folder(directory) / "metrics.jsonl").write_text(metrics_line(100, 50.0))
    (jobs[1].folder(directory) / "log.txt").write_text("12/80 games\n")
    output = StringIO()
    view = QueueView(jobs, directory, 2, Console(file=output, width=120, **console), interval=0.0)
    stages = zip(jobs, ("train", "eval"), strict=False)
    running: Any = [
        SimpleNamespace(job=job, stage=stage, folder=job.folder(directory)) for job, stage in stages
    ]
    with view:
        view.show(running, jobs[2:], [])
    return output.getvalue()


def test_progress_is_told_in_plain_lines(trained: Path, tmp_path: Path) -> None:
    # 2 steps a second: 150 s for the first run and 200 for the one that waits, on two processes
    assert shown(trained, tmp_path).splitlines() == [
        "trained/roguenet/0  100/400 steps  1,234 samples/s  return 2.35  2:30 to go",
        "judged/roguenet/0  evaluation  12/80 games",
        "0 done, 2 running, 1 waiting; about 2:55 to go",
    ]


def test_progress_is_shown_on_a_terminal(trained: Path, tmp_path: Path) -> None:
    told = shown(trained, tmp_path, force_terminal=True)
    assert "100/400 steps" in told and "2:30 to go" in told and "12/80 games" in told
    assert "0 done, 2 running, 1 waiting; about" in told


@pytest.mark.parametrize(("minutes", "left"), [(1.0, "0:10"), (0.5, "0:00")])
def test_a_time_limit_is_reckoned_with(trained: Path, tmp_path: Path, minutes: float, left: str) -> None:
    config = replace(read_run_config(trained), max_minutes=minutes)
    job = TrainingJob("case", "roguenet", 0, replace(config, ppo=replace(config.ppo, total_timesteps=400)))
    (job.folder(tmp_path)).mkdir(parents=True)
    (job.folder(tmp_path) / "metrics.jsonl").write_text(metrics_line(100, 50.0))
    output = StringIO()
    view = QueueView([job], tmp_path, 1, Console(file=output, width=120), interval=0.0)
    process: Any = SimpleNamespace(job=job, stage="train", folder=job.folder(tmp_path))
    view.show([process], [], [])
    assert output.getvalue().splitlines()[0].endswith(f"  {left} to go")


def test_processes_without_a_run_do_not_shorten_the_time(trained: Path, tmp_path: Path) -> None:
    config = read_run_config(trained)
    config = replace(config, ppo=replace(config.ppo, total_timesteps=400))
    jobs = [TrainingJob(case, "roguenet", 0, config) for case in ("trained", "waiting")]
    shutil.copytree(trained, jobs[0].folder(tmp_path))
    line = {"step": 100, "time/elapsed": 50.0, "charts/SPS": 1234.0, "charts/episodic_return": 2.35}
    (jobs[0].folder(tmp_path) / "metrics.jsonl").write_text(json.dumps(line) + "\n")
    output = StringIO()
    view = QueueView(jobs, tmp_path, 8, Console(file=output, width=120), interval=0.0)
    running: Any = [SimpleNamespace(job=jobs[0], stage="train", folder=jobs[0].folder(tmp_path))]
    view.show(running, jobs[1:], [])
    assert output.getvalue().splitlines()[-1] == "0 done, 1 running, 1 waiting; about 2:55 to go"
