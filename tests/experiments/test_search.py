"""`entitize search`, with real trials in real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
import yaml
from entitize.experiments import TrainConfig, read_config, read_run_config
from entitize.experiments.queue import RunQueue, TrainingJob, read_run, read_runs
from entitize.experiments.search import load_study, read_search
from entitize.trainers import read_origin
from optuna.trial import TrialState
from rich.console import Console

from waiting import steps_in, wait_until

Run = Callable[..., tuple[int, str, str]]
TINY = (
    *("--env.id", "MultiArmedBandit", "--env.num-envs", "2", "--net.n-layer", "1"),
    *("--ppo.minibatch-size", "16", "--ppo.update-epochs", "1", "--ppo.checkpoint-interval", "160"),
)


def command(folder: Path, *words: str) -> list[str]:
    parameters = ["--param", "ppo.learning_rate=log:1e-4..1e-2", "--param", "net.d_model=8,16"]
    flags = ["--out", str(folder), "--device", "cpu", *words]
    return ["search", "mine_sweeper", *parameters, *flags, "--", *TINY, "--ppo.num-steps", "8"]


def test_a_search_trains_reports_and_goes_on(entitize: Run, tmp_path: Path) -> None:
    folder = tmp_path / "a search"
    code, out, err = entitize(*command(folder, "--steps", "160", "--trials", "2", "--jobs", "2"))
    assert (code, err) == (0, "")
    study = load_study(read_search(folder), folder)
    assert [trial.state for trial in study.trials] == [TrialState.COMPLETE] * 2
    for trial, record in zip(study.trials, read_runs(folder), strict=True):
        assert record.name == f"MultiArmedBandit/trial_{trial.number:03}/0" and record.is_done
        file = yaml.safe_load((record.folder / "config.yaml").read_text())
        assert file["ppo"]["learning_rate"] == trial.params["ppo.learning_rate"]
        assert file["net"]["d_model"] == trial.params["net.d_model"]
        assert (file["ppo"]["seed"], file["ppo"]["total_timesteps"]) == (0, 160)

    best = read_config(TrainConfig, folder / "best.yaml")
    assert best.ppo.learning_rate == study.best_params["ppo.learning_rate"]
    assert best.net.d_model == study.best_params["net.d_model"]
    assert f"2 of 2 trials are finished in {folder}\n" in out and "runs are done" not in out
    assert f"entitize train --config '{folder / 'best.yaml'}'" in out
    code, _, err = entitize("train", "--config", folder / "best.yaml", "--run", tmp_path / "best")
    assert (code, err) == (0, "")
    report = (folder / "report" / "report.md").read_text()
    assert all(f"trial_00{number}" in report for number in (0, 1))

    code, out, _ = entitize(*command(folder, "--steps", "160", "--trials", "3"))
    assert code == 0 and "trial_000" not in out  # finished trials are not touched
    assert f"3 of 3 trials are finished in {folder}\n" in out
    assert len(load_study(read_search(folder), folder).trials) == 3
    assert entitize("report", folder)[0] == 0
    assert "trial_002" in (folder / "report" / "report.md").read_text()
    code, _, err = entitize(*command(folder, "--steps", "320", "--trials", "3"))
    assert (code, "ppo.total_timesteps is 160 there, 320" in err) == (2, True)


def test_a_killed_search_continues(entitize: Run, tmp_path: Path) -> None:
    words = command(tmp_path, "--steps", "3200", "--trials", "2", "--jobs", "1")
    folder = tmp_path / "runs" / "MultiArmedBandit" / "trial_001" / "0"
    with subprocess.Popen([sys.executable, "-m", "entitize", *words], stdout=subprocess.DEVNULL) as search:
        wait_until(lambda: steps_in(folder)[-1:] > [160])
        code, _, err = entitize(*words)  # beside the first one
        assert (code, f"process {search.pid}" in err) == (2, True)
        os.kill(int((folder / ".lock").read_text().split()[1]), signal.SIGKILL)
        search.kill()
    killed, settings = read_run(folder), read_search(tmp_path)
    assert 160 <= killed.steps < 3200
    before = load_study(settings, tmp_path).trials
    assert [trial.state for trial in before] == [TrialState.COMPLETE, TrialState.RUNNING]

    code, out, err = entitize(*words)
    assert (code, err) == (0, "")
    assert f"MultiArmedBandit/trial_001/0 continues from step {killed.steps:,}" in out
    after = load_study(settings, tmp_path).trials
    assert [trial.state for trial in after] == [TrialState.COMPLETE] * 2
    assert [trial.params for trial in after] == [trial.params for trial in before]
    assert after[0].value == before[0].value
    assert steps_in(folder) == list(range(16, 3201, 16))  # each once
    assert [part.from_step for part in read_origin(folder)] == [0, killed.steps]
    assert len(read_origin(folder.parent.parent / "trial_000" / "0")) == 1


def test_a_trial_whose_run_has_no_return_is_a_failure(entitize: Run, tmp_path: Path) -> None:
    words = command(tmp_path / "search", "--steps", "32", "--trials", "1")
    code, out, _ = entitize(*words, "--eval.every", "1000")  # later than the end
    assert code == 1 and "trial 0 failed" in out
    assert not (tmp_path / "search" / "best.yaml").exists()


class GivesUp:
    """A source of two jobs that gives up the first once it trains."""

    def __init__(self, jobs: Sequence[TrainingJob], directory: Path) -> None:
        self.jobs, self.directory = list(jobs), directory
        self.finished: list[str] = []

    def more(self) -> Sequence[TrainingJob]:
        return [self.jobs.pop(0)] if self.jobs else []

    def given_up(self) -> Collection[str]:
        return ["bad/roguenet/0"] if steps_in(self.directory / "runs" / "bad" / "roguenet" / "0") else []

    def finish(self, job: TrainingJob) -> None:
        self.finished.append(job.name)

    def fail(self, job: TrainingJob, reason: str) -> None:
        pytest.fail(f"{job.name}: {reason}")


def test_a_run_that_is_given_up_stops_with_a_checkpoint(trained: Path, tmp_path: Path) -> None:
    config = read_run_config(trained)
    endless = replace(config, ppo=replace(config.ppo, total_timesteps=100_000_000))
    jobs = [TrainingJob("bad", "roguenet", 0, endless), TrainingJob("good", "roguenet", 0, config)]
    source, console = GivesUp(jobs, tmp_path), Console(file=StringIO())
    assert RunQueue([], tmp_path, processes=1, device="cpu", console=console, source=source).run() == 0
    assert source.finished == ["good/roguenet/0"]
    stopped = read_run(jobs[0].folder(tmp_path))
    assert 0 < stopped.steps == steps_in(stopped.folder)[-1] and not stopped.is_done
    assert "continues from step" in (stopped.folder / "log.txt").read_text()
