"""Evaluate a trained agent against the scripted AIs of μRTS, beside published results."""

from __future__ import annotations

import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ...trainers import can_redraw, run_lock, say
from ..errors import UserError, user_errors
from .match_plan import MatchPlan, MicroRTSEvalArguments, make_plan
from .match_scores import report, score_all
from .matches import MatchJob, MatchPlayer, MatchSettings, PlayedMatches

#: Seconds that a worker is given to end by itself.
_PATIENCE = 5.0


def play_jobs(
    jobs: Sequence[MatchJob], settings: MatchSettings, workers: int, finished: Callable[[PlayedMatches], None]
) -> None:
    """Play `jobs` and hand each to `finished` as it ends.

    Args:
        workers: processes to play in; 0: this one.

    Raises:
        UserError: a job can't be played, or its worker died; jobs that ended before were handed on.
    """
    if workers == 0:
        player = MatchPlayer(settings)
        for job in jobs:
            finished(player.play(job))
        return
    pool = [_Worker(settings) for _ in range(min(workers, len(jobs)))]
    try:
        _share_out(list(jobs), pool, finished)
    finally:
        for worker in pool:
            worker.end()
        for worker in pool:
            worker.join()


def _share_out(
    jobs: list[MatchJob], pool: Sequence[_Worker], finished: Callable[[PlayedMatches], None]
) -> None:
    """Give every worker a job and, when it is done, the next one."""
    waiting = jobs[::-1]
    for worker in pool:
        worker.give(waiting.pop())
    while busy := {worker.connection: worker for worker in pool if worker.job is not None}:
        for connection in wait(list(busy)):
            worker = busy[connection]  # type: ignore[index]
            finished(worker.take())
            if waiting:
                worker.give(waiting.pop())


class _Worker:
    """The parent's end of a worker process."""

    def __init__(self, settings: MatchSettings) -> None:
        # A JVM does not survive a fork, and neither do torch's threads.
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process: SpawnProcess = context.Process(target=_work, args=(theirs, settings), daemon=True)
        self.process.start()
        theirs.close()  # or the end of the worker would not end the pipe
        self.job: MatchJob | None = None

    def give(self, job: MatchJob) -> None:
        self.job = job
        try:
            self.connection.send(job)
        except OSError:
            raise self._died() from None

    def take(self) -> PlayedMatches:
        """Return the finished job.

        Raises:
            UserError: there is none.
        """
        try:
            answer: Any = self.connection.recv()
        except (EOFError, OSError):
            raise self._died() from None
        if isinstance(answer, str):
            raise UserError(f"{self.job}: {answer}")
        self.job = None
        return answer

    def _died(self) -> UserError:
        self.process.join(_PATIENCE)
        return UserError(
            f"{self.job}: its worker died (exit code {self.process.exitcode}). Jobs that were finished are"
            " kept; the same command plays the missing ones"
        )

    def end(self) -> None:
        """Ask it to end; one in the middle of a job is stopped."""
        self.connection.close()
        if self.job is not None:
            self.process.kill()

    def join(self) -> None:
        self.process.join(_PATIENCE)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


def _work(connection: Connection, settings: MatchSettings) -> None:
    """Play jobs until the parent closes the pipe or ends. The target of the process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    player = MatchPlayer(settings)
    try:
        while True:
            connection.send(_answer(player, connection.recv()))
    except (EOFError, OSError):
        return


def _answer(player: MatchPlayer, job: MatchJob) -> PlayedMatches | str:
    """Return a played job, or the error as text."""
    try:
        return player.play(job)
    except UserError as error:
        return str(error)
    except Exception:
        return f"its worker raised\n{traceback.format_exc()}"


def evaluate_matches(chosen: MicroRTSEvalArguments) -> None:
    """Play the games that are missing; print and write tables of all.

    Raises:
        UserError: as `make_plan` and `play_jobs`; finished games are kept. Or the folder can't be used.
        RunLockedError: another process writes into the folder.
    """
    plan = make_plan(chosen)
    with ExitStack() as stack:
        with user_errors(OSError):
            stack.enter_context(run_lock(plan.out))
        _play(chosen, plan)


def _play(chosen: MicroRTSEvalArguments, plan: MatchPlan) -> None:
    results = plan.results()
    console = Console()
    workers = (os.cpu_count() or 1) if chosen.workers is None else chosen.workers
    try:
        if missing := results.missing(plan.jobs):
            with MatchProgress(plan.jobs, missing, console) as progress:

                def finished(played: PlayedMatches) -> None:
                    results.add(played)
                    progress.show(played)

                play_jobs(missing, plan.settings, workers, finished)
    finally:  # also of an interrupted command
        if played := results.everything(plan.jobs):
            report(plan.out, score_all(played, plan.own_weights), plan.identity, played, console)
        done = _games(one.job for one in results.of(plan.jobs))
        summary = f"{plan.out}: {done} of {_games(plan.jobs)} games"
        if others := _games(one.job for one in played) - done:
            summary += f"; the tables also have {others} of earlier commands"
        say(console, summary)


def _games(jobs: Iterable[MatchJob]) -> int:
    return sum(job.games for job in jobs)


class MatchProgress:
    """A bar over games on a terminal, a line per finished job elsewhere."""

    def __init__(self, jobs: Sequence[MatchJob], missing: Sequence[MatchJob], console: Console) -> None:
        self.console = console
        self._bar: Progress | None = None
        self._done, self._total = _games(jobs) - _games(missing), _games(jobs)
        if can_redraw(console):
            columns = (
                *(TextColumn("games"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()),
                TextColumn("{task.fields[line]}", markup=False),
            )
            self._bar = Progress(*columns, console=console)
            self._task = self._bar.add_task("games", total=self._total, completed=self._done, line="")

    def __enter__(self) -> MatchProgress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, played: PlayedMatches) -> None:
        """Show that a job is finished."""
        job = played.job
        self._done += job.games
        wins, ties, losses = (played.outcomes.count(word) for word in ("win", "draw", "loss"))
        line = f"{job.agent} – {job.bot}: {wins} won, {ties} tied, {losses} lost in {played.seconds:.0f} s"
        if self._bar is not None:
            self._bar.update(self._task, completed=self._done, line=line)
        else:
            text = f"{self._done}/{self._total} games  {line}"
            say(self.console, text)
