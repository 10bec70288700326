"""The trials of a search: Optuna proposes values, the queue trains their runs, Optuna gets the results."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import optuna
from optuna.exceptions import ExperimentalWarning, OptunaError
from optuna.pruners import BasePruner, MedianPruner, NopPruner, SuccessiveHalvingPruner
from optuna.storages import BaseStorage, RDBStorage
from optuna.trial import FrozenTrial, TrialState
from rich.console import Console
from sqlalchemy import URL
from sqlalchemy.exc import SQLAlchemyError

from ...trainers import RunLockedError, read_metrics, run_lock, say
from ..config_file import plain, value_of
from ..errors import UserError
from ..queue import RunQueue, TrainingJob
from .objective import REPORTS, objective_of, parts_done, running_values, scored
from .settings import SEARCH, STORAGE, Pruner, SearchSettings, open_search

#: Seconds between checks of the metrics of running trials.
_PAUSE = 1.0
#: Seconds to wait for another reader of the storage.
_LOCK_SECONDS = 60
#: Before so many trials have finished, none is pruned by the median.
STARTUP_TRIALS = 5
#: No trial is pruned before so many parts of its training.
WARM_UP = REPORTS // 4


def run_search(settings: SearchSettings, directory: Path, *, trials: int, processes: int, device: str) -> int:
    """Search until `trials` trials are finished or pruned, those of earlier commands in `directory` included.

    Returns:
        The exit code: 0, 1 if a run failed or has no return, or 130 if it was stopped.

    Raises:
        UserError: the folder is of something else or in use, or its storage is damaged.
    """
    console = Console()
    try:
        open_search(directory, settings)
        with run_lock(directory):
            study = load_study(settings, directory)
            source = TrialSource(settings, directory, study, trials, console)
            jobs = source.unfinished()
            queue = RunQueue(
                jobs, directory, processes=processes, device=device, console=console, source=source
            )
            if (code := queue.run()) != 130:
                source.report()
            return 1 if code == 0 and source.has_failed else code
    except RunLockedError as error:
        raise UserError(f"{error}. One process searches in a folder: use --jobs") from error
    except (SQLAlchemyError, OptunaError) as error:
        raise _damaged(directory, error) from error


def load_study(settings: SearchSettings, directory: Path) -> optuna.Study:
    """Return the study in the storage of a search, which is made where it is missing.

    Raises:
        UserError: it can't be read.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        # Others may look at the study meanwhile, which locks the file.
        patience = {"connect_args": {"timeout": _LOCK_SECONDS}}
        return make_study(settings, RDBStorage(_url(directory / STORAGE), patience))
    except (SQLAlchemyError, OptunaError) as error:
        raise _damaged(directory, error) from error


def _url(path: Path) -> str:
    """Return the URL of a storage whose folder may have any name: Optuna fills in what stands in braces."""
    url = URL.create("sqlite", database=str(path)).render_as_string()
    return url.replace("{", "{{").replace("}", "}}")


def make_study(settings: SearchSettings, storage: BaseStorage) -> optuna.Study:
    """Return the study of a search in `storage`, with its sampler and pruner."""
    study = optuna.create_study(
        storage=storage,
        study_name=SEARCH,
        direction="maximize",
        load_if_exists=True,
        pruner=_pruner(settings.pruner),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        # Without another seed a continued search would draw its first random values again.
        study.sampler = optuna.samplers.TPESampler(
            seed=len(study.trials), multivariate=True, constant_liar=True
        )
    return study


def _damaged(directory: Path, error: Exception) -> UserError:
    """Return the error of a storage; messages of SQLAlchemy have several lines."""
    return UserError(f"{directory / STORAGE} can't be used: {str(error).splitlines()[0]}")


def _pruner(name: Pruner) -> BasePruner:
    if name == "median":
        return MedianPruner(n_startup_trials=STARTUP_TRIALS, n_warmup_steps=WARM_UP)
    if name == "asha":
        return SuccessiveHalvingPruner(min_resource=WARM_UP, reduction_factor=2)
    return NopPruner()


class TrialSource:
    """Source of the runs of trial after trial; prunes trials, and reports results to Optuna.

    Args:
        trials: how many are to be finished or pruned in the end.
        pause: seconds between checks of the metrics of running trials.
    """

    def __init__(
        self,
        settings: SearchSettings,
        directory: Path,
        study: optuna.Study,
        trials: int,
        console: Console,
        pause: float = _PAUSE,
    ) -> None:
        self.settings, self.directory, self.study, self.console = settings, directory, study, console
        self.pause = pause
        self._wanted = trials
        self._running: dict[int, list[TrainingJob]] = {}
        self._finished: set[str] = set()
        self._given_up: set[str] = set()
        self.has_failed = False  # a run of a trial
        self._looked = -math.inf
        self._left = trials - len(study.get_trials(deepcopy=False, states=_COUNTED))
        if not study.get_trials(deepcopy=False):
            self._propose_base()

    def _propose_base(self) -> None:
        """Let the first trial be the configuration as it is, if the search could choose it."""
        data = plain(self.settings.base)
        values = {parameter.name: value_of(data, parameter.name) for parameter in self.settings.parameters}
        if all(parameter.contains(values[parameter.name]) for parameter in self.settings.parameters):
            self.study.enqueue_trial(values)

    def unfinished(self) -> list[TrainingJob]:
        """Return the runs of trials that a stopped search left, the finished ones among them included."""
        for trial in self.study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            if trial.params.keys() != {parameter.name for parameter in self.settings.parameters}:
                self.study.tell(trial.number, state=TrialState.FAIL)  # killed before all values were drawn
            else:
                self._begin(trial.number, trial.params)
        return [job for jobs in self._running.values() for job in jobs]

    def _begin(self, number: int, values: Mapping[str, Any]) -> list[TrainingJob]:
        """Return the runs of a trial; none if its values are not allowed together."""
        self._left -= 1
        try:
            self._running[number] = self.settings.jobs(number, values)
        except UserError as error:
            self.study.tell(number, state=TrialState.FAIL)
            self._say(f"trial {number} failed: {error}")
            return []
        return self._running[number]

    def more(self) -> Sequence[TrainingJob]:
        """Return the runs of the next trial."""
        distributions = {parameter.name: parameter.distribution for parameter in self.settings.parameters}
        while self._left > 0:
            trial = self.study.ask(distributions)
            if self._repeats(trial.number, trial.params):
                continue
            if jobs := self._begin(trial.number, trial.params):
                self._say(f"trial {trial.number}: {shown(trial.params)}")
                return jobs
        return []

    def _repeats(self, number: int, values: Mapping[str, Any]) -> bool:
        """Give a trial the result of a finished one with the same values; False if there is none."""
        for earlier in self.study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)):
            if earlier.params == values:
                assert earlier.value is not None
                self._left -= 1
                self.study.tell(number, earlier.value)
                self._say(f"trial {number} repeats trial {earlier.number}: {earlier.value:.4g}")
                return True
        return False

    def finish(self, job: TrainingJob) -> None:
        """Report the result of the trial to Optuna, once all its runs are finished."""
        if job.name in self._given_up:
            return
        self._finished.add(job.name)
        number, jobs = self._trial_of(job)
        if not {other.name for other in jobs} <= self._finished:
            return
        try:
            value = objective_of(self.settings, jobs, self.directory)
            for part, running in enumerate(self._running_values(jobs), 1):
                self._report(number, part, running)
        except UserError as error:
            self.fail(job, str(error))
            return
        self.study.tell(number, value)
        del self._running[number]
        best = self.study.best_trial
        self._say(f"trial {number} is done: {value:.4g}; best: {best.value:.4g} of trial {best.number}")

    def fail(self, job: TrainingJob, reason: str) -> None:
        """Count the trial of a failed run as failed."""
        self.has_failed = True
        if job.name not in self._given_up:
            number, _ = self._trial_of(job)
            self._end(number, TrialState.FAIL, f"failed: {reason}")

    def given_up(self) -> set[str]:
        """Return the runs of all trials that were pruned or failed, after a look at the running ones."""
        if time.monotonic() - self._looked >= self.pause:
            self._looked = time.monotonic()
            for number in list(self._running):
                self._prune_if_bad(number)
        return self._given_up

    def _prune_if_bad(self, number: int) -> None:
        jobs = self._running[number]
        reported = self._trial(number).intermediate_values
        parts = min(parts_done(job.config, job.folder(self.directory)) for job in jobs)
        if parts <= len(reported) or parts == REPORTS:  # nothing new, or trained to the end: it counts
            return
        for part, value in enumerate(self._running_values(jobs), 1):
            if part in reported:
                continue
            self._report(number, part, value)
            if self.study.pruner.prune(self.study, self._trial(number)):
                self._end(
                    number, TrialState.PRUNED, f"is pruned at {part / REPORTS:.0%} of its steps: {value:.4g}"
                )
                return

    def _running_values(self, jobs: Sequence[TrainingJob]) -> list[float]:
        """Return the mean over the runs of a trial at the end of each part that all have finished."""
        curves = []
        for job in jobs:
            path = job.folder(self.directory) / "metrics.jsonl"
            try:
                values = running_values(job.config, read_metrics(path))
            except (OSError, ValueError):  # not there yet, or damaged: the end of the run reports it
                return []
            curves.append([scored(self.settings, job, value) for value in values])
        return [sum(values) / len(values) for values in zip(*curves, strict=False)]

    def _report(self, number: int, part: int, value: float) -> None:
        """Report a running return; NaN, which the median would prune, is left out."""
        trial = self._trial(number)
        if math.isfinite(value) and part not in trial.intermediate_values:
            # Optuna's `Trial.report` is for trials of this process only, not for those of a killed one.
            self.study._storage.set_trial_intermediate_value(trial._trial_id, part, value)

    def _end(self, number: int, state: TrialState, outcome: str) -> None:
        """End a trial without a result, and give up its runs."""
        self.study.tell(number, state=state)
        self._given_up |= {job.name for job in self._running.pop(number)}
        self._say(f"trial {number} {outcome}")

    def _trial(self, number: int) -> FrozenTrial:
        return self.study.get_trials(deepcopy=False)[number]

    def _trial_of(self, job: TrainingJob) -> tuple[int, list[TrainingJob]]:
        return next((number, jobs) for number, jobs in self._running.items() if job in jobs)

    def report(self) -> None:
        """Print how many trials are finished, those of earlier commands in the folder included."""
        states = [trial.state for trial in self.study.get_trials(deepcopy=False)]
        counted = sum(state in _COUNTED for state in states)
        line = f"{counted} of {max(counted, self._wanted)} trials are finished in {self.directory}"
        counts = {"pruned": states.count(TrialState.PRUNED), "failed": states.count(TrialState.FAIL)}
        self._say(", ".join([line, *(f"{count} {name}" for name, count in counts.items() if count)]))

    def _say(self, line: str) -> None:
        say(self.console, line)


#: States of trials that count as done.
_COUNTED = (TrialState.COMPLETE, TrialState.PRUNED)


def shown(values: Mapping[str, Any]) -> str:
    """Return values of parameters in one line."""
    return " ".join(
        f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in values.items()
    )
