"""Reports of single run folders: of `entitize train`, of PPO and cloning in Python, of Procgen."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import entitize as ez
import pytest
import yaml
from entitize.cli import write_report
from entitize.experiments import EnvConfig, UserError
from entitize.experiments.reports import read_single_run

from facts import raises

Run = Callable[..., tuple[int, str, str]]


def write_run(run: Path, config: object, metrics: list[dict[str, float]]) -> Path:
    run.mkdir(parents=True)
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in metrics))
    return run


def results(out: Path) -> dict[str, str]:
    (row,) = csv.DictReader(io.StringIO((out / "run.csv").read_text()))
    return row


def test_a_run_of_the_command_line(trained: Path, tmp_path: Path, entitize: Run) -> None:
    code, out, error = entitize("report", trained, "--out", tmp_path / "report")
    assert (code, error) == (0, "") and str(tmp_path / "report" / "report.html") in out
    row = results(tmp_path / "report")
    assert (row["environment"], row["network"], row["steps_max"]) == ("MineSweeper", "roguenet", "32")
    assert (row["done"], row["seeds"]) == ("1", "1")
    assert "Code and machines" in (tmp_path / "report" / "report.md").read_text()


def test_the_last_and_the_best_return(tmp_path: Path) -> None:
    returns = [1.0, 4.0, 3.5]
    metrics = [
        {"step": 100 * i, "charts/episodic_return": value, "time/elapsed": 36.0 * i}
        for i, value in enumerate(returns, 1)
    ]
    config = {"env": {"id": "Count"}, "ppo": {"total_timesteps": 1000, "seed": 7}}
    run = write_run(tmp_path / "first", config, [{"step": 50}, *metrics])
    document = write_report(run, run / "report")
    row = results(run / "report")
    assert [float(row[name]) for name in ("last", "best", "hours")] == pytest.approx([3.5, 4.0, 0.03])
    assert (row["seed"], row["steps_max"], row["steps_asked"]) == ("7", "300", "1000")
    assert (run / "report" / "curve.png").is_file() and "first" in document.title
    assert "300 of 1k" in (run / "report" / "report.md").read_text()


@pytest.mark.parametrize("network", ["RogueNet", "MyNetwork"])
def test_runs_of_python_without_names(tmp_path: Path, network: str) -> None:
    config = {"env": {"id": None, "num_envs": 2}, "network": network, "baseline": {"mine": 1}}
    run = write_run(tmp_path / "mine", config, [{"step": 8, "charts/episodic_return": 2.0}])
    write_report(run, tmp_path / "report")
    row = results(tmp_path / "report")
    assert "unnamed" in row["environment"] and row["network"].lower() == network.lower()


def test_a_run_of_cloning(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    with ez.make_vec("Count", 2) as venv:
        ez.record(venv, None, tmp_path / "plays", steps=20)
        net = ez.RogueNet(venv.single_observation_space, venv.single_action_space, d_model=8, n_layer=1)
    dataset = ez.datasets.EntityDataset(tmp_path / "plays")
    config = ez.BehaviorCloningConfig(epochs=2)
    ez.BehaviorCloning(net, dataset, config, tmp_path / "clone").train()
    write_report(tmp_path / "clone", tmp_path / "report")
    row = results(tmp_path / "report")
    assert float(row["last"]) <= float(row["best"]) < 0
    text = (tmp_path / "report" / "report.md").read_text()
    assert "log-likelihood" in text and "unfinished" not in text
    assert (tmp_path / "report" / "curve.png").is_file()


def test_a_run_without_returns_and_a_run_of_procgen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(env: EnvConfig, trained: EnvConfig) -> None:
        raise UserError("not counted")

    monkeypatch.setattr("entitize.experiments.reports.network_costs.make_whole_games", refuse)
    config = {"env": {"id": "Procgen/bigfish"}}
    silent = write_run(tmp_path / "silent", config, [{"step": 8}])
    write_report(silent, silent / "report")
    assert results(silent / "report")["last"] == ""
    assert "no episode has ended" in (silent / "report" / "report.md").read_text()
    run = write_run(tmp_path / "fish", config, [{"step": 1_000_000, "charts/episodic_return": 4.9}])
    write_report(run, run / "report")
    text = (run / "report" / "report.md").read_text()
    assert "| bigfish | RogueNet |" in text and "Published IMPALA" in text


def test_a_run_on_several_maps_is_not_called_by_the_first(tmp_path: Path) -> None:
    maps = ["basesWorkers8x8", "basesWorkers16x16"]
    config = {"env": {"id": "MicroRTS/basesWorkers8x8", "kwargs": {"maps": maps}}}
    record = read_single_run(write_run(tmp_path / "two", config, [{"step": 8}]))
    assert record.case == "basesWorkers8x8 and 1 other map"


def test_a_damaged_configuration_is_one_error(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", {"ppo": {"seed": "x"}}, [{"step": 8}])
    with raises(UserError, run / "config.yaml", "seed"):
        write_report(run, run / "report")


def test_the_seed_of_a_clone_is_that_of_its_cloning(tmp_path: Path) -> None:
    venv = ez.make_vec("MineSweeper", num_envs=2)
    dataset = ez.datasets.EntityDataset(ez.record(venv, None, tmp_path / "plays", steps=20))
    net = ez.RogueNet(dataset.space, dataset.space.actions, d_model=8, n_layer=1)
    config = ez.BehaviorCloningConfig(epochs=1, minibatch_size=32, seed=7)
    ez.BehaviorCloning(net, dataset, config, tmp_path / "clone").train()
    write_report(tmp_path / "clone", tmp_path / "report")
    assert results(tmp_path / "report")["seed"] == "7"


def test_the_report_of_a_run_of_games_that_connect_waits_for_none(tmp_path: Path) -> None:
    env = {"id": "entitize.adapters.programs:listen", "kwargs": {"address": "127.0.0.1:0"}}
    run = write_run(tmp_path / "run", {"env": env}, [{"step": 8, "charts/episodic_return": 4.5}])
    write_report(run, run / "report")
    assert float(results(run / "report")["last"]) == 4.5
