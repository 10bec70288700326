"""Evaluate a trained agent against the scripted AIs of μRTS, beside published results."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from .match_plan import MicroRTSEvalArguments, make_plan
from .match_results import ResultsFile
from .match_scores import score_all
from .match_tables import report
from .match_workers import play_jobs
from .matches import MatchJob, PlayedMatches


def evaluate_matches(chosen: MicroRTSEvalArguments) -> None:
    """Play the games that are missing; print and write tables of all.

    Raises:
        UserError: as `make_plan` and `play_jobs`; finished games are kept.
    """
    plan = make_plan(chosen)
    results = ResultsFile(plan.out / "results.jsonl", plan.identity)
    console = Console()
    workers = (os.cpu_count() or 1) if chosen.workers is None else chosen.workers
    try:
        if missing := results.missing(plan.jobs):
            with MatchProgress(plan.jobs, missing, console) as progress:

                def finished(played: PlayedMatches) -> None:
                    results.add(played)
                    progress.show(played)

                play_jobs(missing, plan.settings, workers, finished)
    finally:  # what there is, also of an interrupted command
        if played := results.everything(plan.jobs):
            report(plan.out, score_all(played, plan.own_weights), plan.identity, played, console)
        done = _games(one.job for one in results.of(plan.jobs))
        told = f"{plan.out}: {done} of {_games(plan.jobs)} games"
        if others := _games(one.job for one in played) - done:
            told += f"; the tables also have {others} of earlier commands"
        console.print(told, highlight=False, soft_wrap=True)


def _games(jobs: Iterable[MatchJob]) -> int:
    return sum(job.games for job in jobs)


class MatchProgress:
    """A bar over games on a terminal, a line per finished job elsewhere."""

    def __init__(self, jobs: Sequence[MatchJob], missing: Sequence[MatchJob], console: Console) -> None:
        self.console = console
        self._bar: Progress | None = None
        self._done, self._total = _games(jobs) - _games(missing), _games(jobs)
        if console.is_terminal:
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
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
            self.console.print(f"{self._done}/{self._total} games  {line}", highlight=False, soft_wrap=True)
