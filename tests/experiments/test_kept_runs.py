"""Runs that version 0.1 wrote still load, are evaluated and go on."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import entitize as ez
import pytest

RESULTS = Path(__file__).parents[2] / "experiments" / "results"
BIGFISH = RESULTS / "procgen_2m" / "runs" / "bigfish" / "roguenet" / "1"


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A copy of a kept run, as it was when it was written: its metrics are not compressed."""
    run = tmp_path / "bigfish"
    shutil.copytree(BIGFISH, run)
    with gzip.open(run / "metrics.jsonl.gz") as packed:
        (run / "metrics.jsonl").write_bytes(packed.read())
    (run / "metrics.jsonl.gz").unlink()
    return run


def test_a_kept_run_goes_on(kept: Path, entitize: Callable[..., tuple[int, str, str]]) -> None:
    checkpoint = next((kept / "checkpoints").iterdir())
    step = int(checkpoint.name.removeprefix("step_"))
    code, _, error = entitize("train", "--resume", kept, "--ppo.total-timesteps", step + 16_384)
    assert code == 0, error
    last = json.loads((kept / "metrics.jsonl").read_text().splitlines()[-1])
    assert last["step"] == step + 16_384
    assert last["charts/episodic_return"] > 5  # the random policy has 0.9


def test_a_kept_run_is_evaluated(kept: Path, entitize: Callable[..., tuple[int, str, str]]) -> None:
    code, _, error = entitize("eval", kept, "--episodes", 8)
    assert code == 0, error


@pytest.mark.parametrize("name", ["microrts_8x8", "procgen_25m/runs/starpilot/roguenet/0"])
def test_kept_agents_load(name: str) -> None:
    agent = ez.load_agent(RESULTS / name)
    assert agent.observation_space.entities
