"""The queue of an experiment: a number of jobs at once, each in a process, until all are done or have failed.

The state of a run is read from its folder each time, so that a queue can be killed and started again, and
several can work in one folder: a run is locked by the process that uses it.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from pathlib import Path
from shlex import quote
from types import FrameType
from typing import Protocol

from rich.console import Console
from rich.live import Live
from rich.table import Table

from ...files import replace_file
from ...policies import RUN_CONFIG
from ...trainers import RunLockedError, can_redraw, clock_time, run_lock, say
from ..arguments import parse
from ..config_file import to_yaml
from ..errors import UserError
from ..microrts.match_plan import MicroRTSEvalArguments, make_plan
from .run_child import LOCKED
from .training_jobs import (
    LOG,
    RunProcess,
    Stage,
    TrainingJob,
    check_folder,
    continued,
    in_order,
    last_lines,
    last_metrics,
    read_run,
)


class QueueView:
    """Report the start and end of runs, and the progress of the running ones.

    Args:
        interval: seconds between plain lines.
    """

    def __init__(
        self,
        jobs: Sequence[TrainingJob],
        directory: Path,
        processes: int,
        console: Console,
        interval: float = 60.0,
    ) -> None:
        self.jobs, self.directory, self.processes, self.console = jobs, directory, processes, console
        self.done: list[TrainingJob] = []
        self._live = Live(console=console, auto_refresh=False) if can_redraw(console) else None
        self._interval = interval
        self._shown = -math.inf if self._live is not None else time.monotonic()
        self._progress: dict[str, tuple[int, float]] = {}  # steps and seconds by the name of a run

    def __enter__(self) -> QueueView:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._live is not None:
            self._live.stop()

    def report(self, text: str) -> None:
        """Print a line that stays."""
        say(self.console, text)

    def start(self, job: TrainingJob, stage: str) -> None:
        """Report that a process of `job` has been started."""
        steps, seconds = self._taken(job)
        self._progress[job.name] = steps, seconds
        if stage == "eval":
            self.report(f"{job.name} is evaluated")
        else:
            self.report(f"{job.name} continues from step {steps:,}" if steps else f"{job.name} starts")

    def finish(self, job: TrainingJob) -> None:
        """Report that nothing of `job` is left to do."""
        self.done.append(job)
        steps, seconds = self._progress[job.name] = self._taken(job)
        self.report(f"{job.name} is done: {steps:,} steps in {clock_time(seconds)}")

    def show(
        self, running: Sequence[RunProcess], waiting: Sequence[TrainingJob], failed: Sequence[TrainingJob]
    ) -> None:
        """Show a line for each running run, and one for all, unless that was done a moment ago."""
        pause = 1.0 if self._live is not None else self._interval
        if time.monotonic() - self._shown < pause:
            return
        self._shown = time.monotonic()
        rows = [self._row(process) for process in running]
        counts = f"{len(self.done)} done, {len(running)} running, {len(waiting)} waiting"
        counts += f", {len(failed)} failed" if failed else ""
        in_training = [process.job for process in running if process.stage == "train"]
        left = self._seconds_left([*in_training, *waiting])
        total = counts if left is None else f"{counts}; about {clock_time(left)} to go"
        if self._live is None:
            for row in rows:
                self.report("  ".join(part for part in row if part))
            self.report(total)
            return
        table = Table.grid(padding=(0, 2))
        for row in rows:
            table.add_row(*row)
        table.add_row(total)
        self._live.update(table, refresh=True)

    def _row(self, process: RunProcess) -> list[str]:
        """Return run, steps, speed, return and remaining time, as text."""
        job = process.job
        if process.stage == "eval":
            return [job.name, "evaluation", *last_lines(process.folder, 1)]
        metrics = last_metrics(process.folder)
        if "time/elapsed" not in metrics:  # none yet, or the line of an evaluation
            return [job.name, "evaluation" if metrics else "first rollout"]
        try:
            step, elapsed = int(metrics["step"]), float(metrics["time/elapsed"])
            speed, mean = float(metrics["charts/SPS"]), metrics.get("charts/episodic_return")
            shown = "return -" if mean is None else f"return {mean:.2f}"
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            return [job.name, f"metrics.jsonl can't be read: {error!r}"]
        self._progress[job.name] = step, elapsed
        return [
            job.name,
            f"{step:,}/{job.config.ppo.total_timesteps:,} steps",
            f"{speed:,.0f} samples/s",
            shown,
            f"{clock_time(_seconds_left(job, step, elapsed, step / max(elapsed, 1e-9)))} to go",
        ]

    def _seconds_left(self, jobs: Sequence[TrainingJob]) -> float | None:
        """Return the remaining time, by the speed of runs of the same network; None if one had no run."""
        total = 0.0
        for job in jobs:
            of_network = [
                self._progress[other.name]
                for other in self.jobs
                if other.network == job.network and other.name in self._progress
            ]
            seconds = sum(seconds for _, seconds in of_network)
            if not seconds:
                return None
            speed = sum(steps for steps, _ in of_network) / seconds
            total += _seconds_left(job, *self._progress.get(job.name, (0, 0.0)), speed)
        return total / max(1, min(self.processes, len(jobs)))

    def _taken(self, job: TrainingJob) -> tuple[int, float]:
        try:
            record = read_run(job.folder(self.directory))
        except UserError:  # reported by the process that uses the run
            return 0, 0.0
        return record.steps, record.seconds


def _seconds_left(job: TrainingJob, steps: int, seconds: float, speed: float) -> float:
    """Return the remaining time of training, with `speed` in steps per second."""
    left = max(0, job.config.ppo.total_timesteps - steps) / max(speed, 1e-9)
    if job.config.max_minutes is not None:
        left = min(left, 60 * job.config.max_minutes - seconds)
    return max(0.0, left)


#: Seconds between checks of the processes, and of runs that other processes use.
_PAUSE, _LOCKED_PAUSE = 0.2, 2.0
#: Lines of the log that a failure is reported with.
_LOG_LINES = 8
_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class JobSource(Protocol):
    """Source of further jobs of a queue while it works, such as the runs of the next trial of a search."""

    def more(self) -> Sequence[TrainingJob]:
        """Return jobs to start now; empty: there are no more. Called while there is room."""

    def given_up(self) -> Collection[str]:
        """Return the names of all jobs so far that are to be stopped, with a checkpoint, or not started."""

    def finish(self, job: TrainingJob) -> None:
        """Take the result of a finished run."""

    def fail(self, job: TrainingJob, reason: str) -> None:
        """Take note that a run failed."""


class RunQueue:
    """Run `jobs` in the experiment folder `directory`.

    Args:
        jobs: with different names.
        processes: how many at once.
        device: where they train: "cpu", "cuda", ...
        source: of further jobs.

    Raises:
        ValueError: `processes` is not positive.
    """

    def __init__(
        self,
        jobs: Sequence[TrainingJob],
        directory: Path,
        *,
        processes: int,
        device: str,
        console: Console | None = None,
        source: JobSource | None = None,
    ) -> None:
        if processes < 1:
            raise ValueError(f"jobs: expected at least 1, got {processes}")
        self.directory, self.processes, self.device, self.source = directory, processes, device, source
        self.waiting = in_order(jobs, directory)
        self.running: list[RunProcess] = []
        self.failed: list[TrainingJob] = []
        self.view = QueueView(jobs, directory, processes, console or Console())
        self._given_up: Collection[str] = ()
        self._locked: dict[str, float] = {}  # when a run that others use was last checked
        self._signals = 0
        self._is_stopping = False

    def run(self) -> int:
        """Run until no job is left; returns the exit code: 0, 1 if a run failed, or 130 if it was stopped.

        Ctrl-C and SIGTERM stop the runs, each after its update and with a checkpoint; a second kills them.
        """
        with ExitStack() as stack:
            self._catch_signals(stack)
            stack.callback(self._end_all)
            stack.enter_context(self.view)
            self._take_more()
            while (self.waiting and not self._signals) or self.running:
                self._look_after_running()
                self._drop_given_up()
                if self._signals:
                    self._stop()
                else:
                    self._start()
                    self._take_more()
                self.view.show(self.running, self.waiting, self.failed)
                time.sleep(_PAUSE)
        if self._signals:
            self.view.report("stopped; the same command continues")
            return 130
        if self.source is None:  # which has jobs of earlier calls, too
            done, total = len(self.view.done), len(self.view.jobs)
            report = f"`entitize report {quote(str(self.directory))}` writes the report"
            self.view.report(f"{done} of {total} runs are done in {self.directory}; {report}")
        for job in self.failed:
            self.view.report(f"{job.name} failed; its log is {job.folder(self.directory) / LOG}")
        return 1 if self.failed else 0

    # -- starting -------------------------------------------------------------------------------------------

    def _start(self) -> None:
        """Start waiting jobs while there is room; finish those that are done already."""
        for job in list(self.waiting):
            if len(self.running) >= self.processes or self._signals:
                return
            if time.monotonic() - self._locked.get(job.name, -_LOCKED_PAUSE) < _LOCKED_PAUSE:
                continue
            self.waiting.remove(job)
            self._advance(job)

    def _take_more(self) -> None:
        """Take jobs of the source until there is no room; they start at the next turn."""
        while self.source is not None and not self._signals:
            if len(self.running) + len(self.waiting) >= self.processes or not (jobs := self.source.more()):
                return
            self.view.jobs = [*self.view.jobs, *jobs]
            self.waiting += jobs

    def _advance(self, job: TrainingJob, ended: RunProcess | None = None) -> None:
        """Start the next stage of a run, after the one that has `ended`, if there is one left to do here."""
        try:
            stage = self._prepare(job)
            if ended is not None and stage == ended.stage:
                self._fail(job, [f"{stage} ended early", *last_lines(ended.folder, _LOG_LINES)])
            elif stage == "locked":
                self._wait_for_others(job)
            elif stage == "done":
                self.view.finish(job)
                if self.source is not None:
                    self.source.finish(job)
            else:
                folder = job.folder(self.directory)
                self.running.append(RunProcess.start(job, stage, folder, self.device))
                self.view.start(job, stage)
        except (UserError, OSError) as error:
            self._fail(job, [str(error)])

    def _prepare(self, job: TrainingJob) -> Stage:
        """Return the next stage of a run, and prepare its folder."""
        folder = job.folder(self.directory)
        try:
            with run_lock(folder):
                check_folder(job, self.directory)  # another queue may have made it
                if not (folder / RUN_CONFIG).exists() or not read_run(folder).is_done:
                    replace_file(folder / RUN_CONFIG, to_yaml(continued(job, folder)).encode())
                    return "train"
                return "eval" if self._games_are_missing(job, folder) else "done"
        except RunLockedError:
            return "locked"

    def _games_are_missing(self, job: TrainingJob, folder: Path) -> bool:
        if job.evaluation is None:
            return False
        words = [str(folder), *job.evaluation.words()]
        plan = make_plan(parse(MicroRTSEvalArguments, "eval microrts", words))
        return bool(plan.results().missing(plan.jobs))

    def _wait_for_others(self, job: TrainingJob) -> None:
        if job.name not in self._locked:
            self.view.report(f"{job.name} is in use by another process")
        self._locked[job.name] = time.monotonic()
        self.waiting.insert(0, job)

    # -- ending ---------------------------------------------------------------------------------------------

    def _look_after_running(self) -> None:
        for process in list(self.running):
            code = process.popen.poll()
            if code is None:
                continue
            process.stop()
            self.running.remove(process)
            if process.job.name in self._given_up:
                continue
            if code == LOCKED:
                self._wait_for_others(process.job)
            elif self._signals:
                continue
            elif code:
                how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
                self._fail(process.job, [f"{process.stage} {how}", *last_lines(process.folder, _LOG_LINES)])
            else:
                self._advance(process.job, process)

    def _fail(self, job: TrainingJob, lines: Sequence[str]) -> None:
        self.failed.append(job)
        self.view.report("\n    ".join([f"{job.name} failed:", *lines]))
        if self.source is not None:
            self.source.fail(job, lines[-1])

    # -- stopping -------------------------------------------------------------------------------------------

    def _drop_given_up(self) -> None:
        """Stop the runs that the source has given up; each ends its update and writes a checkpoint."""
        if self.source is None or self._signals:
            return
        self._given_up = self.source.given_up()
        self.waiting = [job for job in self.waiting if job.name not in self._given_up]
        for process in self.running:
            if process.job.name in self._given_up:
                process.stop()

    def _catch_signals(self, stack: ExitStack) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        for number in _SIGNALS:
            if number != signal.SIGINT and signal.getsignal(number) is signal.SIG_IGN:
                continue  # as `nohup` has it
            stack.callback(signal.signal, number, signal.signal(number, self._on_signal))

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._signals += 1

    def _stop(self) -> None:
        if not self._is_stopping and self.running:
            self.view.report(
                "stopping: each run ends its update and writes a checkpoint; a second signal kills"
            )
        self._is_stopping = True
        for process in self.running:
            process.stop()
            if self._signals > 1:
                process.popen.kill()

    def _end_all(self) -> None:
        """End all processes as `_stop` does, so that none is left after an error. (Ctrl-C also ends a reader
        of our output, as in `| tee log`: then the next line that we print raises one.)"""
        self._is_stopping = True
        while any(process.popen.poll() is None for process in self.running):
            self._stop()
            time.sleep(_PAUSE)
