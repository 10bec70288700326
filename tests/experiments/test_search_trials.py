"""Trials between Optuna and the queue: results and pruning, with metrics that the tests write."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from entitize.adapters.procgen import GAMES
from entitize.experiments import TrainConfig, UserError, read_config
from entitize.experiments.procgen import normalize
from entitize.experiments.queue import TrainingJob
from entitize.experiments.search import (
    REPORTS,
    SearchSettings,
    TrialSource,
    load_study,
    make_study,
    objective_of,
    open_search,
    read_parameters,
    running_values,
    search_report,
)
from entitize.experiments.search.report import write_best
from entitize.experiments.search.settings import Pruner
from entitize.trainers import PPOConfig
from optuna import copy_study
from optuna.storages import InMemoryStorage
from optuna.trial import TrialState
from rich.console import Console

from facts import raises

STEPS = 1000


def settings(
    games: tuple[str, ...] = ("MineSweeper",), seeds: int = 1, pruner: Pruner = "median", **changes: object
) -> SearchSettings:
    base = replace(TrainConfig(ppo=PPOConfig(total_timesteps=STEPS)), **changes)  # type: ignore[arg-type]
    return SearchSettings(base, tuple(read_parameters(["ppo.gamma=0.5..1"], base)), games, seeds, pruner)


def source_of(
    folder: Path, chosen: SearchSettings, trials: int = 100, storage: InMemoryStorage | None = None
) -> TrialSource:
    """With a study in memory: SQLite waits for the disk at every report."""
    study = make_study(chosen, storage or InMemoryStorage())
    return TrialSource(chosen, folder, study, trials, Console(file=StringIO()), pause=0)


def source_in(folder: Path, chosen: SearchSettings, trials: int = 100) -> TrialSource:
    open_search(folder, chosen)
    study = load_study(chosen, folder)
    return TrialSource(chosen, folder, study, trials, Console(file=StringIO()), pause=0)


def write(
    folder: Path, job: TrainingJob, returns: dict[int, float], name: str = "charts/episodic_return"
) -> None:
    run = job.folder(folder)
    run.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"step": step, name: value}) + "\n" for step, value in returns.items()]
    (run / "metrics.jsonl").write_text("".join(lines))


def curve(value: float, until: int = STEPS) -> dict[int, float]:
    return {step: value * step / STEPS for step in range(50, until + 1, 50)}


# -- objective -----------------------------------------------------------------------------------------------


def test_the_objective_is_the_mean_over_the_last_quarter(tmp_path: Path) -> None:
    chosen = settings(seeds=2)
    jobs = chosen.jobs(0, {})
    write(tmp_path, jobs[0], {100: 0.0, 750: 1.0, 800: 2.0, 1000: 4.0})
    write(tmp_path, jobs[1], {100: 0.0, 1000: 9.0})
    assert objective_of(chosen, jobs[:1], tmp_path) == 3.0
    assert objective_of(chosen, jobs, tmp_path) == 6.0


def test_long_runs_have_the_return_of_reports(tmp_path: Path) -> None:
    chosen = settings()
    write(tmp_path, chosen.jobs(0, {})[0], {24_000_000: 1.0, 24_600_000: 2.0, 25_000_000: 4.0})
    assert objective_of(chosen, chosen.jobs(0, {}), tmp_path) == 3.0


def test_returns_of_several_games_are_normalized(tmp_path: Path) -> None:
    games = list(GAMES)[:2]
    chosen = settings(games=tuple(f"Procgen/{game}" for game in games))
    for value, job in zip((5.0, 3.0), chosen.jobs(0, {}), strict=True):
        write(tmp_path, job, {1000: value})
    expected = (normalize(games[0], 5.0) + normalize(games[1], 3.0)) / 2
    assert math.isclose(objective_of(chosen, chosen.jobs(0, {}), tmp_path), expected)


def test_the_last_evaluation_is_the_objective_where_there_are_some(tmp_path: Path) -> None:
    base = TrainConfig()
    chosen = settings(eval=replace(base.eval, every=500))
    job = chosen.jobs(0, {})[0]
    with raises(UserError, job.name, job.folder(tmp_path)):
        objective_of(chosen, [job], tmp_path)
    write(tmp_path, job, {1000: 9.0})
    with raises(UserError, job.name, "evaluation"):
        objective_of(chosen, [job], tmp_path)
    write(tmp_path, job, {500: 1.0, 1000: 2.0}, "eval/episodic_return")
    assert objective_of(chosen, [job], tmp_path) == 2.0


# -- running returns and pruning -----------------------------------------------------------------------------


def test_running_values_do_not_depend_on_when_they_are_read() -> None:
    config = settings().base
    lines = [{"step": 30}, *({"step": step, "charts/episodic_return": step} for step in (60, 100, 260, 1000))]
    values = running_values(config, lines)
    assert values[:5] == [60, 100, 260, 260, 260] and values[5:] == [1000] * (REPORTS - 6)
    assert running_values(config, lines[:4]) == values[:5]
    assert math.isnan(running_values(config, [{"step": 60}])[0])
    limited = replace(config, max_minutes=1.0)  # half of the time is over
    assert len(running_values(limited, [{"step": 60, "time/elapsed": 30.0}])) == REPORTS // 2


def finish(source: TrialSource, folder: Path, value: float) -> None:
    (job,) = source.more()
    write(folder, job, curve(value))
    source.finish(job)


@pytest.mark.parametrize("pruner", ["median", "asha", "none"])
def test_a_bad_trial_is_pruned_and_a_good_one_is_not(tmp_path: Path, pruner: Pruner) -> None:
    source = source_of(tmp_path, settings(pruner=pruner))
    for value in (5.0, 1.0, 2.0, 3.0, 4.0, 5.0):
        finish(source, tmp_path, value)
    bad, good = source.more()[0], source.more()[0]
    write(tmp_path, bad, curve(0.1, until=150))
    write(tmp_path, good, curve(9.0, until=600))
    assert source.given_up() == set()  # a quarter of training is not over
    write(tmp_path, bad, curve(0.1, until=600))
    assert source.given_up() == ({bad.name} if pruner != "none" else set())
    states = [trial.state for trial in source.study.trials]
    assert states[:6] == [TrialState.COMPLETE] * 6
    assert states[6] == (TrialState.PRUNED if pruner != "none" else TrialState.RUNNING)
    assert states[7] == TrialState.RUNNING
    write(tmp_path, good, curve(9.0))
    source.finish(good)
    source.finish(bad)  # it ended before it was stopped
    assert source.study.best_trial.number == 7


def test_a_trial_that_was_trained_to_its_end_is_not_pruned(tmp_path: Path) -> None:
    source = source_of(tmp_path, settings(pruner="median"))
    for value in (5.0, 1.0, 2.0, 3.0, 4.0, 5.0):
        finish(source, tmp_path, value)
    (bad,) = source.more()
    write(tmp_path, bad, curve(0.1))
    assert source.given_up() == set()
    source.finish(bad)
    assert source.study.trials[6].state == TrialState.COMPLETE


def test_a_failed_run_fails_its_trial_and_the_search_goes_on(tmp_path: Path) -> None:
    source = source_in(tmp_path, settings(seeds=2), trials=2)
    first, second = source.more()
    source.fail(first, "a NaN")
    source.fail(second, "stopped")
    assert source.given_up() == {first.name, second.name}
    for job in (jobs := source.more()):
        write(tmp_path, job, curve(1.0))
        source.finish(job)
    assert len(jobs) == 2 and source.more() == []
    states = [trial.state for trial in source.study.trials]
    assert states == [TrialState.FAIL, TrialState.COMPLETE]
    source.report()
    assert isinstance(source.console.file, StringIO)
    told = source.console.file.getvalue()
    assert f"1 of 2 trials are finished in {tmp_path}, 1 failed\n" in told
    again = source_in(tmp_path, settings(seeds=2), trials=2)  # failed trials don't count then
    assert len(again.more()) == 2 and again.more() == []


def test_a_trial_without_a_return_fails(tmp_path: Path) -> None:
    source = source_of(tmp_path, settings(), trials=1)
    (job,) = source.more()
    source.finish(job)
    assert [trial.state for trial in source.study.trials] == [TrialState.FAIL] and source.has_failed


def test_values_of_a_finished_trial_are_not_trained_again(tmp_path: Path) -> None:
    base = TrainConfig(ppo=PPOConfig(total_timesteps=STEPS))
    parameters = tuple(read_parameters(["ppo.norm_adv=true,false"], base))
    source = source_of(tmp_path, SearchSettings(base, parameters, ("MineSweeper",), 1, "none"), trials=8)
    trained = 0
    while jobs := source.more():
        trained += 1
        write(tmp_path, jobs[0], curve(float(jobs[0].config.ppo.norm_adv)))
        source.finish(jobs[0])
    assert trained == 2
    assert [trial.value for trial in source.study.trials] == [
        pytest.approx(0.9) if trial.params["ppo.norm_adv"] else 0.0 for trial in source.study.trials
    ]
    assert len(source.study.trials) == 8


# -- continuing ----------------------------------------------------------------------------------------------


def test_unfinished_trials_continue_with_their_values(tmp_path: Path) -> None:
    source = source_in(tmp_path, settings(), trials=4)
    assert source.unfinished() == []
    finish(source, tmp_path, 1.0)
    (job,) = source.more()
    again = source_in(tmp_path, settings(), trials=4)
    assert again.unfinished() == [job]
    write(tmp_path, job, curve(2.0))
    again.finish(job)
    assert len([again.more(), again.more(), again.more()][2]) == 0  # four in all
    values = [trial.params["ppo.gamma"] for trial in again.study.trials]
    assert len(set(values)) == 4


def test_a_trial_without_all_values_is_given_up(tmp_path: Path) -> None:
    source = source_in(tmp_path, settings(), trials=1)
    source.study.ask()  # as after a kill before the values are drawn
    assert source_in(tmp_path, settings(), trials=1).unfinished() == []
    assert source.study.trials[0].state == TrialState.FAIL


def test_the_first_trial_is_the_configuration_itself(tmp_path: Path) -> None:
    source = source_of(tmp_path, settings())
    assert source.more()[0].config.ppo.gamma == TrainConfig().ppo.gamma
    assert source.more()[0].config.ppo.gamma != TrainConfig().ppo.gamma


def test_the_folder_of_a_search_may_have_any_name(tmp_path: Path) -> None:
    folder = tmp_path / "50%25? {lr} ü"
    source_in(folder, settings()).more()
    assert (folder / "search.db").exists()
    assert len(source_in(folder, settings()).unfinished()) == 1


# -- report --------------------------------------------------------------------------------------------------


def test_the_report_ranks_trials_and_parameters(tmp_path: Path) -> None:
    base = TrainConfig(ppo=PPOConfig(total_timesteps=STEPS))
    words = [
        "ppo.gamma=0.5..1",
        "ppo.learning_rate=log:1e-4..1e-2",
        "net.d_model=8,16",
        "ppo.num_steps=8..64",
    ]
    chosen = SearchSettings(base, tuple(read_parameters(words, base)), ("MineSweeper",), 1, "none")
    open_search(tmp_path, chosen)
    storage = InMemoryStorage()
    source = source_of(tmp_path, chosen, storage=storage)
    for _ in range(24):
        (job,) = source.more()
        write(tmp_path, job, {1000: job.config.ppo.gamma})  # the return is γ
        source.finish(job)
    source.more()
    copy_study(
        from_study_name="search", from_storage=storage, to_storage=f"sqlite:///{tmp_path / 'search.db'}"
    )
    document = search_report(tmp_path, tmp_path / "report")
    tables = {table.name: table for table in document.tables}
    rows = tables["best_trials"].rows
    values = [row["objective"] for row in rows]
    assert len(values) == 10 and values == sorted(values, reverse=True)
    assert rows[0]["objective"] == rows[0]["ppo.gamma"] == source.study.best_value
    assert len(tables["trials"].rows) == 25
    assert tables["importances"].rows[0]["parameter"] == "ppo.gamma"
    shares = [row["importance"] for row in tables["importances"].rows]
    assert len(shares) == 4 and math.isclose(sum(shares), 1)
    for name in ("history", "importances", "parallel"):
        assert (tmp_path / "report" / f"{name}.png").stat().st_size > 5000


def test_a_search_without_a_result_has_a_report(tmp_path: Path) -> None:
    source = source_in(tmp_path, settings())
    source.more()
    document = search_report(tmp_path, tmp_path / "report")
    assert [table.name for table in document.tables] == ["trials"]
    assert not (tmp_path / "best.yaml").exists()


def test_a_trial_is_not_pruned_because_no_episode_has_ended(tmp_path: Path) -> None:
    source = source_of(tmp_path, settings(pruner="median"))
    for value in (5.0, 1.0, 2.0, 3.0, 4.0, 5.0):
        finish(source, tmp_path, value)
    (slow,) = source.more()
    write(tmp_path, slow, curve(1.0, until=600), "losses/entropy")
    assert source.given_up() == set()
    assert source.study.trials[6].state == TrialState.RUNNING


def test_a_trial_is_pruned_while_one_of_its_runs_still_trains(tmp_path: Path) -> None:
    source = source_of(tmp_path, settings(seeds=2, pruner="median"))
    for value in (5.0, 1.0, 2.0, 3.0, 4.0, 5.0):
        for job in (jobs := source.more()):
            write(tmp_path, job, curve(value))
        for job in jobs:
            source.finish(job)
    over, running = source.more()
    write(tmp_path, over, curve(0.1))
    write(tmp_path, running, curve(0.1, until=600))
    assert source.given_up() == {over.name, running.name}


def test_the_best_configuration_has_the_seed_of_the_base(tmp_path: Path) -> None:
    chosen = settings(ppo=PPOConfig(total_timesteps=STEPS, seed=7))
    source = source_of(tmp_path, chosen)
    (job,) = source.more()
    write(tmp_path, job, curve(1.0))
    source.finish(job)
    write_best(tmp_path, chosen, source.study.best_trial)
    assert read_config(TrainConfig, tmp_path / "best.yaml").ppo.seed == 7 != job.seed
