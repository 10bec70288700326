"""Checkpoints: whole or not at all, the newest few, and clear words about corrupt or foreign ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import entitize as ez
import numpy as np
import pytest
import torch
from entitize.trainers import (
    PPO,
    CheckpointError,
    PPOConfig,
    checkpoint_paths,
    read_checkpoint,
    step_of,
    write_checkpoint,
)

from facts import raises

CONFIG = PPOConfig(
    total_timesteps=96, num_steps=6, minibatch_size=12, update_epochs=1, checkpoint_interval=24
)
TENSORS = {"policy": {"w": torch.arange(6.0).reshape(2, 3), "empty": torch.zeros(0, 3)}, "optimizer": {}}


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path, 42, TENSORS, {"updates": 7, "rng": {"state": 2**100}})
    checkpoint = read_checkpoint(path)
    assert path.name == "step_000000000042" and step_of(path) == 42
    assert checkpoint.metadata["step"] == 42 and checkpoint.metadata["rng"]["state"] == 2**100
    assert torch.equal(checkpoint.tensors["policy"]["w"], TENSORS["policy"]["w"])
    assert checkpoint.tensors["policy"]["empty"].shape == (0, 3) and checkpoint.tensors["optimizer"] == {}
    assert {file.suffix for file in path.iterdir()} == {".json", ".safetensors"}, "no pickle"


def test_only_the_newest_stay_and_a_step_can_be_written_again(tmp_path: Path) -> None:
    for step in (5, 10, 100, 1000, 1000):
        write_checkpoint(tmp_path, step, TENSORS, {}, keep=2)
    assert [step_of(path) for path in checkpoint_paths(tmp_path)] == [100, 1000]
    assert len(list(tmp_path.iterdir())) == 2


def test_half_written_folders_are_no_checkpoints_and_get_cleared_away(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, 1, TENSORS, {})
    for name in (".write_step_000000000009", ".delete_step_000000000000"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "policy.safetensors").write_bytes(b"half")
    (tmp_path / "notes.txt").write_text("not ours")
    assert [step_of(path) for path in checkpoint_paths(tmp_path)] == [1]
    write_checkpoint(tmp_path, 2, TENSORS, {})
    names = ["notes.txt", "step_000000000001", "step_000000000002"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    assert checkpoint_paths(tmp_path / "nowhere") == []


@pytest.mark.parametrize("call", ["write_synced", "sync_folder"])
def test_a_failed_write_leaves_the_older_checkpoint_and_no_rubbish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    older = write_checkpoint(tmp_path, 1, TENSORS, {})

    def refuse(*_: Any) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(f"entitize.trainers.runs.checkpoint.{call}", refuse)
    with raises(CheckpointError, "step_000000000002", "No space left"):
        write_checkpoint(tmp_path, 2, TENSORS, {}, keep=1)
    assert list(tmp_path.iterdir()) == [older]
    read_checkpoint(older)


def corruptions() -> dict[str, Any]:
    def flip(path: Path) -> None:
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)

    return {
        "policy.safetensors: flipped": flip,
        "policy.safetensors: cut": lambda path: path.write_bytes(path.read_bytes()[:-3]),
        "optimizer.safetensors: gone": lambda path: path.unlink(),
        "checkpoint.json: flipped": lambda path: path.write_text(
            path.read_text().replace('"step": ', '"step": 1')
        ),
        "checkpoint.json: cut": lambda path: path.write_bytes(path.read_bytes()[:-3]),
        "checkpoint.json: foreign": lambda path: path.write_text('{"model": "gpt"}'),
        "checkpoint.json: a list": lambda path: path.write_text("[1, 2]"),
        "checkpoint.json: no text": lambda path: path.write_bytes(b"\xff\xfe\x00"),
        "checkpoint.json: future": lambda path: path.write_text('{"format": 99, "sha256": {}}'),
    }


@pytest.mark.parametrize("kind", corruptions())
def test_a_corrupt_file_is_named_and_the_previous_good_checkpoint_offered(tmp_path: Path, kind: str) -> None:
    good = write_checkpoint(tmp_path, 1, TENSORS, {})
    spoiled = write_checkpoint(tmp_path, 2, TENSORS, {})
    latest = write_checkpoint(tmp_path, 3, TENSORS, {})
    name = kind.split(":")[0]
    for path in (spoiled, latest):
        corruptions()[kind](path / name)
    with pytest.raises(CheckpointError) as error:
        read_checkpoint(latest)
    assert str(latest / name) in str(error.value)
    assert f"the previous good checkpoint is {good} (delete the newer ones" in str(error.value)


def test_a_missing_folder_and_a_folder_that_is_no_checkpoint_are_refused(tmp_path: Path) -> None:
    with raises(CheckpointError, tmp_path / "step_000000000001"):
        read_checkpoint(tmp_path / "step_000000000001")
    with raises(CheckpointError, tmp_path, "checkpoint.json"):
        read_checkpoint(tmp_path)
    with raises(CheckpointError, tmp_path, "step_000000000000"):
        step_of(tmp_path)


def test_the_trainer_writes_on_time_and_keeps_the_last(
    toy_policy: Any, toy_venv: Any, tmp_path: Path
) -> None:
    config = PPOConfig(
        total_timesteps=144, num_steps=6, update_epochs=1, checkpoint_interval=40, keep_checkpoints=2
    )
    PPO(toy_policy(), toy_venv(4), config, tmp_path).train()
    steps = [step_of(path) for path in checkpoint_paths(tmp_path / "checkpoints")]
    assert steps == [120, 144], "written at 48, 96, 120 (for multiples of 40) and 144 (the end)"


def test_environments_that_fail_between_rollouts_lose_no_update(
    toy_policy: Any, toy_venv: Any, tmp_path: Path
) -> None:
    venv = toy_venv(4)
    venv.set_progress = lambda fraction: 1 / (fraction < 0.5)
    config = PPOConfig(total_timesteps=96, num_steps=6, update_epochs=1)
    with pytest.raises(ZeroDivisionError):
        PPO(toy_policy(), venv, config, tmp_path).train()
    assert [step_of(path) for path in checkpoint_paths(tmp_path / "checkpoints")] == [48]


def test_a_checkpoint_of_something_else_leaves_the_trainer_unchanged(
    toy_policy: Any, toy_venv: Any, tmp_path: Path
) -> None:
    trainer = PPO(toy_policy(), toy_venv(4), CONFIG, tmp_path / "run")
    trainer.train()
    good = read_checkpoint(trainer.save_checkpoint())

    def altered(change: Any) -> Path:
        metadata = json.loads(json.dumps(good.metadata))
        tensors = {group: dict(entries) for group, entries in good.tensors.items()}
        change(metadata, tensors)
        return write_checkpoint(
            tmp_path / "other", trainer.step, tensors, {k: metadata[k] for k in metadata if k != "step"}
        )

    changes: list[tuple[Any, list[object]]] = [
        (
            lambda m, _: m["spaces"]["entities"].update(Crate=["weight", "y"]),
            ["spaces", "entity type 'Crate'", "['weight']", "['weight', 'y']"],
        ),
        (
            lambda m, _: m["spaces"]["entities"].update(Wall=["x"]),
            ["spaces", "entity type 'Wall'", "absent", "['x']"],
        ),
        (
            lambda m, _: m["spaces"]["actions"].pop("Push"),
            ["spaces", "action 'Push'", "'SelectEntity'", "absent"],
        ),
        (
            lambda m, _: m["policy"]["config"].update(scale=9),
            ["network", "scale", 0.1, 9],
        ),
        (lambda _, t: t["policy"].pop("push"), ["network", "push", "(2,)", "absent"]),
        (
            lambda _, t: t["policy"].update(push=torch.zeros(3)),
            ["network", "push", "(2,)", "(3,)"],
        ),
        (
            lambda _, t: t["optimizer"].update({"0/exp_avg": torch.zeros(1)}),
            ["optimizer state", "'0/exp_avg'"],
        ),
        (
            lambda _, t: t["optimizer"].update({"0/count.number": torch.zeros(2)}),
            ["optimizer state", "'0/count.number'"],
        ),
        (
            lambda _, t: t["optimizer"].update({"77/exp_avg": torch.zeros(1)}),
            ["'77/exp_avg'", 6],
        ),
        (lambda m, _: m.pop("rng"), ["trainer", "KeyError"]),
        (lambda _, t: t.pop("trainer"), ["trainer", "KeyError"]),
        (lambda m, _: m["rng"].update(bit_generator="MT19937"), ["trainer"]),
    ]
    before = {name: tensor.clone() for name, tensor in trainer.policy.state_dict().items()}
    for change, facts in changes:
        with raises(CheckpointError, *facts):
            trainer.restore(altered(change))
        assert trainer.step == 96
        for name, tensor in trainer.policy.state_dict().items():
            assert torch.equal(tensor, before[name])
    trainer.restore(good)


def test_episode_statistics_survive(toy_policy: Any, stateful_toy_venv: Any, tmp_path: Path) -> None:
    trainer = PPO(toy_policy(), stateful_toy_venv(4), CONFIG, tmp_path)
    trainer.train()
    again = PPO(toy_policy(), stateful_toy_venv(4), CONFIG, tmp_path, resume=True)
    assert again.episodes.summary() == trainer.episodes.summary() != {}
    assert again.episodes.finished == trainer.episodes.finished
    np.testing.assert_array_equal(again.episodes.running_returns, trainer.episodes.running_returns)
    assert again.elapsed_seconds == trainer.elapsed_seconds > 0


def in_groups(policy: Any, order: int) -> torch.optim.Optimizer:
    """A tenth of the learning rate for the last parameters, which come first or last."""
    parameters = list(policy.parameters())
    groups = [{"params": parameters[-3:], "lr": 0.001}, {"params": parameters[:-3]}]
    return torch.optim.NAdam(groups[::order], lr=0.01)


def test_an_optimizer_of_ones_own_keeps_its_learning_rates_and_goes_on_after_a_resume(tmp_path: Path) -> None:
    def trainer(order: int, **where: Any) -> PPO:
        torch.manual_seed(0)
        venv = ez.make_vec("MineSweeper", num_envs=4)
        net = ez.RogueNet(venv.single_observation_space, venv.single_action_space, d_model=8, n_layer=1)
        config = PPOConfig(total_timesteps=256, num_steps=16, minibatch_size=64, learning_rate=0.5)
        made = PPO(net, venv, config, **where)
        made.optimizer = in_groups(net, order)
        return made

    whole = trainer(1, run_dir=tmp_path)
    rates = []
    whole.callbacks.append(
        lambda trainer, _: rates.append([group["lr"] for group in trainer.optimizer.param_groups])  # type: ignore[func-returns-value]
    )
    whole.train(progress=False)
    expected = np.outer([1, 0.75, 0.5, 0.25], [0.001, 0.01])
    np.testing.assert_allclose(rates, expected, rtol=1e-6)
    other = trainer(-1)  # the same parameters in another order
    other.restore(checkpoint_paths(tmp_path / "checkpoints")[-1])
    for ours, theirs in zip(whole.policy.parameters(), other.policy.parameters(), strict=True):
        saved, found = whole.optimizer.state[ours], other.optimizer.state[theirs]
        assert saved.keys() == found.keys()
        assert all(torch.equal(saved[name], found[name]) for name in saved)


def with_momentum(policy: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(policy.parameters(), lr=0.01, momentum=0.9)


def with_adam(policy: Any) -> torch.optim.Optimizer:
    return torch.optim.Adam(policy.parameters(), lr=0.002)


class Counting(torch.optim.Optimizer):
    """Keeps numbers beside tensors, as optimizers outside of torch do."""

    def __init__(self, policy: Any, kept: Any = 1.0) -> None:
        super().__init__(policy.parameters(), {"lr": 0.01})
        self.kept = kept

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for parameter in group["params"]:
                state = self.state[parameter]
                state["count"] = state.get("count", 0) + 1
                state["decay"] = state.get("decay", self.kept) * 0.9
                state["sum"] = state.get("sum", torch.zeros_like(parameter)) + parameter.grad
                assert type(state["count"]) is int and type(state["decay"]) is float
                with torch.no_grad():
                    parameter -= group["lr"] * state["decay"] / state["count"] * state["sum"]


def test_a_state_that_no_checkpoint_can_hold_is_named(toy_policy: Any, toy_venv: Any, tmp_path: Path) -> None:
    trainer = PPO(toy_policy(), toy_venv(4), CONFIG, tmp_path)
    trainer.optimizer = Counting(trainer.policy)
    trainer.train(48, progress=False)
    trainer.optimizer.state[next(iter(trainer.policy.parameters()))]["notes"] = ["a list"]
    with raises(TypeError, "Counting", "0/notes", "list"):
        trainer.save_checkpoint()


@pytest.mark.parametrize("own", [with_momentum, with_adam, Counting])
def test_an_optimizer_that_is_assigned_after_a_resume_gets_its_state(
    own: Any, toy_policy: Any, stateful_toy_venv: Any, tmp_path: Path
) -> None:
    def trainer(run: str, resume: bool = False) -> PPO:
        torch.manual_seed(0)
        return PPO(toy_policy(), stateful_toy_venv(4), CONFIG, tmp_path / run, resume=resume)

    whole, first = trainer("whole"), trainer("parts")
    for made in (whole, first):
        made.optimizer = own(made.policy)
    whole.train(progress=False)
    first.callbacks.append(lambda trainer, _: trainer.step >= 48)
    first.train(progress=False)
    again = trainer("parts", resume=True)
    again.save_checkpoint()  # the state survives this
    again = trainer("parts", resume=True)
    again.optimizer = own(again.policy)
    again.train(progress=False)
    for ours, theirs in zip(whole.policy.parameters(), again.policy.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    again.optimizer = own(again.policy)  # after an update: a new start
    assert not again.optimizer.state


def test_a_run_with_another_optimizer_does_not_go_on(
    toy_policy: Any, stateful_toy_venv: Any, tmp_path: Path
) -> None:
    first = PPO(toy_policy(), stateful_toy_venv(4), CONFIG, tmp_path)
    first.optimizer = with_momentum(first.policy)
    first.train(48, progress=False)
    again = PPO(toy_policy(), stateful_toy_venv(4), CONFIG, tmp_path, resume=True)
    samples = again.collect()
    before, step = {name: t.clone() for name, t in again.policy.state_dict().items()}, again.step
    facts = [str(tmp_path), "SGD", "Adam", "trainer.optimizer"]
    with raises(CheckpointError, *facts):
        again.update(samples)
    with raises(CheckpointError, *facts):
        again.train(progress=False)
    with raises(CheckpointError, *facts):
        again.optimizer = with_adam(again.policy)
    assert again.step == step
    assert all(torch.equal(tensor, before[name]) for name, tensor in again.policy.state_dict().items())
    again.train(48, progress=False)  # nothing left to train
    again.optimizer = with_momentum(again.policy)
    again.train(progress=False)


def test_an_optimizer_without_a_state_is_missed_too(toy_policy: Any, toy_venv: Any, tmp_path: Path) -> None:
    first = PPO(toy_policy(), toy_venv(4), CONFIG, tmp_path)
    first.optimizer = torch.optim.SGD(first.policy.parameters(), lr=0.01)
    first.train(48, progress=False)
    again = PPO(toy_policy(), toy_venv(4), CONFIG, tmp_path, resume=True)
    with raises(CheckpointError, "SGD", "Adam", "trainer.optimizer"):
        again.train(progress=False)
    again.optimizer = torch.optim.SGD(again.policy.parameters(), lr=0.01)
    again.train(progress=False)
    assert again.step == CONFIG.total_timesteps


def test_amsgrad_is_part_of_an_optimizers_state(toy_policy: Any, toy_venv: Any, tmp_path: Path) -> None:
    PPO(toy_policy(), toy_venv(4), CONFIG, tmp_path).train(48, progress=False)
    again = PPO(toy_policy(), toy_venv(4), CONFIG, tmp_path, resume=True)
    with raises(CheckpointError, "max_exp_avg_sq", "exp_avg"):
        again.optimizer = torch.optim.Adam(again.policy.parameters(), amsgrad=True)


def test_checkpoints_without_the_optimizers_class_are_of_adam(
    toy_policy: Any, toy_venv: Any, tmp_path: Path
) -> None:
    PPO(toy_policy(), toy_venv(4), CONFIG, tmp_path).train(progress=False)
    stored = read_checkpoint(checkpoint_paths(tmp_path / "checkpoints")[-1])
    assert stored.metadata.pop("optimizer") == "Adam"  # AdamW is one
    again = PPO(toy_policy(), toy_venv(4), CONFIG)
    again.restore(stored)
    with raises(CheckpointError, "SGD", "Adam"):
        again.optimizer = with_momentum(again.policy)
    again.optimizer = with_adam(again.policy)
    assert again.optimizer.state


def test_networks_that_share_weights_are_saved(tmp_path: Path) -> None:
    venv = ez.make_vec("MineSweeper", num_envs=4)
    nets = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        net = ez.RogueNet(venv.single_observation_space, venv.single_action_space, d_model=8, n_layer=2)
        blocks = net.policy_net.backbone.blocks
        blocks[1].mlp = blocks[0].mlp
        nets.append(net)
    config = PPOConfig(total_timesteps=64, num_steps=16)
    PPO(nets[0], venv, config, tmp_path).train(progress=False)
    PPO(nets[1], venv, config, tmp_path, resume=True)
    for name, tensor in nets[0].state_dict().items():
        assert torch.equal(tensor, nets[1].state_dict()[name]), name
