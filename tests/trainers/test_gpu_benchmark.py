"""benchmarks/gpu.py, as far as it goes without a GPU."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest
import torch

SCRIPT = str(Path(__file__).parents[2] / "benchmarks" / "gpu.py")


def test_without_a_gpu_it_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", [SCRIPT])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    runpy.run_path(SCRIPT, run_name="__main__")
    assert capsys.readouterr().out.splitlines() == [
        "This machine has no GPU that torch can use, so nothing was measured."
    ]


def test_its_tiny_version_measures(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    arguments = [SCRIPT, "--cpu", "--parts", "ppo", "few", "sb3", "--json", str(tmp_path / "gpu.json")]
    monkeypatch.setattr("sys.argv", arguments)
    runpy.run_path(SCRIPT, run_name="__main__")
    assert "samples/s" in capsys.readouterr().out
    results = json.loads((tmp_path / "gpu.json").read_text())
    cases = results["ppo"]
    assert {(case["case"]["engine"], case["engine"]) for case in cases} == {
        ("torch", "torch"),
        ("graphs", "graphs"),
    }
    assert all(case["samples_per_second"] > 0 for case in cases)
    assert [case["device"] for case in results["few"]] == ["cpu"]
    assert results["sb3"]["cpu"] > 0
