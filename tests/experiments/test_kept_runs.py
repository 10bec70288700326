"""Runs that version 0.1 wrote still load, are evaluated and go on."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import entitize as ez
import pytest
import yaml
from entitize.envs import batch_observations
from entitize.experiments.microrts.match_plan import CHECKPOINT_OF, fingerprint
from entitize.experiments.microrts.matches import read_settings
from entitize.trainers import checkpoint_paths, read_checkpoint, step_of

RESULTS = Path(__file__).parents[2] / "experiments" / "results"
BIGFISH = RESULTS / "procgen_2m" / "runs" / "bigfish" / "roguenet" / "1"


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A copy of a kept run, whose metrics are compressed."""
    run = tmp_path / "bigfish"
    shutil.copytree(BIGFISH, run)
    return run


def test_a_kept_run_goes_on(kept: Path, entitize: Callable[..., tuple[int, str, str]]) -> None:
    checkpoint = next((kept / "checkpoints").iterdir())
    step = int(checkpoint.name.removeprefix("step_"))
    code, _, error = entitize("train", "--resume", kept, "--ppo.total-timesteps", step + 16_384)
    assert code == 0, error
    lines = (kept / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    assert b"".join(lines[:-1]) == gzip.decompress((BIGFISH / "metrics.jsonl.gz").read_bytes())
    assert not (kept / "metrics.jsonl.gz").exists()
    last = json.loads(lines[-1])
    assert last["step"] == step + 16_384
    assert last["charts/episodic_return"] > 5  # the random policy has 0.9


def test_a_kept_run_is_evaluated(kept: Path, entitize: Callable[..., tuple[int, str, str]]) -> None:
    code, _, error = entitize("eval", kept, "--episodes", 8)
    assert code == 0, error


def test_every_trained_agent_has_a_card_and_acts() -> None:
    agents = sorted(path.parent for path in (RESULTS / "agents").glob("*/policy.safetensors"))
    assert len(agents) == 19
    for path in agents:
        agent = ez.load_agent(path)
        agent.observation_space.seed(0)
        steps = [agent.observation_space.sample() for _ in range(3)]
        chosen = agent.act(batch_observations(agent.observation_space, steps)).actions
        assert set(chosen) == set(agent.action_space.spaces)
        _, front, card = (path / "README.md").read_text().split("---\n", 2)
        assert yaml.safe_load(front)["model-index"][0]["results"][0]["metrics"]
        assert f"# {path.name}" in card


def test_all_kept_checkpoints_can_be_read() -> None:
    paths = sorted(path.parent for path in RESULTS.rglob("checkpoints/*/policy.safetensors"))
    assert len(paths) > 200
    for path in paths:
        assert read_checkpoint(path).metadata["step"] == step_of(path)


def test_kept_games_of_microrts_are_of_a_kept_checkpoint() -> None:
    files = sorted(RESULTS.rglob("eval_*/results.jsonl"))
    assert len(files) > 8
    for file in files:
        run = file.parents[1]
        kept = [fingerprint(path) for path in checkpoint_paths(run / "checkpoints")]
        assert read_settings(file)[f"{CHECKPOINT_OF}{run.name}"] in kept


@pytest.mark.parametrize("name", ["microrts_8x8", "procgen_25m/runs/starpilot/roguenet/0"])
def test_kept_agents_load(name: str) -> None:
    agent = ez.load_agent(RESULTS / name)
    assert agent.observation_space.entities
