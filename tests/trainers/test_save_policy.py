"""`save_policy`: the network alone, in a folder that every reader of checkpoints takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import entitize as ez
import numpy as np
import pytest
import torch
from entitize.trainers import CheckpointError

from facts import raises


@pytest.fixture
def trained() -> tuple[ez.RogueNet, ez.EntityVectorEnv]:
    venv = ez.make_vec("MineSweeper", 4)
    net = ez.RogueNet(venv.single_observation_space, venv.single_action_space, d_model=8, n_layer=1)
    ez.PPO(net, venv, ez.PPOConfig(total_timesteps=128, num_steps=16, minibatch_size=32)).train()
    return net, venv


def test_a_saved_policy_is_loaded_acts_and_starts_a_training(trained: Any, tmp_path: Path) -> None:
    net, venv = trained
    path = ez.save_policy(net, tmp_path / "policies" / "first")
    batch, _ = venv.reset(seed=3)
    expected = net.act(batch, np.random.default_rng(0), deterministic=True)
    np.testing.assert_allclose(ez.load_policy(path).value(batch), expected.values, atol=1e-5)
    np.testing.assert_allclose(ez.load_agent(path).value(batch), expected.values, atol=1e-5)
    again = ez.load_policy(path).act(batch, np.random.default_rng(0), deterministic=True)
    assert again.actions == expected.actions
    assert {file.suffix for file in path.iterdir()} == {".json", ".safetensors"}, "no pickle"
    assert [file.name for file in path.parent.iterdir()] == ["first"]


def test_a_saved_policy_is_replaced_and_nothing_else_is(trained: Any, tmp_path: Path) -> None:
    net, _ = trained
    path = ez.save_policy(net, tmp_path / "best")
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(1)
    ez.save_policy(net, str(path))
    for ours, theirs in zip(net.parameters(), ez.load_policy(path).parameters(), strict=True):
        assert torch.equal(ours, theirs)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "empty").mkdir()
    ez.load_policy(ez.save_policy(net, tmp_path / "empty"))
    for taken in (tmp_path / "notes", tmp_path / "file", tmp_path):
        with raises(CheckpointError, str(taken)):
            ez.save_policy(net, taken)
    assert (tmp_path / "notes" / "a.txt").read_text() == (tmp_path / "file").read_text() == "mine"


def test_what_is_no_policy_and_no_path_is_refused(trained: Any, tmp_path: Path) -> None:
    members = ("act", "value", "evaluate", "update_normalization", "observation_space", "config")
    with raises(TypeError, "save_policy", "Linear", *members):
        ez.save_policy(torch.nn.Linear(2, 2), tmp_path / "linear")  # type: ignore[arg-type]
    for path in ("", None):
        with raises(TypeError, "path", repr(path)):
            ez.save_policy(trained[0], path)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_replacement_keeps_one_policy(
    trained: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = ez.save_policy(trained[0], tmp_path / "best")
    rename = Path.rename

    def interrupted(self: Path, target: Any) -> Any:
        if self.name == ".write_best":
            raise KeyboardInterrupt
        return rename(self, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", interrupted)
        with pytest.raises(KeyboardInterrupt):
            ez.save_policy(trained[0], path)
    ez.load_policy(path)
    (tmp_path / ".delete_best").mkdir()  # as a kill leaves it
    (tmp_path / ".delete_best" / "policy.safetensors").write_bytes(b"half")
    ez.save_policy(trained[0], path)
    assert [file.name for file in tmp_path.iterdir()] == ["best"]


def test_a_link_stays_a_link(trained: Any, tmp_path: Path) -> None:
    path = ez.save_policy(trained[0], tmp_path / "first")
    (tmp_path / "best").symlink_to(path)
    for _ in range(2):
        ez.save_policy(trained[0], tmp_path / "best")
    assert (tmp_path / "best").is_symlink() and ez.load_policy(tmp_path / "best")
