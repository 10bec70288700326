from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "procgen_states.py"


def test_the_script_measures_a_game(tmp_path: Path) -> None:
    """It calls the engine past the environment, so that only running it shows that it still fits."""
    pytest.importorskip("procgen")
    out = tmp_path / "numbers.json"
    words = ["--games", "bigfish", "--num-envs", "2", "--json", str(out)]
    subprocess.run([sys.executable, str(SCRIPT), *words], check=True, capture_output=True, timeout=300)
    assert "bigfish" in json.dumps(json.loads(out.read_text()))
