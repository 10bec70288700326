"""The objective of a search, and the running returns by which it stops trials early."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ..background_evaluation import EVAL_RETURN
from ..config import TrainConfig
from ..errors import UserError
from ..procgen import IMPALA_WINDOW, normalize
from ..queue import TrainingJob, last_metrics
from ..statistics import RETURN, read_curve
from .settings import SearchSettings, case_of, mode_of

#: Into so many equal parts training is divided; running returns are compared at the end of each but the last.
REPORTS = 20
#: The share of training over whose end returns are averaged, unless that are more steps than in reports.
_LAST_SHARE = 0.25


def objective_of(settings: SearchSettings, jobs: Sequence[TrainingJob], directory: Path) -> float:
    """Return the result of a trial whose runs, `jobs`, are finished: the mean over its runs.

    Of a run it is the mean return of the last evaluation if the configuration has `eval.every`. Otherwise it
    is the return in training (mean over the last 100 episodes), averaged over the last quarter of the steps,
    but over no more than the 0.5 million of reports. With several games returns are normalized.

    Raises:
        UserError: a run has no such return, or its metrics can't be read.
    """
    return float(np.mean([scored(settings, job, _result(job, directory)) for job in jobs]))


def scored(settings: SearchSettings, job: TrainingJob, value: float) -> float:
    """Return a return of a run, normalized if the search is on several games."""
    if len(settings.games) == 1:
        return value
    mode = mode_of(job.config, job.config.env.id)
    assert mode is not None  # see SearchSettings
    return float(normalize(case_of(job.config.env.id), value, mode))


def _result(job: TrainingJob, directory: Path) -> float:
    is_evaluated = job.config.eval.every is not None
    try:
        curve = read_curve(job.folder(directory), EVAL_RETURN if is_evaluated else RETURN)
    except (OSError, ValueError) as error:
        raise UserError(f"{job.name}: its return can't be read: {error}") from error
    if not len(curve.steps):
        missing = "evaluation was made" if is_evaluated else "episode ended"
        raise UserError(f"{job.name}: no {missing}: expected a return. Train for more steps")
    last = int(curve.steps[-1])
    value = curve.values[-1] if is_evaluated else curve.mean_before(last, _window(last))
    if not math.isfinite(value):
        raise UserError(f"{job.name}: expected a finite return, got {value}")
    return float(value)


def _window(steps: int) -> int:
    return max(1, min(IMPALA_WINDOW, int(_LAST_SHARE * steps)))


def parts_done(config: TrainConfig, folder: Path) -> int:
    """Return how many of the `REPORTS` parts of its training a run has finished."""
    return _parts(config, last_metrics(folder))


def running_values(config: TrainConfig, lines: Sequence[Mapping[str, float]]) -> list[float]:
    """Return the running return at the end of each finished part of a run; NaN where no episode has ended.

    It depends on the metrics alone, not on when they are read.
    """
    values: list[float] = []
    latest = math.nan
    for line in lines:
        latest = line.get(RETURN, latest)
        values += [latest] * (_parts(config, line) - len(values))
    return values[: REPORTS - 1]


def _parts(config: TrainConfig, line: Mapping[str, float]) -> int:
    return int(REPORTS * _share(config, line) + 1e-9)


def _share(config: TrainConfig, line: Mapping[str, float]) -> float:
    """Return the share of training that is done at a line of metrics: by steps or by time, the larger."""
    by_steps = line.get("step", 0) / config.ppo.total_timesteps
    by_time = line.get("time/elapsed", 0.0) / (60 * config.max_minutes) if config.max_minutes else 0.0
    return min(1.0, max(by_steps, by_time))
