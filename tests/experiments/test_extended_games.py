"""Networks that go on in a game that has got more entity types and features than they know."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import entitize as ez
import numpy as np
import pytest
import torch
from entitize.policies import CheckpointError
from entitize.trainers.runs.checkpoint import network_metadata, write_checkpoint

from facts import mentions, raises

Run = Callable[..., tuple[int, str, str]]
SMALL = ("--env.num-envs", 2, "--ppo.num-steps", 4, "--ppo.total-timesteps", 8)
FARM = """
import entitize as ez
class Farm(ez.EntityEnv):
    entities = {"Cat": ["x"]}

    def __init__(self):
        self.action_space = ez.EntityActionSpace({"go": ez.GlobalCategorical(["on"])})
        self.observation_space = ez.EntitySpace(self.entities, self.action_space)

    def _reset(self, options):
        rows = {name: [[1.5] * len(features)] for name, features in self.entities.items()}
        return ez.Observation(rows, actions={"go": ez.actions.GlobalCategoricalMask()})

    def _step(self, actions):
        return self._reset({}), 1.0, True, False, {}

class LargerFarm(Farm):
    entities = {"Cat": ["x", "y"], "Dog": ["x"]}
"""


@pytest.fixture
def run(entitize: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run in the larger farm, with the network of one in the smaller farm."""
    (tmp_path / "farm.py").write_text(FARM)
    monkeypatch.chdir(tmp_path)
    small = ("--env.id", "farm:Farm", "--run", "old", "--net.d-model", 8, *SMALL)
    assert entitize("train", *small)[0] == 0
    larger = ("--env.id", "farm:LargerFarm", "--init-from", "old", "--run", "new", *SMALL)
    code, out, err = entitize("train", *larger)
    assert code == 0, err
    assert re.search(mentions("left out", "entity type 'Dog'", "feature 'y' of 'Cat'"), out)
    return tmp_path / "new"


def test_info_is_of_the_types_that_the_network_knows(entitize: Run, run: Path) -> None:
    code, out, err = entitize("info", run)
    assert code == 0 and re.search(r"step with [\d.]+ Cat\b", out), err


def test_what_is_loaded_reads_the_larger_game(entitize: Run, run: Path) -> None:
    policy, agent = ez.load_policy(run), ez.load_agent(run)
    for reads in (policy.reads, agent.reads):
        assert {name: tuple(given) for name, given in reads.entities.items()} == {
            "Cat": ("x", "y"),
            "Dog": ("x",),
        }
    assert list(policy.observation_space.entities) == ["Cat"] == list(agent.observation_space.entities)
    venv = ez.make_vec("farm:LargerFarm", num_envs=2)
    batch, _ = venv.reset(seed=0)
    with torch.no_grad():
        np.testing.assert_allclose(policy.value(batch), agent.value(batch), rtol=1e-5)
    assert ez.evaluate(agent, venv, 4).returns.tolist() == [1.0] * 4
    assert entitize("eval", run, "--episodes", 4)[0] == 0


def test_a_saved_copy_and_a_card_read_it_too(entitize: Run, run: Path, tmp_path: Path) -> None:
    reads = ez.load_policy(run).reads
    path = ez.save_policy(ez.load_policy(run), tmp_path / "copy")
    assert ez.load_agent(path).reads == reads == ez.load_policy(path).reads
    back = ez.load_policy(path)
    back.adapt_to(back.observation_space)
    assert ez.load_agent(ez.save_policy(back, tmp_path / "back")).reads == back.observation_space
    assert entitize("card", run, "--out", "card", "--episodes", 2)[0] == 0
    assert ez.load_agent("card").reads == reads


@pytest.mark.parametrize(
    ("reads", "facts"),
    [
        ({"entities": {"Dog": ["x"]}}, ("Cat",)),
        ({"entities": {"Cat": ["y"]}}, ("entity type 'Cat'", "features x, got y")),
        ({"entities": []}, ("entities", "object", "list")),
        ("Cat", ()),
    ],
)
def test_a_checkpoint_that_reads_what_it_cannot_is_refused(
    run: Path, tmp_path: Path, reads: object, facts: tuple[str, ...]
) -> None:
    policy = ez.load_policy(run)
    metadata = network_metadata(policy)
    metadata["reads"] = {**metadata["reads"], **reads} if isinstance(reads, dict) else reads
    checkpoint = write_checkpoint(tmp_path / "copy", 0, {"policy": policy.state_dict()}, metadata)
    for load in (ez.load_policy, ez.load_agent):
        with raises(CheckpointError, checkpoint, *facts):
            load(checkpoint)
