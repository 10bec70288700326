"""benchmarks/engines.py: that all paths run and agree at first, and what it calls agreement."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "engines.py"


@pytest.fixture(scope="module")
def engines() -> ModuleType:
    spec = importlib.util.spec_from_file_location("engines_benchmark", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_all_paths_begin_alike(
    engines: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    path = tmp_path / "engines.json"
    monkeypatch.setattr("sys.argv", [str(SCRIPT), "--quick", "--games", "Xor", "--json", str(path)])
    engines.main()
    assert "all agree by first losses" in capsys.readouterr().out
    runs = json.loads(path.read_text())["games"]["Xor"]
    assert list(runs) == list(engines.PATHS)
    losses = [mine[0]["first_loss"] for mine in runs.values()]
    assert losses == pytest.approx([losses[0]] * len(losses), rel=1e-4)
    assert len(set(losses)) > 2, "they are different computations"


def test_paths_that_learn_otherwise_are_named(engines: ModuleType) -> None:
    seeds = range(6)
    runs = {
        "fused": [engines.Run(0.5, 0.80 + 0.01 * seed) for seed in seeds],
        "alike": [engines.Run(0.5, 0.79 + 0.012 * seed) for seed in seeds],
        "worse": [engines.Run(0.5, 0.60 + 0.01 * seed) for seed in seeds],
        "wrong": [engines.Run(0.6, 0.80 + 0.01 * seed) for seed in seeds],
    }
    comparisons = engines.compare(runs)
    assert engines.apart(comparisons, 6) == ["worse", "wrong"]
    assert engines.apart(comparisons, 5) == ["wrong"]
    assert [c.difference for c in comparisons] == pytest.approx([0, -0.005, -0.2, 0])
    assert comparisons[2].chance == pytest.approx(2 / 924) and comparisons[0].chance == 1
    assert engines.chance([0.0, 1.0], [2.0, 3.0]) == pytest.approx(2 / 6)
