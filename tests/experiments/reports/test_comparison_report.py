"""Reports of several runs beside each other: which are seeds of one variant, and what differs."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from entitize.cli import write_comparison, write_report
from entitize.experiments import UserError

from facts import raises

Run = Callable[..., tuple[int, str, str]]


def write_run(
    run: Path, value: float, *, seed: int = 0, env: str = "Count", network: str = "RogueNet", **net: Any
) -> Path:
    """Write a run of 1 million steps whose return is `value` plus the millions of steps."""
    run.mkdir(parents=True)
    config = {
        "env": {"id": env, "num_envs": 4},
        "network": network,
        ("net" if network == "RogueNet" else "baseline"): net,
        "ppo": {"total_timesteps": 1_000_000, "seed": seed},
    }
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    lines = [
        {"step": step, "charts/episodic_return": value + step / 1e6, "time/elapsed": step / 1000}
        for step in range(100_000, 1_000_001, 100_000)
    ]
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return run


def rows(folder: Path, table: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO((folder / f"{table}.csv").read_text())))


def test_runs_that_differ_in_the_seed_are_one_variant(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / f"narrow_{seed}", 2 + seed, seed=seed, d_model=16) for seed in range(3)]
    runs += [write_run(tmp_path / f"wide_{seed}", 5 + seed, seed=seed, d_model=32) for seed in range(3)]
    write_comparison(runs, tmp_path / "report")
    narrow, wide = rows(tmp_path / "report", "variants")
    assert (narrow["variant"], wide["variant"]) == ("narrow_0 (3 seeds)", "wide_0 (3 seeds)")
    # the last tenth of the steps has a return of 1.0 above the value of the run
    assert [float(narrow[f"return_{name}"]) for name in ("mean", "low", "high")] == pytest.approx([4, 3, 5])
    assert float(wide["difference_mean"]) == pytest.approx(3) and narrow["difference_mean"] == ""
    assert 1 < float(wide["difference_low"]) < 3 < float(wide["difference_high"]) < 5
    assert wide["compared_at"] == "1000000"
    assert rows(tmp_path / "report", "settings") == [
        {"setting": "net.d_model", "narrow_0 (3 seeds)": "16", "wide_0 (3 seeds)": "32"}
    ]
    assert {path.name for path in (tmp_path / "report").glob("*.png")} == {
        "curves_steps.png",
        "curves_hours.png",
    }


def test_networks_of_the_users_own_differ_by_their_options(tmp_path: Path) -> None:
    narrow = write_run(tmp_path / "narrow", 1, network="gone:MyNet", width=4)
    wide = write_run(tmp_path / "wide", 2, network="gone:MyNet", width=8, seed=1)
    write_comparison([narrow, wide], tmp_path / "report")
    assert rows(tmp_path / "report", "settings") == [
        {"setting": "baseline.width", "narrow": "4", "wide": "8"}
    ]


def test_runs_are_called_by_where_they_differ_and_by_environment(tmp_path: Path) -> None:
    names = ("old/runs/count/net/0", "new/runs/count/net/0", "new/runs/paint/net/0")
    envs = ("Count", "Count", "Paint")
    runs = [write_run(tmp_path / name, 1, env=env) for name, env in zip(names[1:], envs[1:], strict=True)]
    runs.append(write_run(tmp_path / names[0], 1, d_model=8))
    write_comparison(runs, tmp_path / "report")
    found = [(row["game"], row["variant"]) for row in rows(tmp_path / "report", "variants")]
    assert found == [("Count", "new/runs/count"), ("Count", "old"), ("Paint", "new/runs/paint")]


def test_the_command_and_its_mistakes(tmp_path: Path, entitize: Run) -> None:
    first, second = write_run(tmp_path / "first", 1), write_run(tmp_path / "second", 2, d_model=8)
    out = tmp_path / "report"
    code, printed, _ = entitize("report", first, second, "--out", out)
    assert code == 0 and str(out / "report.html") in printed
    assert "first and second" in (out / "report.md").read_text()
    for wrong, words in (
        ((first, second), ["--out"]),
        ((first, second, first, "--out", out), [str(first), "twice"]),
        ((first, tmp_path, "--out", out), [str(tmp_path), "config.yaml"]),
        ((tmp_path, tmp_path / ".", "--out", out), [str(tmp_path), "twice"]),
        ((), ["PATH"]),
    ):
        code, _, error = entitize("report", *wrong)
        assert code == 2 and all(word in error for word in words), error


def test_runs_without_an_episode_have_no_curve(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / "first", 1), write_run(tmp_path / "second", 2, d_model=8)]
    for run in runs:
        (run / "metrics.jsonl").write_text('{"step": 8}\n')
    write_comparison(runs, tmp_path / "report")
    assert not list((tmp_path / "report").glob("*.png"))
    with raises(UserError, tmp_path / "first", "twice"):
        write_comparison([runs[0], runs[0]], tmp_path / "report")


def write_experiment(directory: Path, seeds: list[int], **asked: object) -> Path:
    """Write an ablation in Count whose returns are those of the seeds."""
    for name in ("none", "narrow"):
        for seed in seeds:
            run = directory / "runs" / "count" / name / str(seed)
            write_run(run, seed, seed=seed, d_model=16 if name == "narrow" else 32)
    written = {"kind": "ablation", "study": "width", "baseline": "none", "cases": ["count"]}
    written |= {"networks": ["none", "narrow"], "seeds": seeds, **asked}
    (directory / "experiment.yaml").write_text(yaml.safe_dump(written))
    return directory


def test_seeds_of_several_experiments_are_one_report(tmp_path: Path, entitize: Run) -> None:
    parts = [write_experiment(tmp_path / name, seeds) for name, seeds in (("a", [2]), ("b", [0, 1]))]
    assert entitize("report", *parts, "--out", tmp_path / "both")[0] == 0
    write_report(write_experiment(tmp_path / "whole", [0, 1, 2]), tmp_path / "one")
    assert rows(tmp_path / "both", "variants") == rows(tmp_path / "one", "variants")
    assert (tmp_path / "both/report.md").read_text() == (tmp_path / "one/report.md").read_text()


def test_experiments_that_cannot_be_one_report(tmp_path: Path, entitize: Run) -> None:
    first = write_experiment(tmp_path / "first", [0])
    other_study = write_experiment(tmp_path / "other_study", [1], study="depth")
    wider = write_experiment(tmp_path / "wider", [1])
    config = wider / "runs/count/narrow/1/config.yaml"
    config.write_text(config.read_text().replace("d_model: 16", "d_model: 64"))
    again = write_experiment(tmp_path / "again", [0])
    for other, words in (
        (other_study, ["study", "'width'", "'depth'"]),
        (wider, ["runs/count/narrow/1", "net.d_model", "16", "64"]),
        (again, [str(first), str(again), "count/narrow/0"]),
        (tmp_path, [str(tmp_path), "runs/<case>/<network>/<seed>"]),
    ):
        code, _, error = entitize("report", first, other, "--out", tmp_path / "report")
        assert code == 2 and all(word in error for word in words), error
    assert not (tmp_path / "report").exists()
