"""The queue of `entitize experiment`, with real runs in real processes."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from entitize.cli import main
from entitize.experiments import read_run_config
from entitize.experiments.queue import LOCKED, RunQueue, TrainingJob, read_run, read_runs
from entitize.trainers import RunLockedError, read_origin, run_lock
from rich.console import Console

from facts import mentions, raises
from waiting import PATIENCE, steps_in, wait_until

Run = Callable[..., tuple[int, str, str]]
TINY = (
    *("--env.num-envs", "2", "--net.d-model", "8", "--net.n-layer", "1", "--ppo.num-steps", "8"),
    *("--ppo.minibatch-size", "16", "--ppo.update-epochs", "1", "--ppo.checkpoint-interval", "160"),
)


def process_of(folder: Path) -> int:
    """Who has locked a run."""
    return int((folder / ".lock").read_text().split()[1])


# -- kills and restarts --------------------------------------------------------------------------------------


def test_an_experiment_survives_kills(entitize: Run, tmp_path: Path) -> None:
    words = ["experiment", "procgen", "--games", "maze", "--seeds", "1", "--steps", "3200"]
    words += ["--jobs", "2", "--device", "cpu", "--out", str(tmp_path), "--", *TINY]
    folder = tmp_path / "runs" / "maze" / "roguenet" / "0"

    # kill -9, the queue and its run: what came after the last checkpoint is lost.
    command = [sys.executable, "-m", "entitize", *words]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as queue:
        wait_until(lambda: steps_in(folder)[-1:] > [160])
        os.kill(process_of(folder), signal.SIGKILL)
        queue.kill()
    killed = read_run(folder)
    assert 160 <= killed.steps < 3200 and killed.steps % 160 == 0 and not killed.is_done

    # SIGTERM: the run ends its update and has a checkpoint of it.
    def stop() -> None:
        wait_until(lambda: steps_in(folder)[-1] > killed.steps + 160)
        os.kill(os.getpid(), signal.SIGTERM)

    stopper = threading.Thread(target=stop)
    handler = signal.getsignal(signal.SIGTERM)
    stopper.start()
    code, out, _ = entitize(*words)
    stopper.join()
    assert code == 130
    assert signal.getsignal(signal.SIGTERM) is handler
    assert f"maze/roguenet/0 continues from step {killed.steps:,}" in out
    assert "stopped; the same command continues" in out
    stopped = read_run(folder)
    assert killed.steps < stopped.steps < 3200 and not stopped.is_done
    assert steps_in(folder)[-1] == stopped.steps

    code, out, err = entitize(*words)
    assert (code, err) == (0, "")
    assert f"1 of 1 runs are done in {tmp_path}" in out and f"entitize report {tmp_path}" in out
    assert steps_in(folder) == list(range(16, 3201, 16))  # each once
    assert read_run(folder).is_done
    parts = read_origin(folder)
    assert [part.from_step for part in parts] == [0, killed.steps, stopped.steps]
    assert all(part.processor and part.cores > 0 and part.gpu is None for part in parts)

    log = (folder / "log.txt").read_text()
    code, out, _ = entitize(*words)  # nothing is left to do
    assert code == 0
    assert "maze/roguenet/0 is done: 3,200 steps in " in out
    assert (folder / "log.txt").read_text() == log


def test_a_queue_whose_reader_has_ended_stops_its_runs_with_a_checkpoint(tmp_path: Path) -> None:
    words = ["experiment", "procgen", "--games", "maze", "--seeds", "1", "--steps", "320000"]
    words += ["--jobs", "1", "--device", "cpu", "--out", str(tmp_path), "--", *TINY]
    words += ["--ppo.checkpoint-interval", "320000"]
    folder = tmp_path / "runs" / "maze" / "roguenet" / "0"
    command = [sys.executable, "-m", "entitize", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as queue:
        wait_until(lambda: steps_in(folder)[-1:] > [16])
        assert queue.stdout is not None
        queue.stdout.close()  # as of `| tee log`, which Ctrl-C ends as well
        queue.send_signal(signal.SIGINT)
        queue.wait(PATIENCE)
    stopped = read_run(folder)
    assert 0 < stopped.steps == steps_in(folder)[-1] < 320000


def test_a_queue_ignores_the_signals_that_its_parent_ignores(trained: Path, tmp_path: Path) -> None:
    handler = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as `nohup` does
    try:
        queue, _ = queue_of([job_of(trained, "a")], tmp_path / "experiment")
        found: list[object] = []
        watcher = threading.Timer(0.5, lambda: found.append(signal.getsignal(signal.SIGHUP)))
        watcher.start()
        queue.run()
        watcher.join()
        assert found == [signal.SIG_IGN]
    finally:
        signal.signal(signal.SIGHUP, handler)


def test_microrts_runs_are_evaluated_once(entitize: Run, tmp_path: Path) -> None:
    words = ["experiment", "microrts", "--maps", "8x8", "--net", "roguenet", "--seeds", "1", "--steps", "32"]
    words += ["--eval-games", "2", "--eval-max-steps", "5", "--out", str(tmp_path), "--device", "cpu"]
    words += ["--", *TINY, "--env.kwargs", "opponents=passiveAI"]
    code, out, err = entitize(*words)
    assert (code, err) == (0, "")
    assert "basesWorkers8x8/roguenet/0 is evaluated" in out
    (record,) = read_runs(tmp_path)
    assert (record.case, record.steps, record.is_done) == ("basesWorkers8x8", 32, True)
    results = record.folder / "eval_microrts" / "results.jsonl"
    lines = results.read_text().splitlines()
    assert len(lines) == 1 + 2 * 8  # the settings, and each of the fast bots from both sides
    assert (record.folder / "eval_microrts" / "table.md").exists()

    code, out, _ = entitize(*words)
    assert (code, "evaluated" in out, results.read_text().splitlines()) == (0, False, lines)


# -- other jobs than those of the command --------------------------------------------------------------------


def job_of(trained: Path, case: str, **changes: object) -> TrainingJob:
    config = read_run_config(trained)
    return TrainingJob(case, "roguenet", 0, replace(config, env=replace(config.env, **changes)))


def queue_of(jobs: list[TrainingJob], directory: Path) -> tuple[RunQueue, StringIO]:
    output = StringIO()
    console = Console(file=output, width=200)
    return RunQueue(jobs, directory, processes=1, device="cpu", console=console), output


def test_a_failing_run_does_not_hold_up_the_others(trained: Path, tmp_path: Path) -> None:
    wrong, right = job_of(trained, "wrong", id="Nonsense"), job_of(trained, "right")
    shutil.copytree(trained, right.folder(tmp_path))
    queue, output = queue_of([wrong, right], tmp_path)
    assert queue.run() == 1
    told = output.getvalue()
    assert re.search(mentions("wrong/roguenet/0 failed", "exit code 2", "Nonsense"), told)
    assert "right/roguenet/0 is done: 32 steps" in told
    assert "1 of 2 runs are done" in told
    assert f"its log is {wrong.folder(tmp_path) / 'log.txt'}" in told


def test_a_folder_that_can_not_be_written_fails_its_run_alone(trained: Path, tmp_path: Path) -> None:
    wrong, right = job_of(trained, "wrong"), job_of(trained, "right")
    shutil.copytree(trained, right.folder(tmp_path))
    (wrong.folder(tmp_path) / "log.txt").mkdir(parents=True)
    queue, output = queue_of([wrong, right], tmp_path)
    assert queue.run() == 1
    assert "wrong/roguenet/0 failed:" in output.getvalue()
    assert "right/roguenet/0 is done: 32 steps" in output.getvalue()


def test_a_run_that_others_work_on_is_waited_for(trained: Path, tmp_path: Path) -> None:
    job = job_of(trained, "busy")
    folder = job.folder(tmp_path)
    queue, output = queue_of([job], tmp_path)
    release = threading.Event()

    def work() -> None:
        with run_lock(folder):
            release.wait(PATIENCE)
            shutil.copytree(trained, folder, dirs_exist_ok=True)

    other = threading.Thread(target=work)
    other.start()
    wait_until(lambda: (folder / ".lock").exists())
    threading.Timer(0.5, release.set).start()
    assert queue.run() == 0
    other.join()
    assert f"{job.name} is in use by another process" in output.getvalue()
    assert not (folder / "log.txt").exists()  # no process was started


def test_a_damaged_run_is_a_failed_one(trained: Path, tmp_path: Path) -> None:
    job = job_of(trained, "damaged")
    shutil.copytree(trained, job.folder(tmp_path))
    next(job.folder(tmp_path).glob("checkpoints/*/checkpoint.json")).write_text("{}")
    queue, output = queue_of([job], tmp_path)
    assert queue.run() == 1
    assert "checkpoint.json can't be used" in output.getvalue()


# -- locks ---------------------------------------------------------------------------------------------------


def test_a_run_is_trained_by_one_process_at_a_time(entitize: Run, trained: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    with run_lock(run):
        with raises(RunLockedError, str(run), f"process {os.getpid()}"), run_lock(run):
            pass
        code, _, err = entitize("train", "--resume", run, "--ppo.total-timesteps", 64)
        assert (code, f"{run} is in use by process {os.getpid()}" in err) == (2, True)
        for stage in ("train", "eval"):
            command = [sys.executable, "-m", "entitize.experiments.queue.run_child", stage, str(run)]
            with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
                assert child.wait() == LOCKED
    assert steps_in(run) == [16, 32]
    assert main(["train", "--resume", str(run), "--ppo.total-timesteps", "48"]) == 0


def test_a_dead_process_holds_no_lock(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys; from pathlib import Path;"
        "from entitize.trainers import run_lock\n"
        "with run_lock(Path(sys.argv[1])): os.kill(os.getpid(), signal.SIGKILL)"
    )
    killed = subprocess.run([sys.executable, "-c", program, str(tmp_path)])
    assert killed.returncode == -signal.SIGKILL
    with run_lock(tmp_path):
        assert process_of(tmp_path) == os.getpid()


def test_a_folder_that_is_refused_stays_as_it_was(entitize: Run, trained: Path, tmp_path: Path) -> None:
    card, done = tmp_path / "card", tmp_path / "done"
    card.mkdir()
    for path in (trained / "config.yaml", *next(trained.glob("checkpoints/*")).iterdir()):
        shutil.copy(path, card)
    shutil.copytree(trained, done, ignore=shutil.ignore_patterns(".lock", "checkpoints"))
    for folder, fact in ((card, "expected a run folder, got a card"), (done, "checkpoint")):
        before = sorted(folder.rglob("*"))
        code, _, err = entitize("train", "--resume", folder, "--ppo.total-timesteps", 64)
        assert code == 2 and fact in err, err
        assert sorted(folder.rglob("*")) == before


def test_a_lock_that_was_there_before_is_kept(tmp_path: Path) -> None:
    with run_lock(tmp_path):
        pass
    for was_there in (True, False):
        with pytest.raises(KeyError), run_lock(tmp_path):
            raise KeyError
        assert (tmp_path / ".lock").exists() is was_there
        (tmp_path / ".lock").unlink(missing_ok=True)


def test_a_lock_file_that_its_holder_removes_locks_nobody_else_out(tmp_path: Path) -> None:
    """Threads that are refused remove the file that others have opened: one of them works at a time."""
    inside, most, done = 0, 0, 0

    def work() -> None:
        nonlocal inside, most, done
        while done < 300:
            with suppress(RunLockedError, KeyError), run_lock(tmp_path):
                inside += 1
                most = max(most, inside)
                time.sleep(0)
                inside -= 1
                done += 1
                raise KeyError

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert most == 1 and done >= 300
