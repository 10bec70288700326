"""Checkpoints that others wrote to do harm: one CheckpointError, quickly, and no file outside is opened."""

from __future__ import annotations

import json
import os
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from entitize import RogueNet, load_agent
from entitize.envs import Categorical, EntityActionSpace, EntitySpace, space_schema
from entitize.policies import METADATA
from entitize.trainers import PPO, CheckpointError, load_policy, read_checkpoint, write_checkpoint

from facts import raises
from fuzz_checkpoints import PAST_SELVES, Files, deep, networks, run, trained

SECONDS = 30  # for one refusal, on a busy machine; each took minutes, or the memory


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Files], PPO]:
    folder = tmp_path_factory.mktemp("sound")
    files, trainer = trained(folder, "MineSweeper")
    return [files, *networks(folder)], trainer


@pytest.fixture
def readers(sound: tuple[list[Files], PPO]) -> list[Callable[[Path], Any]]:
    return [load_agent, load_policy, sound[1].restore]


def refused(readers: list[Callable[[Path], Any]], path: Path, *facts: object) -> None:
    """Every reader raises a CheckpointError that has the path and `facts` in it, and takes no long."""
    for reader in readers:
        start = time.perf_counter()
        with raises(CheckpointError, path, *facts):
            reader(path)
        assert time.perf_counter() - start < SECONDS


def changed(files: Files, change: Callable[[dict[str, Any]], Any]) -> Files:
    metadata = files.metadata()
    change(metadata)
    return files.with_metadata(metadata)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints" / "step_000000000016"


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a":' * 100_000, '{"a":[{}' + ",[" * 900 + "]" * 901 + "]}"]
)
def test_deep_metadata(sound: Any, readers: Any, path: Path, text: str) -> None:
    Files({**sound[0][0], METADATA: text.encode()}).write(path)
    refused(readers, path, METADATA)


def test_metadata_a_little_too_deep_with_the_right_hash(sound: Any, readers: Any, path: Path) -> None:
    changed(sound[0][0], lambda m: m.update(extra=deep(70))).write(path)
    refused(readers, path, METADATA, 64)


@pytest.mark.parametrize("name", ["../secret", "/etc/hostname", "sub/policy.safetensors", "..", "", "\ud800"])
def test_a_listed_file_outside_of_the_folder_is_not_opened(
    sound: Any, path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    changed(sound[0][0], lambda m: m["sha256"].update({name: "0" * 64})).write(path)
    opened: list[Any] = []
    original = os.open

    def spy(file: Any, *args: Any, **kwargs: Any) -> int:
        opened.append(Path(os.fsdecode(file)).resolve())
        return original(file, *args, **kwargs)

    monkeypatch.setattr(os, "open", spy)
    for reader in (load_agent, load_policy, read_checkpoint):
        with raises(CheckpointError, path, "sha256"):
            reader(path)
    assert opened and all(file.parent == path.resolve() for file in opened)


@pytest.mark.skipif(os.name == "nt", reason="needs links and pipes")
@pytest.mark.parametrize("name", [METADATA, "policy.safetensors"])
def test_links_pipes_and_devices(sound: Any, readers: Any, path: Path, name: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    sound[0][0].write(path)
    (path / name).rename(secret)
    (path / name).symlink_to(secret)
    refused(readers, path, name, "link")
    (path / name).unlink()
    (path / name).symlink_to("/dev/zero")
    refused(readers, path, name, "link")
    (path / name).unlink()
    os.mkfifo(path / name)
    refused(readers, path, name, "pipe")
    (path / name).unlink()
    (path / name).mkdir()
    refused(readers, path, name, "folder")


@pytest.mark.skipif(os.name == "nt", reason="needs links")
def test_a_linked_checkpoint_of_a_run_is_none(sound: Any, path: Path, tmp_path: Path) -> None:
    sound[0][0].write(tmp_path / "elsewhere")
    path.parent.mkdir()
    path.symlink_to(tmp_path / "elsewhere")
    with raises(CheckpointError, tmp_path):
        load_agent(tmp_path)
    load_agent(tmp_path / "elsewhere")


def option(name: str, value: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda metadata: metadata["policy"]["config"].update({name: value})


def action(**options: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda metadata: metadata["spaces"]["actions"].update(Move=options)


@pytest.mark.parametrize(
    ("change", "facts"),
    [
        (option("n_layer", 10**7), ("n_layer", 10**7)),
        (option("d_model", 10**6), ("d_model", 10**6)),
        (option("d_qk", 10**300), ("d_qk",)),
        (option("d_model", 1024), ("1024",)),
        (option("n_layer", 60), ("blocks",)),
        (option("fourier", {"features": ["x"], "wavelengths": [float(i + 1) for i in range(60)] * 20}), ()),
        (option("fourier", {"features": ["x"] * 10**5, "wavelengths": [1.0]}), ("features", 10**5)),
        (option("relative_position", {"extent": [1000] * 9, "position": ["x"] * 9}), ()),
        (option("relative_position", {"extent": [1] * 65, "position": ["x"] * 65}), ("extent", 65)),
        (option("relative_position", {"extent": [1] * 10**5, "position": []}), ("extent", 10**5)),
        (option("translation", {"reference": "Robot", "position": ["x"] * 500}), ("position", "'x'")),
        (action(kind="Categorical", choices=10**7), ("Move", 10**7)),
        (action(kind="Categorical", choices=-(10**7)), ()),
        (action(kind="MultiCategorical", components={"a": 10**9}), ("Move", 10**9)),
        (action(kind="MultiCategorical", components={f"c{i}": 1000 for i in range(1000)}), ("Move",)),
        (action(kind="MultiCategorical", components=[1, 2]), ()),
        (action(kind=["Categorical"], choices=3), ("kind",)),
        (lambda m: m["spaces"].update(frame=[10**6, 10**6, 3]), ("frame", 10**12 * 3)),
        (lambda m: m["spaces"].update(frame="x"), ()),
        (lambda m: m["spaces"].update(entities=[]), ("entities",)),
        (lambda m: m["spaces"].update(entities={"Mine": "xy"}), ("Mine",)),
        (lambda m: m["spaces"].update(entities={f"t{i}": [] for i in range(10**5)}), ("entities", 10**5)),
        (lambda m: m["spaces"].update(entities={"t": [f"f{i}" for i in range(10**5)]}), ("'t'", 10**5)),
        (lambda m: m["spaces"].update(actions=3), ()),
        (lambda m: m["spaces"].update(actions={"Move": 3}), ()),
        (lambda m: m["spaces"].update(global_features={"a": 1}), ()),
        (lambda m: m["spaces"].update(hidden=None), ("hidden",)),
        (lambda m: m.update(spaces=None), ()),
        (lambda m: m.update(policy=[]), ()),
        (lambda m: m["policy"].update(config=3), ()),
        (lambda m: m["policy"].update({"class": ["RogueNet"]}), ()),
    ],
)  # fmt: skip
def test_a_network_that_its_weights_do_not_justify(
    sound: Any, path: Path, change: Callable[[dict[str, Any]], Any], facts: tuple[object, ...]
) -> None:
    changed(sound[0][0], change).write(path)
    refused([load_agent, load_policy], path, *facts)
    refused([sound[1].restore], path)


FEATURES = [f"f{i}" for i in range(80)]
TWO_TYPES = {"A": [f"a{i}" for i in range(31)], "B": [f"b{i}" for i in range(30)]}
SMALL = {"d_model": 4, "n_head": 2, "n_layer": 1}


@pytest.mark.parametrize(
    ("entities", "options"),
    [
        ({"A": FEATURES}, {"fourier": {"features": FEATURES, "wavelengths": [1.0, 2.0]}}),
        ({"A": FEATURES}, {"translation": {"reference": "A", "position": FEATURES}}),
        (
            {"A": FEATURES},
            {"relative_position": {"extent": [2], "position": FEATURES, "distance": True}},
        ),
        ({"A": ["x"]}, {"d_qk": 20_000}),
        (
            TWO_TYPES,
            {**SMALL, "fourier": {"features": ["a0"], "wavelengths": [float(i + 1) for i in range(22)]}},
        ),
    ],
)
def test_networks_with_few_weights_for_long_options_are_read(
    path: Path, entities: dict[str, list[str]], options: dict[str, Any]
) -> None:
    saved(path, entities, **options)
    for reader in (load_agent, load_policy):
        reader(path)


def saved(path: Path, entities: dict[str, list[str]], **options: Any) -> Files:
    """Write the checkpoint of a new network to `path`."""
    space = EntitySpace(entities, EntityActionSpace({"move": Categorical(2)}))
    net = RogueNet(space, space.actions, **options)
    metadata = {"spaces": space_schema(space), "policy": {"class": "RogueNet", "config": net.config}}
    return Files.read(write_checkpoint(path.parent, 16, {"policy": net.state_dict()}, metadata))


def test_a_distance_with_more_wavelengths_than_its_weights_justify(path: Path) -> None:
    entities = {f"t{i}": ["x"] for i in range(40)}
    wavelengths = {"features": ["distance to reference"], "wavelengths": [1.0]}
    files = saved(
        path,
        entities,
        translation={"reference": "t0", "position": ["x"], "add_distance": True},
        fourier=wavelengths,
    )
    more = {**wavelengths, "wavelengths": [i + 0.5 for i in range(5000)]}
    changed(files, option("fourier", more)).write(path)
    refused([load_agent, load_policy], path, "wavelengths", 39 * 5000)


def test_a_very_long_name_of_a_feature_with_many_wavelengths(path: Path) -> None:
    fourier = {"features": ["x" * 10**6], "wavelengths": [i + 0.5 for i in range(1000)]}
    files = saved(path, {"A": ["x" * 10**6]}, fourier={**fourier, "wavelengths": [1.0]})
    changed(files, option("fourier", fourier)).write(path)
    refused([load_agent, load_policy], path, "fourier", 10**9)


@pytest.mark.parametrize("name", ["fourier", "translation", "relative_position"])
def test_very_many_features_that_options_name_take_no_long(path: Path, name: str) -> None:
    features = [f"f{i}" for i in range(40_000)]
    options: dict[str, Any] = {
        "fourier": {"features": features, "wavelengths": [1.0]},
        "translation": {"reference": "A", "position": features},
        "relative_position": {"extent": [2], "position": features, "distance": True},
    }
    saved(path, {"A": features}, d_model=2, n_layer=0, **{name: options[name]})
    start = time.perf_counter()
    load_policy(path)
    assert time.perf_counter() - start < SECONDS / 3


def edited(content: bytes, edit: Callable[[dict[str, Any], bytearray], Any]) -> bytes:
    """A safetensors file after `edit` of its table and of its numbers."""
    length = struct.unpack("<Q", content[:8])[0]
    table, data = json.loads(content[8 : 8 + length]), bytearray(content[8 + length :])
    edit(table, data)
    text = json.dumps(table).encode()
    return struct.pack("<Q", len(text)) + text + bytes(data)


def test_very_many_empty_tensors(sound: Any, readers: Any, path: Path) -> None:
    def add(table: dict[str, Any], _: bytearray) -> None:
        empty = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
        table.update({f"more{i}": empty for i in range(100_000)})

    files = sound[0][0]
    name = "policy.safetensors"
    files.with_tensors(name, edited(files[name], add)).write(path)
    refused(readers, path, name, 10_000)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("weight", ["value_head.proj.weight", "normalization.Robot.mean"])
def test_weights_that_are_no_numbers(sound: Any, readers: Any, path: Path, weight: str, value: float) -> None:
    def spoil(table: dict[str, Any], data: bytearray) -> None:
        entry = table[weight]
        start = entry["data_offsets"][0]
        number = struct.pack("<f" if entry["dtype"] == "F32" else "<d", value)
        data[start : start + len(number)] = number

    files = sound[0][0]
    files.with_tensors("policy.safetensors", edited(files["policy.safetensors"], spoil)).write(path)
    refused(readers, path, "policy.safetensors", weight, str(value))


@pytest.mark.parametrize("weight", ["normalization.Robot.count", "normalization.Robot.squares_sum"])
def test_statistics_below_zero(sound: Any, readers: Any, path: Path, weight: str) -> None:
    def spoil(table: dict[str, Any], data: bytearray) -> None:
        start = table[weight]["data_offsets"][0]
        data[start : start + 8] = struct.pack("<d", -1.0)

    files = sound[0][0]
    files.with_tensors("policy.safetensors", edited(files["policy.safetensors"], spoil)).write(path)
    refused(readers, path, weight, "-1.0")


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.update(step=10**300),
        lambda m: m.update(step="16"),
        lambda m: m.update(updates=-1),
        lambda m: m.update(elapsed_seconds=float("nan")),
        lambda m: m.update(elapsed_seconds=10**400),
        lambda m: m.update(num_envs=None, rng=None),
        lambda m: m["rng"].update(state={"state": 2**300, "inc": 1}),
        lambda m: m["rng"]["state"].update(inc=-1),
    ],
)  # fmt: skip
def test_a_state_of_the_trainer_that_is_none(
    sound: Any, path: Path, change: Callable[[dict[str, Any]], Any]
) -> None:
    trainer = sound[1]
    before = trainer.step, trainer.updates, trainer.rng.bit_generator.state
    changed(sound[0][0], change).write(path)
    refused([trainer.restore], path)
    assert before == (trainer.step, trainer.updates, trainer.rng.bit_generator.state)


def test_damaged_checkpoints_are_read_or_refused(tmp_path: Path) -> None:
    failures: list[str] = []
    counts = run(300, 7, tmp_path, failures.append, ["MineSweeper", PAST_SELVES])
    assert not failures, failures[0]
    outcomes = {
        word: sum(n for key, n in counts.items() if key.endswith(word)) for word in ("read", "refused")
    }
    assert outcomes["read"] > 30 and outcomes["refused"] > 100
