"""Display of a queue: a table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.table import Table

from ...trainers.progress import clock_time
from ..errors import UserError
from .run_records import last_lines, last_metrics, read_run
from .training_jobs import RunProcess, TrainingJob


class QueueView:
    """Tells what starts and ends, and how far the running runs are.

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
        self._interval, self._shown = interval, time.monotonic()
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        self._progress: dict[str, tuple[int, float]] = {}  # steps and seconds by the name of a run

    def __enter__(self) -> QueueView:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def tell(self, text: str) -> None:
        """A line that stays."""
        self.console.print(text, highlight=False, soft_wrap=True, markup=False)

    def start(self, job: TrainingJob, stage: str) -> None:
        """A process of `job` has been started."""
        steps, seconds = self._taken(job)
        self._progress[job.name] = steps, seconds
        if stage == "eval":
            self.tell(f"{job.name} is evaluated")
        else:
            self.tell(f"{job.name} goes on from step {steps:,}" if steps else f"{job.name} starts")

    def finish(self, job: TrainingJob) -> None:
        """Nothing of `job` is left to do."""
        self.done.append(job)
        steps, seconds = self._progress[job.name] = self._taken(job)
        self.tell(f"{job.name} is done: {steps:,} steps in {clock_time(seconds)}")

    def show(
        self, running: Sequence[RunProcess], waiting: Sequence[TrainingJob], failed: Sequence[TrainingJob]
    ) -> None:
        """A line for each running run, and one for all, unless that was done a moment ago."""
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
                self.tell("  ".join(part for part in row if part))
            self.tell(total)
            return
        table = Table.grid(padding=(0, 2))
        for row in rows:
            table.add_row(*row)
        table.add_row(total)
        self._live.update(table, refresh=True)

    def _row(self, process: RunProcess) -> list[str]:
        """Run, steps, speed, return, and what remains."""
        job = process.job
        if process.stage == "eval":
            return [job.name, "evaluation", *last_lines(process.folder, 1)]
        metrics = last_metrics(process.folder)
        if "time/elapsed" not in metrics:
            return [job.name, "first rollout"]
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
        """By the speed of the runs of the same network so far; None where one has had no run yet."""
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
        except UserError:  # whoever works with the run tells of it
            return 0, 0.0
        return record.steps, record.seconds


def _seconds_left(job: TrainingJob, steps: int, seconds: float, speed: float) -> float:
    """Of training, with `speed` in steps per second."""
    left = max(0, job.config.ppo.total_timesteps - steps) / max(speed, 1e-9)
    if job.config.max_minutes is not None:
        left = min(left, 60 * job.config.max_minutes - seconds)
    return max(0.0, left)
