"""Reports of made-up runs, whose numbers are worked out by hand."""

from __future__ import annotations

import base64
import csv
import gzip
import io
import json
import math
import re
import shutil
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import entitize as ez
import numpy as np
import pytest
import yaml
from entitize.cli import write_report
from entitize.envs import sample_actions
from entitize.experiments import EnvConfig, TrainConfig, UserError, to_yaml
from entitize.experiments.procgen import IMPALA_MEAN_NORMALIZED, IMPALA_STEPS
from entitize.experiments.queue import read_runs
from entitize.experiments.reports import (
    MILESTONES,
    Document,
    ReportColumn,
    ReportTable,
    Section,
    aggregate_rows,
    as_html,
    as_markdown,
    count_entities,
    csv_text,
    improvement_rows,
    measure,
    run_table,
    short_steps,
    variants_by_game,
)
from entitize.experiments.reports.measured_runs import origin_section
from entitize.experiments.reports.procgen_aggregates import aggregate_curves, headlines
from entitize.trainers import PPOConfig, write_checkpoint
from PIL import Image

from facts import raises

CHECKOUT = Path(__file__).resolve().parents[3]
UPDATE = 100_000  # steps between two lines of the made-up metrics


def make_run(
    directory: Path,
    name: str,
    points: list[tuple[int, float]],
    *,
    env: str = "Procgen/bigfish",
    total: int = 2_000_000,
    packed: bool = False,
    **options: Any,
) -> Path:
    """A run whose return is on the line through `points` (steps, return), at 1000 steps per second."""
    run = directory / "runs" / name
    run.mkdir(parents=True)
    kwargs = {"features": "pixels"} if options.get("network") == "ImpalaNet" else {}
    settings = TrainConfig(
        EnvConfig(env, num_envs=100, kwargs=kwargs),
        ppo=PPOConfig(total_timesteps=total, num_steps=UPDATE // 100),
        **options,
    )
    (run / "config.yaml").write_text(to_yaml(settings))
    steps = range(UPDATE, points[-1][0] + 1, UPDATE)
    values = np.interp(steps, *zip(*points, strict=True))
    lines = [
        {"step": step, "charts/episodic_return": value, "time/elapsed": step / 1000}
        for step, value in zip(steps, values.tolist(), strict=True)
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    if packed:
        (run / "metrics.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    else:
        (run / "metrics.jsonl").write_text(text + '{"step": 99999999, "charts/epis')  # being written
    write_checkpoint(run / "checkpoints", steps[-1], {}, {"elapsed_seconds": steps[-1] / 1000})
    return run


def read_csv(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text())))


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two games with RogueNet, one with IMPALA as well, one that is missing, and a run without metrics."""
    directory = tmp_path_factory.mktemp("experiment")
    flat = [(0, 4.9), (2_000_000, 4.9)]  # bigfish: (4.9 - 1) / 39 = 0.1
    make_run(directory, "bigfish/roguenet/0", flat)
    make_run(directory, "bigfish/roguenet/1", [(0, 8.8), (2_000_000, 8.8)], packed=True)  # 0.2
    make_run(directory, "bigfish/impala/0", [(0, 4.9), (1_000_000, 4.9)], network="ImpalaNet")  # unfinished
    make_run(directory, "maze/roguenet/0", [(0, 5.0), (2_000_000, 9.0)], env="Procgen/maze")
    begun = directory / "runs" / "maze" / "roguenet" / "1"
    begun.mkdir()
    (begun / "config.yaml").write_text(to_yaml(TrainConfig(EnvConfig("Procgen/maze"))))
    asked = {"cases": ["bigfish", "maze", "heist"], "networks": ["roguenet"], "seeds": [0, 1]}
    asked["kind"] = "procgen"
    (directory / "experiment.yaml").write_text(yaml.safe_dump(asked))
    part = {
        "from_step": 0,
        "started": "2026-01-01",
        "version": "0.1.0",
        "commit": "abc",
        "processor": "P",
        "cores": 2,
        "gpu": None,
        "python": "3",
        "torch": "2",
    }
    (directory / "runs" / "bigfish" / "roguenet" / "0" / "run.json").write_text(json.dumps({"parts": [part]}))
    write_report(directory, directory / "report")
    return directory


class Page(HTMLParser):
    """What a page shows and loads."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.text = ""
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loaded += [value or "" for name, value in attrs if name in ("src", "href", "srcset")]
        assert tag not in ("script", "link", "iframe")
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


class TestProcgen:
    def test_the_table_of_games(self, experiment: Path) -> None:
        ours, impala, maze = read_csv(experiment / "report" / "games.csv")
        assert [row["game"] for row in (ours, impala, maze)] == ["bigfish", "bigfish", "maze"]
        assert (ours["network"], impala["network"]) == ("roguenet", "impala")
        assert float(ours["return_mean"]) == pytest.approx(6.85)
        assert (float(ours["return_low"]), float(ours["return_high"])) == (4.9, 8.8)
        assert float(ours["normalised_mean"]) == pytest.approx(0.15)
        assert (ours["published"], ours["published_interpolated"]) == ("3.1", "False")
        assert float(ours["difference_mean"]) == pytest.approx(3.75)
        assert (ours["random"], ours["seeds"], ours["done"]) == ("0.9", "2", "2")
        assert float(ours["hours"]) == pytest.approx(2000 / 3600)
        assert float(ours["samples_per_second"]) == pytest.approx(1000)
        assert (impala["published"], impala["published_interpolated"]) == ("1.4", "False")
        assert (impala["done"], impala["steps_max"], impala["steps_asked"]) == ("0", "1000000", "2000000")
        # The last five updates: 1.6 to 2.0 million steps, of a line from 5 to 9.
        assert float(maze["return_mean"]) == pytest.approx(8.6)
        assert (maze["seeds"], maze["steps_min"], maze["problems"]) == ("2", "0", "seed 1: no metrics yet")
        assert maze["return_mean"] and maze["return_low"] == "", "one return has no range"

    def test_aggregates_at_the_steps_that_were_reached(self, experiment: Path) -> None:
        rows = read_csv(experiment / "report" / "aggregates.csv")
        known = {(row["steps"], row["network"]): row for row in rows}
        assert list(known) == [("1000000", "roguenet"), ("1000000", "impala"), ("2000000", "roguenet")]
        two = known["2000000", "roguenet"]
        assert (two["games"], two["runs"]) == ("2", "3")
        maze = (8.6 - 5) / 5  # 0.72
        assert float(two["mean_mean"]) == pytest.approx((0.15 + maze) / 2)
        assert float(two["optimality_gap_mean"]) == pytest.approx(1 - (0.15 + maze) / 2)
        # Weights 1/4, 1/4, 1/2 on 0.1, 0.2, 0.72; of three scores none is dropped.
        assert float(two["iqm_mean"]) == pytest.approx((0.1 + 0.2 + 2 * maze) / 4)
        # Both seeds of bigfish may be drawn alike: between 0.1 and 0.2.
        assert (two["mean_low"], two["mean_high"]) == ("", "")  # of two seeds and of one
        bigfish, published_maze = (3.1 - 1) / 39, (5.5 - 5) / 5
        assert float(two["published_mean"]) == pytest.approx((bigfish + published_maze) / 2)
        assert float(two["published_mean_16"]) == 0.193
        one = known["1000000", "impala"]
        assert (one["games"], one["mean_low"]) == ("1", "")
        assert float(one["published_mean"]) == pytest.approx((1.4 - 1) / 39)

    def test_the_probability_of_improvement_is_over_common_games(self, experiment: Path) -> None:
        (row,) = read_csv(experiment / "report" / "improvement.csv")
        assert (row["first"], row["second"], row["games"], row["names"]) == (
            "roguenet",
            "impala",
            "1",
            "bigfish",
        )
        assert float(row["probability_mean"]) == 0.75  # a tie with 4.9 and a win of 8.8
        assert (row["first_runs"], row["second_runs"]) == ("2", "1")

    def test_networks_are_counted(self, experiment: Path) -> None:
        bigfish, maze = read_csv(experiment / "report" / "costs.csv")
        with ez.make_vec("Procgen/bigfish", num_envs=1) as venv:
            space = venv.single_observation_space
            policy = ez.RogueNet(space, space.actions, **TrainConfig().net.to_dict())
        assert int(bigfish["parameters"]) == sum(part.numel() for part in policy.parameters())
        assert int(bigfish["impala_parameters"]) == 626_256
        assert float(bigfish["parameters_ratio"]) == pytest.approx(626_256 / int(bigfish["parameters"]))
        assert float(bigfish["mean_entities"]) == pytest.approx(
            sum(float(value) for name, value in bigfish.items() if name.startswith("mean ") and value)
        )
        assert float(bigfish["mean_entities"]) < int(bigfish["largest_entities"]) < 20
        assert maze["game"] == "maze"

    def test_the_page_is_one_file(self, experiment: Path) -> None:
        page = Page()
        page.feed((experiment / "report" / "report.html").read_text())
        assert not page.open or page.open == ["html"]
        assert page.loaded
        for address in page.loaded:
            kind, data = address.split(",", 1)
            assert kind == "data:image/png;base64"
            with Image.open(io.BytesIO(base64.b64decode(data))) as picture:
                assert picture.format == "PNG" and picture.width > 300
        for words in (
            "Without a run yet: heist/roguenet (seed 0, 1).",
            "Of the 16 games there are no runs of bossfight,",
            "bigfish/impala/0 (1M)",
            "unfinished: 1M of 2M",
            "results/ in openai/train-procgen",
            "RogueNet at 2M steps, 2 games: mean normalized return 0.435 (without an interval:",
            "last 100 episodes",
            "0.1.0, abc",
            "Unknown for 4 of the runs.",
        ):
            assert words in page.text

    def test_markdown_shows_pictures_that_are_there(self, experiment: Path) -> None:
        text = (experiment / "report" / "report.md").read_text()
        pictures = re.findall(r"!\[[^]]*\]\(([^)]+)\)", text)
        assert pictures == ["curves_steps.png", "curves_hours.png", "games.png", "aggregate.png"]
        assert all((experiment / "report" / name).is_file() for name in (*pictures, "bigfish.png"))
        assert "| bigfish | RogueNet | 6.85 [4.90, 8.80] | 3.10 | +3.75 | 0.90 | 0.150 | 2M | 2 |" in text
        assert "| bigfish | IMPALA, ours | 4.90 | 1.40 | +3.50 |" in text
        assert not list((experiment / "report").glob(".*"))

    def test_it_is_the_same_again(self, experiment: Path) -> None:
        table = run_table(read_runs(experiment))
        told = csv_text(aggregate_rows(table))
        assert told == (experiment / "report" / "aggregates.csv").read_text()
        assert len(improvement_rows(table)) == 1


def test_published_runs_are_known_where_runs_are_compared() -> None:
    assert set(MILESTONES) == set(IMPALA_MEAN_NORMALIZED) <= set(IMPALA_STEPS)


def test_what_is_between_published_points_is_marked(tmp_path: Path, no_environments: None) -> None:
    make_run(tmp_path, "bigfish/roguenet/0", [(0, 4.0), (3_500_000, 4.0)], total=3_500_000)
    write_report(tmp_path, tmp_path / "report")
    (row,) = read_csv(tmp_path / "report" / "games.csv")
    # Half of the way from 3.1 at 2 million steps to 8.6 at 5 million.
    assert float(row["published"]) == pytest.approx(5.85)
    assert row["published_interpolated"] == "True"
    text = (tmp_path / "report" / "report.md").read_text()
    assert "| bigfish | RogueNet | 4.00 | ~5.85 | -1.85 |" in text
    assert "in 0 of 1 game; in 1 of these that is between published points (~)." in text


def test_short_runs_are_not_beside_published_ones(tmp_path: Path, no_environments: None) -> None:
    points = [(0, 10.0), (400_000, 4.5)]  # early, only the episodes that are won have ended
    make_run(tmp_path, "maze/roguenet/0", points, env="Procgen/maze", total=400_000)
    write_report(tmp_path, tmp_path / "report")
    (row,) = read_csv(tmp_path / "report" / "games.csv")
    assert row["published"] == "" and row["difference_mean"] == "" and float(row["random"]) > 0
    assert "at as many steps" not in (tmp_path / "report" / "report.md").read_text().partition("##")[0]


def test_hard_levels_and_few_levels_are_not_beside_published_ones(tmp_path: Path) -> None:
    for seed, kwargs in enumerate(({"distribution_mode": "hard"}, {"num_levels": 200})):
        run = make_run(tmp_path, f"bigfish/roguenet/{seed}", [(0, 20.0), (1_000_000, 20.0)], total=1_000_000)
        settings = TrainConfig(EnvConfig("Procgen/bigfish", kwargs=kwargs))
        (run / "config.yaml").write_text(to_yaml(settings))
        (row,) = aggregate_rows({"bigfish": {"roguenet": [measure(read_runs(tmp_path)[seed])]}})
        assert row["published_mean"] is None
        assert row["mean_mean"] == pytest.approx(20 / 40 if seed == 0 else 19 / 39)


@pytest.mark.parametrize("hard", [0, 1])
def test_each_run_of_a_case_is_compared_by_its_own_levels(
    tmp_path: Path, no_environments: None, hard: int
) -> None:
    for seed in (0, 1):
        run = make_run(tmp_path, f"bigfish/roguenet/{seed}", [(0, 20.0), (1_000_000, 20.0)], total=1_000_000)
        kwargs = {"distribution_mode": "hard"} if seed == hard else {}
        config = TrainConfig(
            EnvConfig("Procgen/bigfish", kwargs=kwargs), ppo=PPOConfig(total_timesteps=1_000_000)
        )
        (run / "config.yaml").write_text(to_yaml(config))
    write_report(tmp_path, tmp_path / "report")
    (row,) = read_csv(tmp_path / "report" / "games.csv")
    assert float(row["normalised_mean"]) == pytest.approx((20 / 40 + 19 / 39) / 2)
    assert float(row["published"]) == 1.4 and row["random"] == ""
    assert float(row["difference_mean"]) == pytest.approx(18.6)  # of the run on easy levels alone
    (row,) = read_csv(tmp_path / "report" / "aggregates.csv")
    assert row["published_mean"] == ""


def test_metrics_that_cannot_be_read_are_a_problem_of_their_run(tmp_path: Path) -> None:
    run = make_run(tmp_path, "maze/roguenet/0", [(0, 1.0), (UPDATE, 1.0)])
    (run / "metrics.jsonl").write_text('{"step": 5, "charts/episodic_return": 1}\n' * 2)
    (record,) = read_runs(tmp_path)
    assert measure(record).problem == "metrics: after step 5 comes step 5"
    (run / "metrics.jsonl").write_text("")
    assert (measure(record).problem, measure(record).steps) == ("no metrics yet", UPDATE)
    (run / "metrics.jsonl").write_text("[1]\n")
    assert (measure(record).problem or "").startswith("metrics: ")
    (run / "metrics.jsonl").write_text('{"step": 5, "charts/episodic_return": NaN}\n')
    assert measure(record).problem == "metrics: there are returns that are no finite numbers"


def test_an_evaluation_that_is_written_after_its_step_takes_no_steps_back(tmp_path: Path) -> None:
    run = make_run(tmp_path, "maze/roguenet/0", [(0, 1.0), (3 * UPDATE, 1.0)])
    lines = (run / "metrics.jsonl").read_text().splitlines()[:3]
    late = json.dumps({"step": UPDATE, "eval/episodic_return": 2.0})
    (run / "metrics.jsonl").write_text("\n".join([*lines, late, ""]))
    measured = measure(read_runs(tmp_path)[0])
    assert (measured.steps, measured.seconds, measured.problem) == (3 * UPDATE, 300.0, None)
    assert measured.returns.steps.tolist() == [UPDATE, 2 * UPDATE, 3 * UPDATE]


def test_runs_that_cannot_be_read_are_named_and_left_out(tmp_path: Path, no_environments: None) -> None:
    for seed in range(3):
        make_run(tmp_path, f"maze/roguenet/{seed}", [(0, 1.0), (UPDATE, 1.0)], env="Procgen/maze")
    asked = {"kind": "procgen", "cases": ["maze", "heist"], "networks": ["roguenet", "impala"], "seeds": [0]}
    (tmp_path / "experiment.yaml").write_text(yaml.safe_dump(asked))
    runs = tmp_path / "runs" / "maze" / "roguenet"
    next(runs.glob("0/checkpoints/*/checkpoint.json")).write_text("{")
    (runs / "1" / "config.yaml").write_text("env: [")
    *_, first, second = write_report(tmp_path, tmp_path / "report").paragraphs
    assert first.startswith("Can't be read, and left out: ") and "it is no JSON" in first
    assert second.startswith("Can't be read, and left out: ") and "is not valid YAML" in second
    (row,) = read_csv(tmp_path / "report" / "games.csv")
    assert row["seeds"] == "1"
    text = (tmp_path / "report" / "report.md").read_text()
    assert "RogueNet: 1 run in 1 game, 100k steps." in text
    missing = ["maze/impala (seed 0)", "heist/roguenet (seed 0)", "heist/impala (seed 0)"]
    assert f"Without a run yet: {', '.join(missing)}." in text
    (runs / "2" / "config.yaml").write_text("env: [")
    with raises(UserError, "checkpoint.json", "JSON", "config.yaml"):
        write_report(tmp_path, tmp_path / "report")


@pytest.mark.parametrize(
    ("steps", "told"), [(25_001_984, "25M"), (1_015_808, "1.02M"), (512_000, "512k"), (0, "0")]
)
def test_steps_for_people(steps: int, told: str) -> None:
    assert short_steps(steps) == told


# -- what can't be done --------------------------------------------------------------------------------------


def test_what_is_no_experiment(tmp_path: Path, entitize: Callable[..., tuple[int, str, str]]) -> None:
    missing = tmp_path / "missing"
    assert entitize("report", missing) == (2, "", f"entitize: {missing}: expected a folder, got none\n")
    code, _, error = entitize("report", tmp_path)
    assert code == 2 and str(tmp_path) in error and "runs/<case>/<network>/<seed>" in error
    make_run(tmp_path, "a/roguenet/0", [(0, 1.0), (UPDATE, 1.0)], env="MineSweeper")
    with raises(UserError, "Procgen", "μRTS", "MineSweeper"):
        write_report(tmp_path, tmp_path / "report")
    asked = {"kind": "chess", "cases": [], "networks": [], "seeds": []}
    (tmp_path / "experiment.yaml").write_text(yaml.safe_dump(asked))
    with raises(UserError, "experiment.yaml", "kind", "'chess'"):
        write_report(tmp_path, tmp_path / "report")
    asked["kind"] = "ablation"
    (tmp_path / "experiment.yaml").write_text(yaml.safe_dump(asked))
    with raises(UserError, "experiment.yaml", "variant", "compare"):
        write_report(tmp_path, tmp_path / "report")
    assert not (tmp_path / "report").exists()


# -- other kinds ---------------------------------------------------------------------------------------------


@pytest.fixture
def no_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where an engine is not installed."""

    def refuse(env: EnvConfig, trained: EnvConfig) -> None:
        raise UserError(f"{env.id} can't be made")

    monkeypatch.setattr("entitize.experiments.reports.network_costs.make_whole_games", refuse)


def test_microrts(tmp_path: Path, no_environments: None) -> None:
    run = tmp_path / "runs" / "basesWorkers8x8" / "roguenet" / "0"
    shutil.copytree(CHECKOUT / "experiments" / "results" / "microrts_8x8", run)
    fresh = tmp_path / "runs" / "basesWorkers16x16" / "gridnet" / "0"
    fresh.mkdir(parents=True)
    settings = TrainConfig(EnvConfig("MicroRTS/basesWorkers16x16"), network="GridNet")
    (fresh / "config.yaml").write_text(to_yaml(settings))
    write_report(tmp_path, tmp_path / "report")
    rows = read_csv(tmp_path / "report" / "table.csv")
    known = {(row["map"], row["network"]): row for row in rows}
    assert len(known) == len(rows) == 6
    ours = known["basesWorkers8x8", "roguenet"]
    lines = (run / "eval_microrts" / "results.jsonl").read_text().splitlines()[1:]
    games: dict[str, Counter[str]] = {}
    for job in map(json.loads, lines):
        games.setdefault(job["job"]["bot"], Counter()).update(job["outcomes"])
    total = sum(played.total() for played in games.values())
    assert (ours["games"], ours["bots"]) == (str(total), str(len(games))) == ("860", "14")
    for name, outcome in (("wins", "win"), ("ties", "draw"), ("losses", "loss")):
        shares = [played[outcome] / played.total() for played in games.values()]
        assert float(ours[f"{name}_mean"]) == pytest.approx(np.mean(shares))
        assert float(ours[f"{name}_low"]) < np.mean(shares) < float(ours[f"{name}_high"])
    summary = json.loads((run / "eval_microrts" / "summary.json").read_text())
    (overall,) = [score for score in summary["scores"] if score["bot"] == "all"]
    assert float(ours["shaped_return_mean"]) == pytest.approx(overall["shaped_return"]["mean"])
    assert float(ours["hours"]) == pytest.approx(1.0, abs=0.01)
    assert ours["not_counted"] == "MicroRTS/basesWorkers8x8 can't be made"
    paper = known["basesWorkers16x16", "GridNet encoder-decoder"]
    assert (paper["wins_mean"], paper["shaped_return_mean"], paper["hours"]) == ("0.89", "180.8", "117.03")
    assert (paper["parameters"], paper["source"]) == ("838191", "huang")
    text = (tmp_path / "report" / "report.md").read_text()
    assert "Not evaluated yet (`entitize eval microrts RUN` does it): basesWorkers16x16/gridnet." in text
    assert "| coacAI | 5/1/94 [2, 11] | 99/1/0 |" in text
    assert "basesWorkers16x16/gridnet: seed 0: no metrics yet." in text
    assert (tmp_path / "report" / "outcomes.png").is_file()


def test_games_of_another_checkpoint_are_left_out(tmp_path: Path, no_environments: None) -> None:
    runs = tmp_path / "runs" / "basesWorkers8x8" / "roguenet"
    for seed in range(2):
        shutil.copytree(CHECKOUT / "experiments" / "results" / "microrts_8x8", runs / str(seed))
    write_checkpoint(runs / "0" / "checkpoints", 11_960_000, {}, {"elapsed_seconds": 3700.0})
    document = write_report(tmp_path, tmp_path / "report")
    (problem,) = [words for words in document.paragraphs if words.startswith("Left out: ")]
    for fact in ("basesWorkers8x8/roguenet/0", "step 11937792, SHA-256 f10ad40277dfd29b", "step 11960000"):
        assert fact in problem
    assert read_csv(tmp_path / "report" / "table.csv")[0]["games"] == "860", "only those of seed 1"
    shutil.rmtree(runs / "0" / "checkpoints")
    assert "no checkpoint" in " ".join(write_report(tmp_path, tmp_path / "report").paragraphs)


def test_the_way_that_games_were_played_in_is_that_of_the_files(
    tmp_path: Path, no_environments: None
) -> None:
    runs = tmp_path / "runs" / "basesWorkers8x8" / "roguenet"
    for seed in range(2):
        shutil.copytree(CHECKOUT / "experiments" / "results" / "microrts_8x8", runs / str(seed))
    for seed, names in ((0, ("sampled", "most probable")), (1, ("most probable",))):
        results = runs / str(seed) / "eval_microrts" / "results.jsonl"
        results.write_text(results.read_text().replace('"deterministic": false', '"deterministic": true', 1))
        write_report(tmp_path, tmp_path / "report")
        text = (tmp_path / "report" / "report.md").read_text()
        for name in ("sampled", "most probable"):
            assert (f"{name} actions, 2000 ticks at most" in text) == (name in names)
        assert ("basesWorkers8x8/roguenet/1)" in text) == (seed == 0)


def test_ablation(tmp_path: Path, no_environments: None) -> None:
    make_run(tmp_path, "maze/plain/0", [(0, 0.0), (2_000_000, 2.0)], env="Procgen/maze")
    make_run(tmp_path, "maze/plain/1", [(0, 0.0), (2_000_000, 4.0)], env="Procgen/maze")
    make_run(tmp_path, "maze/plain/2", [(0, 0.0), (2_000_000, 3.0)], env="Procgen/maze")
    make_run(tmp_path, "maze/wide/0", [(0, 5.0), (1_000_000, 5.0)], env="Procgen/maze")
    make_run(tmp_path, "maze/wide/1", [(0, 7.0), (1_000_000, 7.0)], env="Procgen/maze")
    make_run(tmp_path, "maze/wide/2", [(0, 6.0), (1_000_000, 6.0)], env="Procgen/maze")
    asked = {
        "kind": "ablation",
        "study": "width",
        "seeds": [0],
        "cases": ["maze"],
        "networks": ["plain", "wide", "deep"],
    }
    (tmp_path / "experiment.yaml").write_text(yaml.safe_dump({**asked, "baseline": "plain"}))
    write_report(tmp_path, tmp_path / "report")
    plain, wide = read_csv(tmp_path / "report" / "variants.csv")
    assert (plain["variant"], wide["variant"], wide["game"]) == ("plain", "wide", "maze")
    assert float(plain["return_mean"]) == pytest.approx(2.7)  # the last half million of lines to 2 and to 4
    assert plain["compared_at"] == ""
    assert wide["compared_at"] == "1000000"
    # At 1 million steps the baseline has 0.8 and 1.6 over the last half million.
    assert float(wide["difference_mean"]) == pytest.approx(6 - 1.2)
    assert 5 - 1.6 < float(wide["difference_low"]) < 4.8 < float(wide["difference_high"]) < 7 - 0.8
    text = (tmp_path / "report" / "report.md").read_text()
    assert "maze/deep (seed" in text
    assert "![maze](maze.png)" in text and text.startswith("# Ablation: width\n")
    one, two, *_ = map(measure, read_runs(tmp_path))
    swapped = {"plain": {"roguenet": [one]}, "wide": {"roguenet": [two]}}
    assert {name: list(own) for name, own in variants_by_game(swapped, "plain").items()} == {
        "maze": ["plain", "wide"]
    }
    (tmp_path / "experiment.yaml").write_text(yaml.safe_dump({**asked, "baseline": "deep"}))
    write_report(tmp_path, tmp_path / "report")
    assert [row["variant"] for row in read_csv(tmp_path / "report" / "variants.csv")] == ["plain", "wide"]
    text = (tmp_path / "report" / "report.md").read_text()
    assert "There are no runs of deep yet, beside which every variant is to be." in text


def ablation_row(directory: Path, seeds: dict[str, list[int]]) -> dict[str, str]:
    """Return the row of the variant beside `plain`; seed n ends at these steps, on a line of slope n + 1."""
    for variant, ends in seeds.items():
        for seed, end in enumerate(ends):
            points = [(0, 0.0), (end, end * (seed + 1) / 1e6)]
            make_run(directory, f"maze/{variant}/{seed}", points, env="Procgen/maze")
    asked = {"kind": "ablation", "seeds": [0], "cases": ["maze"], "networks": list(seeds)}
    (directory / "experiment.yaml").write_text(yaml.safe_dump({**asked, "baseline": "plain"}))
    write_report(directory, directory / "report")
    (row,) = [row for row in read_csv(directory / "report" / "variants.csv") if row["variant"] != "plain"]
    return row


@pytest.mark.parametrize(
    ("plain", "wide", "step", "counts"),
    [
        # The time was over a little earlier or later: all seeds, where the first of them ended.
        ([1_100_000, 1_200_000, 1_300_000], [1_000_000, 1_400_000, 1_000_000], 1_000_000, (3, 3)),
        # One has hardly begun, beside two that are not finished and beside three that are.
        ([1_200_000, 1_100_000], [1_000_000, 1_100_000, 100_000], 1_000_000, (2, 2)),
        ([2_000_000] * 3 + [1_500_000], [1_800_000, 900_000, 800_000], 900_000, (2, 3)),
        ([2_000_000] * 3, [2_000_000] * 3 + [1_500_000], 2_000_000, (3, 3)),
    ],
)  # fmt: skip
def test_an_ablation_compares_seeds_at_the_steps_that_all_have_reached(
    tmp_path: Path,
    no_environments: None,
    plain: list[int],
    wide: list[int],
    step: int,
    counts: tuple[int, int],
) -> None:
    row = ablation_row(tmp_path, {"plain": plain, "wide": wide})
    assert int(row["compared_at"]) == step
    assert (int(row["compared_seeds"]), int(row["compared_baseline_seeds"])) == counts
    middle = step / 1e6 - 0.2  # mean over the last five lines, of a slope of 1
    ours, theirs = (np.mean(np.arange(count) + 1) for count in counts)
    assert float(row["difference_mean"]) == pytest.approx((ours - theirs) * middle)
    shown = f"({counts[0]} of {len(wide)} seeds, baseline {counts[1]} of {len(plain)})"
    text = (tmp_path / "report" / "report.md").read_text()
    assert (shown in text) == (counts != (len(wide), len(plain)))


# -- parts ---------------------------------------------------------------------------------------------------


def test_entities_are_counted_as_by_a_loop() -> None:
    with ez.make_vec("MineSweeper", num_envs=3) as venv:
        found = count_entities(venv, steps=7, seed=5)
        batch, _ = venv.reset(seed=5)
        rng = np.random.default_rng(5)
        totals = []
        for _ in range(7):
            totals += [
                sum(len(batch.entities[name][lane]) for name in batch.entities) for lane in range(len(batch))
            ]
            batch = venv.step(sample_actions(venv.single_action_space, batch, rng))[0]
    assert found.mean == pytest.approx(np.mean(totals))
    assert found.largest == max(totals)
    assert math.isclose(sum(found.by_type.values()), found.mean)


def test_cells_are_escaped() -> None:
    column = ReportColumn("a<b", lambda row: row["x"], is_text=True)
    table = ReportTable("t", "T & U", [{"x": "1 < 2 | 3", "y": None}], [column])
    document = Document("<D>", sections=[Section("S", tables=[table])])
    page = as_html(document, Path())
    assert '<td class="text">1 &lt; 2 | 3</td>' in page and "T &amp; U" in page and "&lt;D&gt;" in page
    assert "| 1 < 2 \\| 3 |" in as_markdown(document)
    assert csv_text(table.rows) == "x,y\n1 < 2 | 3,\n"


def test_the_headline_is_about_the_most_games(tmp_path: Path) -> None:
    make_run(tmp_path, "bigfish/roguenet/0", [(0, 4.9), (2_000_000, 4.9)])
    make_run(tmp_path, "maze/roguenet/0", [(0, 6.0), (1_000_000, 6.0)], env="Procgen/maze")
    (line,) = headlines(aggregate_rows(run_table(read_runs(tmp_path))))
    assert line.startswith("RogueNet at 1M steps, 2 games: mean normalized return 0.150")


def test_hours_of_runs_on_one_machine_are_added(tmp_path: Path) -> None:
    part = {"from_step": 0, "started": "2026-01-01", "version": "0.1.0", "commit": "abc", "processor": "P"}
    part |= {"cores": 2, "gpu": None, "python": "3", "torch": "2"}
    for seed, end in enumerate((1_000_000, 2_000_000)):
        run = make_run(tmp_path, f"bigfish/roguenet/{seed}", [(0, 4.9), (end, 4.9)])
        (run / "run.json").write_text(json.dumps({"parts": [part]}))
    (row,) = origin_section(run_table(read_runs(tmp_path))).tables[0].rows
    assert row["runs"] == 2 and row["hours"] == pytest.approx(3000 / 3600)


def test_published_points_end_where_our_curves_do(tmp_path: Path) -> None:
    make_run(tmp_path, "bigfish/roguenet/0", [(0, 4.9), (2_000_000, 4.9)])
    (part,) = aggregate_curves(run_table(read_runs(tmp_path)))
    assert max(part.points) == max(part.guide) == 2_000_000 and min(part.points) > 0 == min(part.guide)
