from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import matplotlib.image
import pytest
from entitize.cli import main
from entitize.experiments import UserError

from facts import raises
from report import compare, comparison_lines, draw_ratios, parse_results, results_text, table_lines
from rows import Budget, Row, read_rows, rounds, script_parser, write_json, write_rows
from suite import SCRIPTS, SHARED, committed, read_budgets, run_scripts

#: A benchmark as those of the repository are, of two rows; one figure comes from a file beside it.
SCRIPT = """
from pathlib import Path
from rows import Row, has_written_rows, rounds, script_parser

def bench_rows(budget):
    assert 0 < budget.share(1) <= 5
    print("not for the table")
    figure = float(Path(__file__).with_name("figure").read_text())
    yield Row("sum", figure, 8.0, "NumPy", "ms", False, target=2.0)
    yield Row("steps", 300.0 + len(list(rounds(3))), 101.0, "engine", "steps/s", kind="floor")

assert has_written_rows(script_parser("", rows=True).parse_args(), bench_rows)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two measured benchmarks, one that shows its own output, and the module that they share."""
    (tmp_path / "first.py").write_text(SCRIPT)
    (tmp_path / "second.py").write_text(SCRIPT)
    (tmp_path / "figure").write_text("2")
    (tmp_path / "shown.py").write_text("print('of its own')")
    shutil.copy(SCRIPTS / "rows.py", tmp_path)
    (tmp_path / "budgets.toml").write_text("[seconds]\nsecond = 5\nfirst = 5\n")
    return tmp_path


def row(case: str = "sum", ours: float = 2.0, peer: float = 8.0, name: str = "NumPy", **more: object) -> Row:
    return Row(case, ours, peer, name, "ms", **{"higher_is_better": False, **more})  # type: ignore[arg-type]


# -- the command --------------------------------------------------------------------------------------------


def test_all_with_a_budget_run_in_its_order_into_one_table(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run_scripts(folder, [])
    out = capfd.readouterr().out
    assert re.findall(r"^(\w+): 2 rows in", out, re.MULTILINE) == ["second", "first"]
    assert "not for the table" not in out and "of its own" not in out
    assert re.findall(r"^-- (\w+)$", out, re.MULTILINE) == ["second", "first"]
    assert re.search(r"^sum +2 +8 +4\.00 +2 +ms +NumPy$", out, re.MULTILINE)
    assert re.search(r"^steps +303 +101 +3\.00 +steps/s +engine \(floor\)$", out, re.MULTILINE)
    assert "No committed results to compare with" in out
    results, machines = parse_results((folder / "results.json").read_text())
    assert list(results) == ["second", "first"]
    assert results["first"] == [
        Row("sum", 2, 8, "NumPy", "ms", False, target=2),
        Row("steps", 303, 101, "engine", "steps/s", kind="floor"),
    ]
    assert machines["first"].keys() == {"processor", "cores", "load", "python"}
    assert matplotlib.image.imread(folder / "results.png").shape[1] > 500


def test_a_named_benchmark_replaces_its_own_rows_and_says_what_got_worse(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run_scripts(folder, [])
    (folder / "figure").write_text("4")
    capfd.readouterr()
    run_scripts(folder, ["first"])
    out = capfd.readouterr().out
    assert "-- second" not in out
    assert "first: sum, against NumPy: ratio 4 -> 2" in out
    results, _ = parse_results((folder / "results.json").read_text())
    assert {name: rows[0].ours for name, rows in results.items()} == {"second": 2, "first": 4}
    run_scripts(folder, ["first"], tolerance=0.2)
    assert "All ratios are within 20% of the committed ones." in capfd.readouterr().out


def test_results_are_compared_with_the_commit_and_not_with_the_last_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A commit hook's or a surrounding repository's variables would lead git elsewhere.
    for variable in ("GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE"):
        monkeypatch.delenv(variable, raising=False)
    path = folder / "results.json"
    path.write_text(results_text({"first": [row(ours=1.0)]}, {}))
    git = (
        "git",
        "-c",
        "user.name=t",
        "-c",
        "user.email=t@t",
        "-c",
        "commit.gpgsign=false",
        "-C",
        str(folder),
    )
    subprocess.run([*git, "init", "-q"], check=True)
    before = committed(path)
    assert before is not None and before["first"][0].ours == 1  # not in git yet
    subprocess.run([*git, "add", "results.json"], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "first"], check=True)
    path.write_text(results_text({"first": [row(ours=3.0)]}, {}))
    after = committed(path)
    assert after is not None and after["first"][0].ours == 1


def test_what_has_no_budget_shows_its_own_output(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run_scripts(folder, ["shown"])
    assert capfd.readouterr().out.split() == ["==", "shown", "of", "its", "own"]
    assert not (folder / "results.json").exists()


def test_a_failure_is_told_with_its_last_lines_and_the_others_run(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (folder / "second.py").write_text("raise SystemExit('the engine is missing')")
    with raises(UserError, "second", "exit code 1"):
        run_scripts(folder, [])
    assert "the engine is missing" in capfd.readouterr().out
    assert list(parse_results((folder / "results.json").read_text())[0]) == ["first"]


@pytest.mark.parametrize(
    ("script", "facts"),
    [
        ("", ("first", "rows")),
        (SCRIPT.replace("steps", "sum").replace("engine", "NumPy"), ("'sum'", "'NumPy'", "twice")),
        (SCRIPT.replace("300.0 +", "-3 +"), ("first", "exit code 1")),
    ],
)  # fmt: skip
def test_rows_that_cannot_be_used_are_refused(folder: Path, script: str, facts: tuple[str, ...]) -> None:
    (folder / "first.py").write_text(script)
    with raises(UserError, *facts):
        run_scripts(folder, ["first"])


def test_an_unknown_benchmark_is_refused_before_any_runs(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with raises(UserError, "third", "first, second, shown"):
        run_scripts(folder, ["first", "third"])
    assert capfd.readouterr().out == ""


def test_an_installed_package_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("entitize.cli.bench.SCRIPTS", tmp_path / "benchmarks")
    assert main(["bench"]) == 2
    assert "checkout" in capfd.readouterr().err


# -- rows ---------------------------------------------------------------------------------------------------


def test_a_ratio_above_one_is_better_whatever_the_unit() -> None:
    assert row(ours=2, peer=8).ratio == 4
    assert row(ours=2, peer=8, higher_is_better=True).ratio == 0.25


@pytest.mark.parametrize(
    ("more", "facts"),
    [
        ({"ours": 0.0}, ("'sum'", "ours", "0.0")),
        ({"ours": -1.0}, ("ours", "-1.0")),
        ({"peer": math.nan}, ("NumPy", "nan")),
        ({"peer": math.inf}, ("NumPy", "inf")),
        ({"kind": "guessed"}, ("kind", "floor", "guessed")),
    ],
)
def test_figures_that_are_none_are_refused(more: dict[str, object], facts: tuple[str, ...]) -> None:
    with raises(ValueError, *facts):
        row(**more)  # type: ignore[arg-type]


def test_rows_survive_writing_with_four_digits(tmp_path: Path) -> None:
    rows = [row(), row("steps", 123456.0, 0.00123456, target=3.4, kind="recorded", note="μ")]
    write_rows(tmp_path / "rows", iter(rows))
    again = read_rows(tmp_path / "rows")
    assert again[0] == rows[0]
    assert again[1] == row("steps", 123500.0, 0.001235, target=3.4, kind="recorded", note="μ")
    text = results_text({"a": rows}, {"a": {"cores": 2}})
    assert parse_results(text) == ({"a": again}, {"a": {"cores": 2}})
    assert json.loads(text)["benchmarks"]["a"]["rows"][1]["ours"] == 123500


def test_rounds_end_with_their_number_or_with_the_time_after_the_least() -> None:
    assert list(rounds(4)) == [0, 1, 2, 3]
    assert list(rounds(9, seconds=0)) == [0, 1, 2]
    assert list(rounds(9, seconds=0, least=1)) == [0]
    assert list(rounds(2, seconds=0)) == [0, 1]


def test_a_budget_is_shared_among_what_is_to_come() -> None:
    assert 9 < Budget(40).share(4) <= 10
    assert Budget(-1).share(4) == 0
    assert Budget().share(4) == math.inf


def test_scripts_take_the_flags_of_the_command() -> None:
    parser = script_parser("Measures.", rows=True)
    assert parser.parse_args([]).rows is None
    assert vars(parser.parse_args(["--rows", "x", "--budget", "3"])) == {"rows": Path("x"), "budget": 3}


def test_results_are_written_where_that_was_asked_for(tmp_path: Path) -> None:
    parser = script_parser("Measures.", quick="few repeats", json=True)
    words = ["--quick", "--json", str(tmp_path / "results.json")]
    for options in (parser.parse_args([]), parser.parse_args(words)):
        write_json(options.json, {"quick": options.quick})
    assert json.loads((tmp_path / "results.json").read_text()) == {"quick": True}


# -- comparing and showing ----------------------------------------------------------------------------------


def test_ratios_and_not_times_are_compared() -> None:
    before = {"a": [row("same"), row("worse"), row("better"), row("gone"), row("slow machine")], "b": [row()]}
    now = {
        "a": [
            row("same", ours=2.4), row("worse", ours=2.6), row("better", peer=10.1), row("added"),
            row("slow machine", ours=20, peer=80),
        ]
    }  # fmt: skip
    found = compare(before, now, tolerance=0.2)
    assert [(c.row.case, c.before, round(c.row.ratio, 2)) for c in found.worse] == [("worse", 4, 3.08)]
    assert [c.row.case for c in found.better] == ["better"]
    assert found.missing == ["a: gone, against NumPy"]
    assert found.new == ["a: added, against NumPy"]
    text = comparison_lines(found, 0.2)
    assert text[:2] == [
        "worse than committed by more than 20%:",
        "  a: worse, against NumPy: ratio 4 -> 3.08",
    ]


@pytest.mark.parametrize(("ours", "worse"), [(100.0, 0), (0.1, 0)])
def test_recorded_peers_are_no_measure_of_change(ours: float, worse: int) -> None:
    found = compare({"a": [row(kind="recorded")]}, {"a": [row(ours=ours, kind="recorded")]}, 0.2)
    assert (len(found.worse), len(found.better)) == (worse, 0)


def test_the_same_case_against_two_peers_is_two_rows() -> None:
    found = compare({"a": [row()]}, {"a": [row(name="Rust", ours=50)]}, 0.2)
    assert (found.missing, found.new, found.worse) == (
        ["a: sum, against NumPy"], ["a: sum, against Rust"], [],
    )  # fmt: skip


def test_the_table_names_missed_targets() -> None:
    lines = table_lines({"a": [row(target=4.0), row("slow", target=5.0)], "b": [row(ours=1234.0, peer=1.0)]})
    assert lines[0].split() == ["case", "ours", "peer", "ratio", "target", "unit", "peer's", "name"]
    assert [line for line in lines if line.startswith("--")] == ["-- a", "-- b"]
    assert any(re.match(r"sum +1,234 +1 +0\.00 +ms +NumPy$", line) for line in lines)
    assert lines[-2:] == [
        "targets: 1 of 2 reached",
        "  missed: a: slow, against NumPy: 4 instead of 5",
    ]
    assert len({len(line[: line.index("ms")]) for line in lines if " ms " in line}) == 1  # columns


@pytest.mark.parametrize("rows", [[row()], [row(target=0.5), row("steps", ours=0.001, kind="floor")]])
def test_the_plot_is_written(tmp_path: Path, rows: Sequence[Row]) -> None:
    draw_ratios(tmp_path / "new" / "plot.png", {"a": rows, "b": rows}, "title")
    assert matplotlib.image.imread(tmp_path / "new" / "plot.png").ndim == 3


# -- the repository's ---------------------------------------------------------------------------------------


def test_benchmarks_with_a_budget_give_rows_and_stay_under_ten_minutes() -> None:
    budgets = read_budgets(SCRIPTS)
    assert 300 < sum(budgets.values()) < 500  # starting up and compiling come on top
    for name in budgets:
        text = (SCRIPTS / f"{name}.py").read_text()
        assert "rows=True)" in text and ("has_written_rows(" in text or "write_rows(" in text), name
    without = {path.stem for path in SCRIPTS.glob("*.py")} - set(budgets) - set(SHARED)
    assert without == {
        *("attention", "continuous", "engines", "fuzz_checkpoints", "gpu", "questions"),
        *("ranks", "ray_rollouts", "runtime", "scaling", "startup", "workers"),
    }


def test_a_benchmark_of_the_repository_gives_its_rows(tmp_path: Path) -> None:
    name = "pettingzoo_views"
    (tmp_path / "budgets.toml").write_text(f"[seconds]\n{name} = 1e-3\n")
    for file in (f"{name}.py", "rows.py"):
        shutil.copy(SCRIPTS / file, tmp_path)
    run_scripts(tmp_path, [name])
    rows = parse_results((tmp_path / "results.json").read_text())[0][name]
    peers = {row.case: row.peer_name for row in rows}
    assert peers["kaz"] == "the game's observe" and peers["battle"] == "the game's step"
    assert {row.unit for row in rows} == {"us per agent"} and not any(row.higher_is_better for row in rows)


def test_the_page_lists_every_benchmark() -> None:
    page = (SCRIPTS / "README.md").read_text()
    scripts = {path.name for path in SCRIPTS.glob("*.py") if path.stem not in SHARED}
    assert set(re.findall(r"^\| `(\w+\.py)` \|", page, re.MULTILINE)) == scripts
