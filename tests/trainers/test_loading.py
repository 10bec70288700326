"""Networks out of runs: what was trained is what is loaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from entitize import RogueNet, make_vec, save_policy
from entitize.envs import (
    Continuous,
    EntityActionSpace,
    EntitySpace,
    GlobalContinuous,
    schema_difference,
    space_from_schema,
    space_schema,
)
from entitize.trainers import (
    PPO,
    CheckpointError,
    PPOConfig,
    checkpoint_paths,
    load_policy,
    read_checkpoint,
    write_checkpoint,
)
from torch import nn

from facts import raises

CONFIG = PPOConfig(total_timesteps=128, num_steps=8, checkpoint_interval=64)


@pytest.fixture(scope="module")
def run(tmp_path_factory: Any) -> tuple[Path, RogueNet]:
    """A short run of RogueNet on MineSweeper and the network that it trained."""
    path = tmp_path_factory.mktemp("run")
    with make_vec("entitize/MineSweeper-v0", num_envs=8) as venv:
        policy = RogueNet(venv.single_observation_space, venv.single_action_space, n_layer=1)
        PPO(policy, venv, CONFIG, path).train()
    return path, policy


def test_a_loaded_network_acts_as_the_trained_one(run: tuple[Path, RogueNet]) -> None:
    path, trained = run
    loaded = load_policy(path)
    assert loaded.observation_space == trained.observation_space and loaded.config == trained.config
    assert not loaded.training
    with make_vec("entitize/MineSweeper-v0", num_envs=8) as venv:
        batch, _ = venv.reset(seed=3)
    results = [net.eval().act(batch, np.random.default_rng(1)) for net in (trained, loaded)]
    assert results[0].actions == results[1].actions
    np.testing.assert_array_equal(results[0].values, results[1].values)


def test_an_older_checkpoint_and_other_options_can_be_asked_for(run: tuple[Path, RogueNet]) -> None:
    path, _ = run
    older, newest = checkpoint_paths(path / "checkpoints")
    assert load_policy(older, engine="torch").config["engine"] == "torch"
    before, after = (load_policy(p).state_dict() for p in (older, newest))
    assert any(not torch.equal(before[name], after[name]) for name in before)


def test_a_network_of_another_shape_can_not_go_on(run: tuple[Path, RogueNet]) -> None:
    with make_vec("entitize/MineSweeper-v0", num_envs=8) as venv:
        policy = RogueNet(venv.single_observation_space, venv.single_action_space, n_layer=2)
        with raises(CheckpointError, "network", "n_layer", 2, 1):
            PPO(policy, venv, CONFIG, run[0], resume=True)


def test_what_holds_no_network_is_refused(run: tuple[Path, RogueNet], tmp_path: Path) -> None:
    good = read_checkpoint(checkpoint_paths(run[0] / "checkpoints")[-1])

    def written(**changes: Any) -> Path:
        metadata = {**good.metadata, **changes}
        del metadata["step"]
        return write_checkpoint(tmp_path, 1, good.tensors, metadata)

    (tmp_path / "empty" / "checkpoints").mkdir(parents=True)
    with raises(CheckpointError, tmp_path / "empty", "no checkpoint"):
        load_policy(tmp_path / "empty")
    with raises(CheckpointError, tmp_path / "nothing"):
        load_policy(tmp_path / "nothing")
    with raises(CheckpointError, "ToyPolicy", "RogueNet, TransformerNet, GridNet"):
        load_policy(written(policy={"class": "ToyPolicy", "config": {}}))
    with raises(CheckpointError, "network", "TypeError"):
        load_policy(written(policy={"class": "RogueNet", "config": {"d_modl": 3}}))
    with raises(CheckpointError, "network", "KeyError"):
        load_policy(written(spaces={"entities": {}}))
    with raises(CheckpointError, "network", 32):
        load_policy(written(), d_model=32)


def test_a_wrong_option_is_not_blamed_on_the_checkpoint(run: tuple[Path, RogueNet]) -> None:
    with raises(TypeError, "RogueNetConfig", "'engin'", "'engine'"):
        load_policy(run[0], engin="torch")
    with raises(ValueError, "engine", "'fast'", "'auto'"):
        load_policy(run[0], engine="fast")


def test_a_small_network_may_have_a_large_scale_of_positions(tmp_path: Path) -> None:
    space = EntitySpace({"Unit": ["x", "y"]}, EntityActionSpace({"Push": GlobalContinuous(0.0, 1.0)}))
    options = {"extent": [1, 1], "position": ["x", "y"], "scale": 2000}
    net = RogueNet(space, space.actions, d_model=4, n_layer=1, n_head=1, relative_position=options)
    relative = net.config["relative_position"]
    assert isinstance(relative["scale"], float)
    for scale in (2000, 2000.0):  # earlier versions stored an integer
        config = {**net.config, "relative_position": {**relative, "scale": scale}}
        metadata = {"spaces": space_schema(space), "policy": {"class": "RogueNet", "config": config}}
        path = write_checkpoint(tmp_path, 0, {"policy": net.state_dict()}, metadata)
        assert load_policy(path).config == net.config


def test_continuous_actions_survive_as_json_to_the_bit() -> None:
    low, high = np.float32([0.1, -np.inf, 1e-42, -3]), np.float32([0.3, 7, np.inf, -2.9999998])
    actions = EntityActionSpace({"Steer": Continuous(low, high), "Throttle": GlobalContinuous(-0.7, np.pi)})
    space = EntitySpace({"Car": ["x"]}, actions)
    schema = space_schema(space)
    stored = json.loads(json.dumps(schema, allow_nan=False))
    assert stored == schema
    loaded = space_from_schema(stored)
    assert loaded == space
    assert [type(action) for _, action in loaded.actions.items()] == [Continuous, GlobalContinuous]
    steer = loaded.actions["Steer"]
    assert isinstance(steer, Continuous) and steer.low.dtype == np.float32
    assert steer.low.tobytes() == low.tobytes() and steer.high.tobytes() == high.tobytes()
    wider = EntityActionSpace({**actions.spaces, "Throttle": GlobalContinuous(-0.7, 4)})
    difference = schema_difference(schema, space_schema(EntitySpace({"Car": ["x"]}, wider)))
    assert str(difference).startswith("action 'Throttle': {'kind': 'GlobalContinuous', 'low': [-0.69999")
    per_actor = EntityActionSpace({**actions.spaces, "Throttle": Continuous(-0.7, np.pi)})
    assert schema_difference(schema, space_schema(EntitySpace({"Car": ["x"]}, per_actor))) is not None
    spoiled = {**schema, "actions": {"Steer": {"kind": "Continuous", "low": [1.0], "high": [0.0]}}}
    with raises(ValueError, "low", "high"):
        space_from_schema(spoiled)


def test_spaces_survive_as_json_and_their_differences_are_told(toy_venv: Any) -> None:
    space = toy_venv.single_observation_space
    schema = space_schema(space)
    assert space_from_schema(schema) == space
    assert schema_difference(schema, schema) is None
    turned = EntitySpace(dict(reversed(space.entities.items())), space.actions, space.global_features)
    assert schema_difference(schema, space_schema(turned)) == (
        "order of entities: ['Robot', 'Crate'] here, ['Crate', 'Robot'] there"
    )
    other = EntitySpace(space.entities, space.actions, ["time", "score"], hidden=True)
    difference = schema_difference(schema, space_schema(other))
    assert difference == "global_features: ['time'] here, ['time', 'score'] there"
    fewer = EntitySpace(space.entities, EntityActionSpace({"Shout": space.actions["Shout"]}), ["time"])
    assert "action 'Paint'" in str(schema_difference(schema, space_schema(fewer)))
    with raises(ValueError, "action 'Paint'", "'Dance'"):
        space_from_schema({**schema, "actions": {"Paint": {"kind": "Dance"}}})


class Counting(RogueNet):
    """With a head of its own."""

    def __init__(self, *spaces: Any, **options: Any) -> None:
        super().__init__(*spaces, **options)
        self.count = nn.Linear(self.settings.d_model, 1)


def test_a_network_of_ones_own_class_is_loaded_by_it(tmp_path: Path) -> None:
    venv = make_vec("MineSweeper", num_envs=2)
    net = Counting(venv.single_observation_space, venv.single_action_space, d_model=8, n_layer=1)
    path = save_policy(net, tmp_path / "policy")
    loaded = load_policy(path, network=Counting)
    assert type(loaded) is Counting and not loaded.training
    for name, tensor in net.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor)
    assert load_policy(path, network=Counting, engine="torch").engine.name == "torch"
    with raises(CheckpointError, "Counting", "network="):
        load_policy(path)
    with raises(CheckpointError, "Counting", "RogueNet"):
        load_policy(path, network=RogueNet)
    namesake: Any = type("Counting", (RogueNet,), {})
    for _ in range(8):  # the file's reader gives tensors in a random order: the first that differs is named
        with raises(CheckpointError, "count.bias", "absent"):
            load_policy(path, network=namesake)
