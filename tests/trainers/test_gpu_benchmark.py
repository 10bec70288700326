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
    monkeypatch.setattr("sys.argv", [SCRIPT, "--cpu", "--json", str(tmp_path / "gpu.json")])
    runpy.run_path(SCRIPT, run_name="__main__")
    assert "samples/s" in capsys.readouterr().out
    (case,) = json.loads((tmp_path / "gpu.json").read_text())["cases"]
    assert case["samples_per_second"] > 0 and 0.3 < case["filled"] <= 1 and case["bytes_per_sample"] > 50
