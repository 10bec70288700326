"""The report of a search: its best trials, the importance of the parameters, and pictures."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances
from optuna.trial import FrozenTrial, TrialState

from ...files import replace_file
from ..config_file import to_yaml
from ..errors import UserError
from ..reports.document import Document, Picture, ReportColumn, ReportTable, Row, Section, counted
from . import pictures
from .parameters import SearchParameter
from .settings import BEST, STORAGE, SearchSettings, read_search, trial_name
from .study import load_study, shown

#: Rows of the table of best trials.
_BEST = 10
#: Importance compares this share of best trials with all; with fewer trials than this it says nothing.
_BEST_SHARE, _FEWEST = 0.25, 8

_STATES = {
    TrialState.COMPLETE: "done",
    TrialState.PRUNED: "pruned",
    TrialState.FAIL: "failed",
    TrialState.RUNNING: "unfinished",
    TrialState.WAITING: "unfinished",
}


def search_report(directory: Path, folder: Path) -> Document:
    """Draw pictures of the search in `directory` into `folder`, write its `best.yaml`, and return its report.

    Raises:
        UserError: there is no search, it has no trial yet, or its storage can't be read.
        OSError: a file can't be written.
    """
    settings = read_search(directory)
    if not (directory / STORAGE).is_file():
        raise UserError(f"{directory}: expected trials in {STORAGE}, got no such file")
    study = load_study(settings, directory)
    trials = study.get_trials(deepcopy=False)
    done = ranked(trials)
    sections = [_best_section(settings, trials, done)]
    if done:
        write_best(directory, settings, done[0])
        sections += [
            _history_section(trials, folder),
            _importance_section(study, done, folder),
            _parallel_section(settings, trials, done, folder),
        ]
    return Document(f"Search in {directory.resolve().name}", [_summary(settings, trials)], sections)


def ranked(trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
    """Return the finished trials, best first."""
    done = [trial for trial in trials if trial.state == TrialState.COMPLETE]
    return sorted(done, key=_value, reverse=True)


def _value(trial: FrozenTrial) -> float:
    assert trial.value is not None
    return trial.value


def write_best(directory: Path, settings: SearchSettings, best: FrozenTrial) -> None:
    """Write the configuration of the best trial, on the first game and with the seed of the base."""
    config = settings.config(best.params, settings.games[0], settings.base.ppo.seed)
    replace_file(directory / BEST, to_yaml(config).encode())


def _summary(settings: SearchSettings, trials: Sequence[FrozenTrial]) -> str:
    counts = {state: sum(_STATES[trial.state] == state for trial in trials) for state in _STATES.values()}
    ended = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    runs = f"{', '.join(settings.games)}; {counted(settings.seeds, 'seed')} per game"
    return f"{runs}; {settings.base.ppo.total_timesteps:,} steps per run; trials: {ended or 'none'}."


def _objective_note(settings: SearchSettings) -> str:
    if settings.base.eval.every is not None:
        what = "mean return of the last evaluation"
    else:
        what = (
            "return per episode in training (mean over the last 100 episodes), averaged over the last quarter"
            " of the steps, at most 0.5 million"
        )
    games = ", normalized by the published range of each game" if len(settings.games) > 1 else ""
    return f"The objective is the {what}{games}, and the mean over the runs of a trial."


def _best_section(
    settings: SearchSettings, trials: Sequence[FrozenTrial], done: Sequence[FrozenTrial]
) -> Section:
    pruned = [trial for trial in trials if trial.state != TrialState.COMPLETE]
    rows = [_row(trial) for trial in (*done, *pruned)]
    columns = [
        ReportColumn("trial", lambda row: trial_name(row["trial"]), is_text=True),
        ReportColumn("objective", lambda row: "–" if row["objective"] is None else f"{row['objective']:.4g}"),
        *(_parameter_column(parameter.name) for parameter in settings.parameters),
        ReportColumn("state", lambda row: row["state"], is_text=True),
    ]
    tables = [ReportTable("trials", "All trials", rows, columns)]
    if len(rows) > _BEST and done:
        tables.insert(0, ReportTable("best_trials", "Best trials", rows[: min(_BEST, len(done))], columns))
    notes = [_objective_note(settings)]
    if done:
        notes.append(f"{BEST}, beside the runs, is the configuration of the best: {shown(done[0].params)}.")
        if trials[0].state == TrialState.COMPLETE and "fixed_params" in trials[0].system_attrs:
            notes.append(f"Trial 0 is the configuration before the search: {_value(trials[0]):.4g}.")
        notes.append(
            "The best of many noisy results is too high: before you report it, train again with other seeds."
        )
    else:
        notes.append("No trial is finished yet.")
    return Section("Trials", notes, tables=tables)


def _row(trial: FrozenTrial) -> dict[str, Any]:
    value = trial.value if trial.state == TrialState.COMPLETE else None
    return {"trial": trial.number, "objective": value, **trial.params, "state": _STATES[trial.state]}


def _parameter_column(name: str) -> ReportColumn:
    def show(row: Row) -> str:
        value = row.get(name, "–")
        return f"{value:.4g}" if isinstance(value, float) else str(value)

    return ReportColumn(name, show)


def _history_section(trials: Sequence[FrozenTrial], folder: Path) -> Section:
    file = "history.png"
    values = {
        trial.number: trial.value
        for trial in trials
        if trial.state in (TrialState.COMPLETE, TrialState.PRUNED) and trial.value is not None
    }
    pruned = {trial.number for trial in trials if trial.state == TrialState.PRUNED}
    pictures.history(folder / file, values, pruned)
    caption = (
        "Objective by trial; the line is the best so far. Crosses are pruned trials, at their last return."
    )
    return Section("History", pictures=[Picture(file, caption)])


def _importance_section(study: optuna.Study, done: Sequence[FrozenTrial], folder: Path) -> Section:
    title = "Importance of the parameters"
    if len(done) < _FEWEST:
        return Section(title, [f"Importance needs {_FEWEST} finished trials; there are {len(done)}."])
    if len(study.best_params) < 2 or len({trial.value for trial in done}) < 2:
        return Section(title, ["Importance needs two parameters and trials that differ in their objective."])
    found = importances(study)
    file = "importances.png"
    pictures.importances(folder / file, found)
    rows = [{"parameter": name, "importance": value} for name, value in found.items()]
    columns = [
        ReportColumn("parameter", lambda row: row["parameter"], is_text=True),
        ReportColumn("importance", lambda row: f"{row['importance']:.3f}"),
    ]
    note = (
        f"PED-ANOVA (Watanabe et al. 2023): how much the values of the best {_BEST_SHARE:.0%} of the finished"
        " trials differ from those of all, in shares of 1. With few trials it is a rough guide."
    )
    table = ReportTable("importances", "Importances", rows, columns, [note])
    return Section(title, pictures=[Picture(file, "Importance by PED-ANOVA.")], tables=[table])


def importances(study: optuna.Study) -> Mapping[str, float]:
    """Return the share of each parameter in the importance of all, largest first; by PED-ANOVA."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of few trials, which the report says itself
        evaluator = PedAnovaImportanceEvaluator(target_quantile=_BEST_SHARE)
        return get_param_importances(study, evaluator=evaluator)


def _parallel_section(
    settings: SearchSettings, trials: Sequence[FrozenTrial], done: Sequence[FrozenTrial], folder: Path
) -> Section:
    file = "parallel.png"
    drawn = [*reversed(done), *(trial for trial in trials if trial.state == TrialState.PRUNED)]
    axes = [_axis(parameter, drawn) for parameter in settings.parameters]
    values = [trial.value if trial.state == TrialState.COMPLETE else None for trial in drawn]
    pictures.parallel(folder / file, axes, values)
    caption = "A line for each finished trial, coloured by its objective; grey lines are pruned trials."
    return Section("Parallel coordinates", pictures=[Picture(file, caption)])


def _axis(parameter: SearchParameter, trials: Sequence[FrozenTrial]) -> pictures.ParallelAxis:
    values = [trial.params[parameter.name] for trial in trials]
    found = parameter.distribution
    if isinstance(found, CategoricalDistribution):
        places = [float(found.choices.index(value)) for value in values]
        ticks = {float(place): str(choice) for place, choice in enumerate(found.choices)}
        return pictures.ParallelAxis(parameter.name, places, (0.0, max(1.0, len(found.choices) - 1.0)), ticks)
    assert isinstance(found, IntDistribution | FloatDistribution)
    return pictures.ParallelAxis.of_range(parameter.name, values, found.low, found.high, found.log)
