from __future__ import annotations

from pathlib import Path

import pytest
from entitize.experiments.bench import run_scripts
from entitize.experiments.errors import UserError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "first.py").write_text("print('one')")
    (tmp_path / "second.py").write_text("print('two')")
    (tmp_path / "broken.py").write_text("raise SystemExit(3)")
    (tmp_path / "_shared.py").write_text("raise SystemExit('not a benchmark')")
    return tmp_path


def test_named_benchmarks_run_in_order(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run_scripts(folder, ["second", "first"])
    assert capfd.readouterr().out.split() == ["==", "second", "two", "==", "first", "one"]


def test_without_names_all_run_and_a_failure_is_told(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError, match="benchmark broken failed with exit code 3"):
        run_scripts(folder, [])
    (folder / "broken.py").unlink()
    run_scripts(folder, [])
    assert capfd.readouterr().out.split()[-4:] == ["one", "==", "second", "two"]


def test_an_unknown_benchmark_is_refused_before_any_runs(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UserError, match="no benchmark 'third'; there are broken, first, second"):
        run_scripts(folder, ["first", "third"])
    assert capfd.readouterr().out == ""


def test_an_installed_package_has_none(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="run this in a checkout"):
        run_scripts(tmp_path / "benchmarks", [])
