"""benchmarks/attention.py, as far as it goes without a GPU."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

SCRIPT = str(Path(__file__).parents[2] / "benchmarks" / "attention.py")


def test_its_tiny_version_compares_and_measures(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The script compares each way with float64 before it measures, and stops where they differ."""
    monkeypatch.setattr("sys.argv", [SCRIPT, "--cpu", "--json", str(tmp_path / "table.json")])
    runpy.run_path(SCRIPT, run_name="__main__")
    rows = json.loads((tmp_path / "table.json").read_text())["rows"]
    measured = {row["way"] for row in rows if "both_us" in row}
    assert measured == {"padded", "sorted", "tiles"}
